//! What the kernel writes into rings of tracepoints: read from plain bytes, whatever these hold.
//! Where a field lies in a record, the kernel's own descriptions say.

use crate::machine::os::switches::number;

/// Something that happened on a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceEvent {
    /// `CLOCK_MONOTONIC`, in nanoseconds.
    pub at_ns: i64,
    pub cpu: u32,
    /// The thread that was current; an interrupt's is whoever it interrupted.
    pub thread: u32,
    pub kind: TraceEventKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceEventKind {
    /// A thread came to be, as a thread of this process, by one of that process.
    Forked {
        process: u32,
        thread: u32,
        parent: u32,
    },
    Ended {
        thread: u32,
    },
    Named {
        thread: u32,
        name: ThreadName,
    },
    /// The current thread calls the kernel, or returns from it.
    Enter {
        call: i64,
    },
    Return {
        call: i64,
    },
    /// A timer is to expire between these, on a clock of its own.
    Start {
        timer: u64,
        function: u64,
        soft_ns: i64,
        hard_ns: i64,
    },
    Cancel {
        timer: u64,
    },
    /// A timer's function begins at `now_ns` of its clock, or has ended.
    Expire {
        timer: u64,
        function: u64,
        now_ns: i64,
    },
    Expired {
        timer: u64,
    },
    Waking {
        thread: u32,
    },
    /// The CPU goes from the current thread, which is now in this state, to another.
    Switch {
        state: i64,
        next: u32,
        next_name: ThreadName,
    },
    /// So many records are missing between this one and a later time.
    Lost {
        records: u64,
        until_ns: i64,
    },
}

/// The name of a thread, as the kernel keeps it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ThreadName([u8; 16]);

impl ThreadName {
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let mut name = [0; 16];
        for (to, from) in name.iter_mut().zip(bytes.iter().take_while(|byte| **byte != 0)) {
            *to = *from;
        }
        Self(name)
    }
}

impl std::fmt::Display for ThreadName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let end = self.0.iter().position(|byte| *byte == 0).unwrap_or(self.0.len());
        f.pad(&String::from_utf8_lossy(&self.0[..end]))
    }
}

/// The tracepoints that are recorded, each with the fields that are read.
pub const TRACEPOINTS: [(&str, &[&str]); 8] = [
    ("raw_syscalls/sys_enter", &["id"]),
    ("raw_syscalls/sys_exit", &["id"]),
    ("timer/hrtimer_start", &["hrtimer", "function", "softexpires", "expires"]),
    ("timer/hrtimer_cancel", &["hrtimer"]),
    ("timer/hrtimer_expire_entry", &["hrtimer", "function", "now"]),
    ("timer/hrtimer_expire_exit", &["hrtimer"]),
    ("sched/sched_waking", &["pid"]),
    ("sched/sched_switch", &["prev_state", "next_pid", "next_comm"]),
];
const FIELDS: usize = 4;

/// Which of them are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceScope {
    /// All.
    Waits,
    /// Timers that expire, and the threads that they wake.
    Wakeups,
}

impl TraceScope {
    pub fn includes(self, path: &str) -> bool {
        const WAKEUPS: [&str; 3] =
            ["timer/hrtimer_expire_entry", "timer/hrtimer_expire_exit", "sched/sched_waking"];
        self == Self::Waits || WAKEUPS.contains(&path)
    }
}

/// Where a field lies in a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Field {
    offset: usize,
    size: usize,
}

/// One tracepoint's records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TracepointLayout {
    /// What its records begin with.
    pub id: u64,
    fields: [Field; FIELDS],
}

impl TracepointLayout {
    /// Reads the kernel's description of a tracepoint.
    ///
    /// # Errors
    /// One of the fields is not there, or is none that is known.
    pub fn read(format: &str, wanted: &[&str]) -> Result<Self, String> {
        let id = format.lines().find_map(|line| line.strip_prefix("ID:")?.trim().parse().ok());
        let mut layout = Self { id: id.ok_or("it has no id")?, ..Self::default() };
        for (field, name) in layout.fields.iter_mut().zip(wanted) {
            *field = format
                .lines()
                .find_map(|line| described(line, name))
                .ok_or_else(|| format!("it has no {name}"))?;
        }
        Ok(layout)
    }

