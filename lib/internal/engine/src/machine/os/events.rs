//! Parser of the records that the kernel writes to the rings of tracepoints.
//!
//! The input can be any bytes. Descriptions by the kernel define the positions of the fields.

use crate::machine::os::record_parts::{HEADER, TRAILER, number, record_kind, split_record};

/// An event on a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceEvent {
    /// `CLOCK_MONOTONIC`, in nanoseconds.
    pub at_ns: i64,
    pub cpu: u32,
    /// The current thread. During an interrupt, this is the interrupted thread.
    pub thread: u32,
    pub kind: TraceEventKind,
}

/// Kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceEventKind {
    /// A thread of `process` was created by a thread of the process `parent`.
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
    /// The current thread enters or leaves a system call.
    Enter {
        call: i64,
    },
    Return {
        call: i64,
    },
    /// A timer is started that expires between `soft_ns` and `hard_ns` of its clock.
    Start {
        timer: u64,
        function: u64,
        soft_ns: i64,
        hard_ns: i64,
    },
    Cancel {
        timer: u64,
    },
    /// The function of a timer starts at `now_ns` of the clock of the timer, or has ended.
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
    /// The CPU switches from the current thread, which is now in `state`, to another thread.
    Switch {
        state: i64,
        next: u32,
        next_name: ThreadName,
    },
    /// Records between this time and `until_ns` are missing.
    Lost {
        records: u64,
        until_ns: i64,
    },
}

/// The name of a thread, in the form of the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ThreadName([u8; 16]);

impl ThreadName {
    /// Creates a name from the bytes up to the first zero.
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

/// The recorded tracepoints, with the fields that are parsed.
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

/// The set of tracepoints to record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceScope {
    /// All tracepoints.
    Waits,
    /// Expirations of timers, and the threads that they wake.
    Wakeups,
}

impl TraceScope {
    /// Returns whether the tracepoint `path` is recorded.
    pub fn includes(self, path: &str) -> bool {
        const WAKEUPS: [&str; 3] =
            ["timer/hrtimer_expire_entry", "timer/hrtimer_expire_exit", "sched/sched_waking"];
        self == Self::Waits || WAKEUPS.contains(&path)
    }
}

/// Position of a field in a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Field {
    offset: usize,
    size: usize,
}

/// Layout of the records of a tracepoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TracepointLayout {
    /// Number at the start of each record.
    pub id: u64,
    fields: [Field; FIELDS],
}

/// A description of a tracepoint that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    #[error("it has no id")]
    NoId,
    #[error("it has no {0}")]
    NoField(String),
}

impl TracepointLayout {
    /// Parses the description of a tracepoint by the kernel.
    ///
    /// # Errors
    ///
    /// Returns an error if the description lacks an id or one of the fields.
    pub fn parse(format: &str, wanted: &[&str]) -> Result<Self, LayoutError> {
        let id = format.lines().find_map(|line| line.strip_prefix("ID:")?.trim().parse().ok());
        let mut layout = Self { id: id.ok_or(LayoutError::NoId)?, ..Self::default() };
        for (field, name) in layout.fields.iter_mut().zip(wanted) {
            *field = format
                .lines()
                .find_map(|line| parse_field(line, name))
                .ok_or_else(|| LayoutError::NoField((*name).to_owned()))?;
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

/// Parses a line such as `field:pid_t pid; offset:24; size:4; signed:1;`.
fn parse_field(line: &str, name: &str) -> Option<Field> {
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
/// Offset of the data of a sample, which follows these fields and its length.
const SAMPLE_DATA: usize = HEADER + TRAILER + 4;

/// Parser of the successive contents of a CPU's ring.
#[derive(Clone, Debug, Default)]
pub struct TraceReader {
    last_ns: i64,
    /// Number of parsed records of tracepoints.
    pub samples: u64,
    /// Number of records that the kernel reported as lost.
    pub lost: u64,
}

impl TraceReader {
    /// Appends the events of a ring, oldest first. The layouts are those of [`TRACEPOINTS`].
    pub fn read(
        &mut self,
        bytes: &[u8],
        layouts: &[TracepointLayout],
        events: &mut Vec<TraceEvent>,
    ) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let Some((record, after)) = split_record(rest) else {
                // The start of the next record is unknown.
                events.push(self.unreadable());
                return;
            };
            rest = after;
            match self.parse_record(record, layouts) {
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

    /// Parses a record. Returns `None` if it is invalid, and `Some(None)` if it is not needed.
    fn parse_record(
        &self,
        record: &[u8],
        layouts: &[TracepointLayout],
    ) -> Option<Option<TraceEvent>> {
        let kind = record_kind(record);
        if kind == SAMPLE {
            return parse_sample_record(record, layouts);
        }
        let trailer = record.len().checked_sub(TRAILER).filter(|&at| at >= HEADER)?;
        let body = &record[..trailer];
        let word = |at: usize| Some(number::<4>(body, HEADER + 4 * at)? as u32);
        let what = match kind {
            FORK => {
                TraceEventKind::Forked { process: word(0)?, parent: word(1)?, thread: word(2)? }
            }
            EXIT => TraceEventKind::Ended { thread: word(2)? },
            COMM => TraceEventKind::Named {
                thread: word(1)?,
                name: ThreadName::from_bytes(body.get(HEADER + 8..)?),
            },
            LOST => return self.parse_loss(record, trailer).map(Some),
            _ => return Some(None),
        };
        Some(Some(stamped(record, trailer, what)?))
    }

    /// Parses a record of a loss. The body is an id and the number of records, lost since the
    /// previous record.
    fn parse_loss(&self, record: &[u8], trailer: usize) -> Option<TraceEvent> {
        let loss = stamped(record, trailer, TraceEventKind::Ended { thread: 0 })?;
        let records = number::<8>(&record[..trailer], HEADER + 8)?;
        let kind = TraceEventKind::Lost { records, until_ns: loss.at_ns };
        Some(TraceEvent { at_ns: self.last_ns, kind, ..loss })
    }
}

/// Parses a sample. Returns `None` if it is invalid, and `Some(None)` if it is of another
/// tracepoint.
fn parse_sample_record(record: &[u8], layouts: &[TracepointLayout]) -> Option<Option<TraceEvent>> {
    let length = number::<4>(record, SAMPLE_DATA - 4)? as usize;
    let raw = record.get(SAMPLE_DATA..SAMPLE_DATA.checked_add(length)?)?;
    let id = number::<2>(raw, 0)?;
    let Some(index) = layouts.iter().position(|layout| layout.id == id) else {
        return Some(None);
    };
    let what = parse_sample(index, &layouts[index], raw)?;
    Some(Some(stamped(record, HEADER, what)?))
}

/// Adds the thread, time and CPU, which are at `at`, to the kind of an event.
fn stamped(record: &[u8], at: usize, kind: TraceEventKind) -> Option<TraceEvent> {
    Some(TraceEvent {
        at_ns: i64::try_from(number::<8>(record, at + 8)?).ok()?,
        cpu: number::<4>(record, at + 16)? as u32,
        thread: number::<4>(record, at + 4)? as u32,
        kind,
    })
}

/// Parses the sample of a tracepoint, given by its index in [`TRACEPOINTS`].
fn parse_sample(index: usize, layout: &TracepointLayout, raw: &[u8]) -> Option<TraceEventKind> {
    let field = |field| layout.number(raw, field);
    Some(match index {
        0 => TraceEventKind::Enter { call: field(0)? as i64 },
        1 => TraceEventKind::Return { call: field(0)? as i64 },
        2 => TraceEventKind::Start {
            timer: field(0)?,
            function: field(1)?,
            soft_ns: field(2)? as i64,
            hard_ns: field(3)? as i64,
        },
        3 => TraceEventKind::Cancel { timer: field(0)? },
        4 => TraceEventKind::Expire {
            timer: field(0)?,
            function: field(1)?,
            now_ns: field(2)? as i64,
        },
        5 => TraceEventKind::Expired { timer: field(0)? },
        6 => TraceEventKind::Waking { thread: field(0)? as u32 },
        7 => TraceEventKind::Switch {
            state: field(0)? as i64,
            next: field(1)? as u32,
            next_name: ThreadName::from_bytes(layout.bytes(raw, 2)?),
        },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use jitterstat::stats::random::SplitMix64;

    use super::*;

    /// Description by kernel 6.18.
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
        let mut layouts = Vec::new();
        for (id, (_, wanted)) in (100..).zip(TRACEPOINTS) {
            let fields = (0..wanted.len()).map(|i| Field { offset: 8 + 8 * i, size: 8 });
            let mut layout = TracepointLayout { id, ..TracepointLayout::default() };
            for (to, from) in layout.fields.iter_mut().zip(fields) {
                *to = from;
            }
            layouts.push(layout);
        }
        layouts[7] = TracepointLayout::parse(SWITCH, TRACEPOINTS[7].1).unwrap();
        layouts
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

    fn numbers(values: &[u64]) -> Vec<u8> {
        values.iter().flat_map(|n| n.to_ne_bytes()).collect()
    }

    fn sample_ring() -> Vec<u8> {
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
    fn events_are_parsed_by_description() {
        let event = |at_ns, cpu, thread, what| TraceEvent { at_ns, cpu, thread, kind: what };
        let start = TraceEventKind::Start {
            timer: 0xffff_8880_0000_0010,
            function: 7,
            soft_ns: 1_000,
            hard_ns: 1_050,
        };
        assert_eq!(
            read(&sample_ring()),
            [
                event(90, 0, 3, TraceEventKind::Forked { process: 5, thread: 6, parent: 3 }),
                event(
                    95,
                    0,
                    6,
                    TraceEventKind::Named { thread: 6, name: ThreadName::from_bytes(b"a loop") }
                ),
                event(100, 1, 8, start),
                event(100, 1, 0, TraceEventKind::Lost { records: 5, until_ns: 200 }),
                event(
                    300,
                    1,
                    8,
                    TraceEventKind::Switch {
                        state: 1,
                        next: 9,
                        next_name: ThreadName::from_bytes(b"hog")
                    }
                ),
                event(400, 0, 6, TraceEventKind::Ended { thread: 6 }),
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
    fn missing_fields_are_named() {
        let error = |format: &str| {
            TracepointLayout::parse(format, TRACEPOINTS[7].1).unwrap_err().to_string()
        };
        assert_eq!(error(&SWITCH.replace("next_pid", "to")), "it has no next_pid");
        assert_eq!(error(&SWITCH.replace("ID:", "")), "it has no id");
        assert_eq!(error(&SWITCH.replace("size:8", "size:x")), "it has no prev_state");
        let out_of_range = TracepointLayout::parse(
            &SWITCH.replace("offset:56", "offset:18446744073709551615"),
            TRACEPOINTS[7].1,
        )
        .unwrap();
        assert_eq!(out_of_range.number(&[0; 64], 1), None);
    }

    #[test]
    fn hostile_rings_are_bounded() {
        let whole = sample_ring();
        for end in 0..whole.len() {
            assert!(read(&whole[..end]).len() <= 6, "{end}");
        }
        let (layouts, mut random) = (layouts(), SplitMix64::new(11));
        for _ in 0..2_000 {
            let mut bytes = sample_ring().repeat(1 + random.index(4));
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