    fn bytes<'a>(&self, record: &'a [u8], field: usize) -> Option<&'a [u8]> {
        let Field { offset, size } = self.fields[field];
        record.get(offset..offset.checked_add(size)?)
    }

    fn number(&self, record: &[u8], field: usize) -> Option<u64> {
        let bytes = self.bytes(record, field)?;
        match bytes.len() {
            4 => number::<4>(bytes, 0),
            8 => number::<8>(bytes, 0),
            _ => None,
        }
    }
}

/// A line such as `field:pid_t pid; offset:24; size:4; signed:1;`.
fn described(line: &str, name: &str) -> Option<Field> {
    let mut parts = line.trim().split(';').map(str::trim);
    let declared = parts.next()?.strip_prefix("field:")?.split_whitespace().next_back()?;
    if declared.split('[').next() != Some(name) {
        return None;
    }
    let mut field = Field::default();
    for part in parts {
        match part.split_once(':') {
            Some(("offset", value)) => field.offset = value.parse().ok()?,
            Some(("size", value)) => field.size = value.parse().ok()?,
            _ => {}
        }
    }
    (field.size > 0).then_some(field)
}

const LOST: u32 = 2;
const COMM: u32 = 3;
const EXIT: u32 = 4;
const FORK: u32 = 7;
const SAMPLE: u32 = 9;
/// Type, flags and size stand before every record.
const HEADER: usize = 8;
/// Behind every record but a sample stand process and thread, the time, and the CPU with a reserved
/// word.
const TRAILER: usize = 24;
/// These stand before a sample, and the length of what follows.
const BEFORE_SAMPLE: usize = HEADER + TRAILER + 4;

/// Reads what one CPU's ring held, ring after ring.
#[derive(Clone, Debug, Default)]
pub struct TraceReader {
    last_ns: i64,
    /// Records of tracepoints that were read.
    pub samples: u64,
    /// Records that the kernel said it had no room for.
    pub lost: u64,
}

impl TraceReader {
    /// Appends the events of a ring, oldest first; the layouts are those of [`TRACEPOINTS`].
    pub fn read(
        &mut self,
        bytes: &[u8],
        layouts: &[TracepointLayout],
        events: &mut Vec<TraceEvent>,
    ) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let size = number::<2>(rest, 6).map_or(0, |size| size as usize);
            if size < HEADER || size > rest.len() {
                // From here on nobody knows where a record begins.
                events.push(self.unreadable());
                return;
            }
            let (record, after) = rest.split_at(size);
            rest = after;
            match self.event(record, layouts) {
                Some(Some(event)) => {
                    self.last_ns = event.at_ns.max(self.last_ns);
                    match event.kind {
                        TraceEventKind::Lost { records, .. } => {
                            self.lost = self.lost.saturating_add(records)
                        }
                        TraceEventKind::Forked { .. }
                        | TraceEventKind::Ended { .. }
                        | TraceEventKind::Named { .. } => {}
                        _ => self.samples += 1,
                    }
                    events.push(event);
                }
                Some(None) => {}
                None => events.push(self.unreadable()),
            }
        }
    }

    fn unreadable(&self) -> TraceEvent {
        let what = TraceEventKind::Lost { records: 1, until_ns: self.last_ns };
        TraceEvent { at_ns: self.last_ns, cpu: 0, thread: 0, kind: what }
    }

    /// `None` for a record that cannot be read, `Some(None)` for one that is of no interest.
    fn event(&self, record: &[u8], layouts: &[TracepointLayout]) -> Option<Option<TraceEvent>> {
        let kind = number::<4>(record, 0)? as u32;
        let word = |at: usize| Some(number::<4>(record, at)? as u32);
        if kind == SAMPLE {
            let length = word(BEFORE_SAMPLE - 4)? as usize;
            let raw = record.get(BEFORE_SAMPLE..BEFORE_SAMPLE.checked_add(length)?)?;
            let id = number::<2>(raw, 0)?;
            let Some(place) = layouts.iter().position(|layout| layout.id == id) else {
                return Some(None);
            };
            let what = sampled(place, &layouts[place], raw)?;
            return Some(Some(stamped(record, HEADER, what)?));
        }
        let trailer = record.len().checked_sub(TRAILER).filter(|&at| at >= HEADER)?;
        let body = &record[..trailer];
        let words = |at: usize| Some(number::<4>(body, HEADER + 4 * at)? as u32);
        let what = match kind {
            FORK => {
                TraceEventKind::Forked { process: words(0)?, parent: words(1)?, thread: words(2)? }
            }
            EXIT => TraceEventKind::Ended { thread: words(2)? },
            COMM => TraceEventKind::Named {
                thread: words(1)?,
                name: ThreadName::from_bytes(body.get(HEADER + 8..)?),
            },
            LOST => {
                // Its number, then how many; they are missing since the record before.
                let own = stamped(record, trailer, TraceEventKind::Ended { thread: 0 })?;
                let what = TraceEventKind::Lost {
                    records: number::<8>(body, HEADER + 8)?,
                    until_ns: own.at_ns,
                };
                return Some(Some(TraceEvent { at_ns: self.last_ns, kind: what, ..own }));
            }
            _ => return Some(None),
        };
        Some(Some(stamped(record, trailer, what)?))
    }
}

/// Process, thread, time and CPU stand at `at`.
fn stamped(record: &[u8], at: usize, what: TraceEventKind) -> Option<TraceEvent> {
    Some(TraceEvent {
        at_ns: i64::try_from(number::<8>(record, at + 8)?).ok()?,
        cpu: number::<4>(record, at + 16)? as u32,
        thread: number::<4>(record, at + 4)? as u32,
        kind: what,
    })
}

fn sampled(place: usize, layout: &TracepointLayout, raw: &[u8]) -> Option<TraceEventKind> {
    let of = |field| layout.number(raw, field);
    Some(match place {
        0 => TraceEventKind::Enter { call: of(0)? as i64 },
        1 => TraceEventKind::Return { call: of(0)? as i64 },
        2 => TraceEventKind::Start {
            timer: of(0)?,
            function: of(1)?,
            soft_ns: of(2)? as i64,
            hard_ns: of(3)? as i64,
        },
        3 => TraceEventKind::Cancel { timer: of(0)? },
        4 => TraceEventKind::Expire { timer: of(0)?, function: of(1)?, now_ns: of(2)? as i64 },
        5 => TraceEventKind::Expired { timer: of(0)? },
        6 => TraceEventKind::Waking { thread: of(0)? as u32 },
        7 => TraceEventKind::Switch {
            state: of(0)? as i64,
            next: of(1)? as u32,
            next_name: ThreadName::from_bytes(layout.bytes(raw, 2)?),
        },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use jitterstat::stats::random::SplitMix64;

    use super::*;

    /// As kernel 6.18 describes it.
    const SWITCH: &str = "name: sched_switch\nID: 372\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
        \tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
        \tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;\n\
        \tfield:long prev_state;\toffset:32;\tsize:8;\tsigned:1;\n\
        \tfield:char next_comm[16];\toffset:40;\tsize:16;\tsigned:0;\n\
        \tfield:pid_t next_pid;\toffset:56;\tsize:4;\tsigned:1;\n\n\
        print fmt: \"prev_comm=%s\", REC->prev_comm\n";

    fn layouts() -> Vec<TracepointLayout> {
        let mut all = Vec::new();
        for (place, (_, wanted)) in (100..).zip(TRACEPOINTS) {
            let fields = (0..wanted.len()).map(|i| Field { offset: 8 + 8 * i, size: 8 });
            let mut layout = TracepointLayout { id: place, ..TracepointLayout::default() };
            layout.fields.iter_mut().zip(fields).for_each(|(to, from)| *to = from);
            all.push(layout);
        }
        all[7] = TracepointLayout::read(SWITCH, TRACEPOINTS[7].1).unwrap();
        all
    }

    fn record(kind: u32, body: &[u8]) -> Vec<u8> {
        let size = u16::try_from(HEADER + body.len()).unwrap();
        [&kind.to_ne_bytes()[..], &0_u16.to_ne_bytes(), &size.to_ne_bytes(), body].concat()
    }

    fn trailer(at_ns: u64, thread: u32, cpu: u32) -> Vec<u8> {
        [
            &7_u32.to_ne_bytes()[..],
            &thread.to_ne_bytes(),
            &at_ns.to_ne_bytes(),
            &cpu.to_ne_bytes(),
            &[0; 4],
        ]
        .concat()
    }

    fn sample(at_ns: u64, id: u16, fields: &[u8]) -> Vec<u8> {
        let raw = [&id.to_ne_bytes()[..], &[0; 6], fields].concat();
        let length = u32::try_from(raw.len()).unwrap();
        record(SAMPLE, &[&trailer(at_ns, 8, 1)[..], &length.to_ne_bytes(), &raw].concat())
    }

    fn numbers(of: &[u64]) -> Vec<u8> {
        of.iter().flat_map(|n| n.to_ne_bytes()).collect()
    }

    fn several() -> Vec<u8> {
        let ids = |words: [u32; 4]| words.iter().flat_map(|w| w.to_ne_bytes()).collect::<Vec<_>>();
        let switch =
            [&[b'a'; 16][..], &numbers(&[0, 1]), b"hog\0junk-junk-ju", &9_u32.to_ne_bytes()]
                .concat();
        [
            record(FORK, &[&ids([5, 3, 6, 3])[..], &numbers(&[90]), &trailer(90, 3, 0)].concat()),
            record(
                COMM,
                &[
                    &5_u32.to_ne_bytes()[..],
                    &6_u32.to_ne_bytes(),
                    b"a loop\0\0",
                    &trailer(95, 6, 0),
                ]
                .concat(),
            ),
            sample(100, 102, &numbers(&[0xffff_8880_0000_0010, 7, 1_000, 1_050])),
            sample(150, 99, &numbers(&[1])),
            record(LOST, &[&numbers(&[1, 5])[..], &trailer(200, 0, 1)].concat()),
            sample(300, 372, &switch),
            record(EXIT, &[&ids([5, 3, 6, 3])[..], &numbers(&[400]), &trailer(400, 6, 0)].concat()),
        ]
        .concat()
    }

    fn read(bytes: &[u8]) -> Vec<TraceEvent> {
        let mut events = Vec::new();
        TraceReader::default().read(bytes, &layouts(), &mut events);
        events
    }

    #[test]
    fn events_are_read_by_the_kernels_own_description() {
        let of = |at_ns, cpu, thread, what| TraceEvent { at_ns, cpu, thread, kind: what };
        let start = TraceEventKind::Start {
            timer: 0xffff_8880_0000_0010,
            function: 7,
            soft_ns: 1_000,
            hard_ns: 1_050,
        };
        assert_eq!(
            read(&several()),
            [
                of(90, 0, 3, TraceEventKind::Forked { process: 5, thread: 6, parent: 3 }),
                of(
                    95,
                    0,
                    6,
                    TraceEventKind::Named { thread: 6, name: ThreadName::from_bytes(b"a loop") }
                ),
                of(100, 1, 8, start),
                of(100, 1, 0, TraceEventKind::Lost { records: 5, until_ns: 200 }),
                of(
                    300,
                    1,
                    8,
                    TraceEventKind::Switch {
                        state: 1,
                        next: 9,
                        next_name: ThreadName::from_bytes(b"hog")
                    }
                ),
                of(400, 0, 6, TraceEventKind::Ended { thread: 6 }),
            ]
        );
        assert_eq!(
            (
                ThreadName::from_bytes(b"hog\0junk").to_string(),
                ThreadName::from_bytes(&[255; 20]).to_string().chars().count()
            ),
            ("hog".to_owned(), 16)
        );
    }

    #[test]
    fn a_description_without_a_field_is_refused_by_its_name() {
        let refused = |format: &str| TracepointLayout::read(format, TRACEPOINTS[7].1).unwrap_err();
        assert_eq!(refused(&SWITCH.replace("next_pid", "to")), "it has no next_pid");
        assert_eq!(refused(&SWITCH.replace("ID:", "")), "it has no id");
        assert_eq!(refused(&SWITCH.replace("size:8", "size:x")), "it has no prev_state");
        let far = TracepointLayout::read(
            &SWITCH.replace("offset:56", "offset:18446744073709551615"),
            TRACEPOINTS[7].1,
        )
        .unwrap();
        assert_eq!(far.number(&[0; 64], 1), None);
    }

    #[test]
    fn hostile_and_truncated_rings_are_read_to_their_end_and_no_further() {
        let whole = several();
        for end in 0..whole.len() {
            assert!(read(&whole[..end]).len() <= 6, "{end}");
        }
        let (layouts, mut random) = (layouts(), SplitMix64::new(11));
        for _ in 0..2_000 {
            let mut bytes = several().repeat(1 + random.index(4));
            for _ in 0..random.index(24) {
                let at = random.index(bytes.len());
                bytes[at] = random.next_u64() as u8;
            }
            bytes.truncate(random.index(bytes.len() + 1));
            for hostile in
                [bytes, (0..random.index(400)).map(|_| random.next_u64() as u8).collect()]
            {
                let (mut events, mut reader) = (Vec::new(), TraceReader::default());
                reader.read(&hostile, &layouts, &mut events);
                assert!(events.len() <= hostile.len() / HEADER + 1 && reader.last_ns >= 0);
            }
        }
    }
}
