//! Parsers of the records of context switches that the kernel writes to a ring. The input can be any
//! bytes.

use files::why::SwitchKind;

use crate::machine::os::mapped_files::MappedFile;
use crate::machine::os::record_parts::{
    HEADER, TRAILER, number, record_kind, record_time, split_record,
};

/// A recorded context switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwitchRecord {
    /// `CLOCK_MONOTONIC`, in nanoseconds.
    pub at_ns: u64,
    pub cpu: u32,
    /// Number of the thread in the system.
    pub thread: u32,
    pub kind: SwitchKind,
    /// Thread that gets the CPU, if `thread` gives it up and the ring is that of a CPU.
    pub next: Option<u32>,
}

/// A thread that was given a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedThread {
    /// `CLOCK_MONOTONIC`, in nanoseconds.
    pub at_ns: u64,
    /// Number of the thread in the system.
    pub thread: u32,
    pub name: String,
}

/// Contents of a ring.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DrainedSwitches {
    /// Switches in the order in which they were written.
    pub switches: Vec<SwitchRecord>,
    /// Threads that were given a name, in this order.
    pub names: Vec<NamedThread>,
    /// Files that programs mapped for execution, in this order.
    pub mapped_files: Vec<MappedFile>,
    /// Number of lost and invalid records.
    pub lost: u64,
}

const LOST: u32 = 2;
const COMM: u32 = 3;
const MMAP2: u32 = 10;
pub(super) const SWITCH: u32 = 14;
const SWITCH_CPU_WIDE: u32 = 15;
const SWITCH_OUT: u16 = 1 << 13;
const SWITCH_OUT_PREEMPT: u16 = 1 << 14;
/// Parses the records of a ring, oldest first.
pub fn parse(bytes: &[u8]) -> DrainedSwitches {
    let mut drained = DrainedSwitches::default();
    let mut rest = bytes;
    while !rest.is_empty() {
        let Some((record, after)) = split_record(rest) else {
            // The start of the next record is unknown.
            drained.lost += 1;
            break;
        };
        rest = after;
        drained.add(record);
    }
    drained
}

/// Last switches in an overwriting ring.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PastSwitches {
    /// Records in the order in which they were written.
    pub records: DrainedSwitches,
    /// Time from which on no record is missing: `CLOCK_MONOTONIC`, in nanoseconds. Zero if nothing
    /// was overwritten since recording began.
    pub complete_from_ns: u64,
}

/// Parses the records of an overwriting ring, newest first. `is_cut` is true if older records
/// were overwritten.
///
/// Records before a loss are left out.
pub fn parse_past(bytes: &[u8], is_cut: bool) -> PastSwitches {
    let mut past = PastSwitches::default();
    let mut rest = bytes;
    let mut lost_at_ns = None;
    // A part of the oldest record may be overwritten.
    while let Some((record, after)) = split_record(rest) {
        if record_kind(record) == LOST {
            // The record after the loss follows.
            lost_at_ns = Some(record_time(record).unwrap_or(u64::MAX));
            break;
        }
        rest = after;
        past.records.add(record);
    }
    past.records.switches.reverse();
    past.records.names.reverse();
    let oldest_ns = past.records.switches.first().map_or(u64::MAX, |switch| switch.at_ns);
    past.complete_from_ns = lost_at_ns.unwrap_or(if is_cut { oldest_ns } else { 0 });
    past
}

impl DrainedSwitches {
    fn add(&mut self, record: &[u8]) {
        let kind = record_kind(record);
        match kind {
            // The body is an id and the number of lost records.
            LOST => {
                self.lost = self.lost.saturating_add(number::<8>(record, HEADER + 8).unwrap_or(1))
            }
            SWITCH | SWITCH_CPU_WIDE => match parse_switch(record, kind == SWITCH_CPU_WIDE) {
                Some(switch) => self.switches.push(switch),
                None => self.lost += 1,
            },
            COMM => match parse_name(record) {
                Some(named) => self.names.push(named),
                None => self.lost += 1,
            },
            MMAP2 => match MappedFile::parse_record(record) {
                Some(mapped) => self.mapped_files.push(mapped),
                None => self.lost += 1,
            },
            // Records of throttling, and of kinds that later kernels may add.
            _ => {}
        }
    }
}

pub(super) fn parse_switch(record: &[u8], is_cpu_wide: bool) -> Option<SwitchRecord> {
    let trailer = record.len().checked_sub(TRAILER).filter(|&at| at >= HEADER)?;
    let flags = number::<2>(record, 4)? as u16;
    let kind = match (flags & SWITCH_OUT != 0, flags & SWITCH_OUT_PREEMPT != 0) {
        (false, _) => SwitchKind::On,
        (true, true) => SwitchKind::Preempted,
        (true, false) => SwitchKind::Waits,
    };
    // Process and thread of the next or the previous thread.
    let other =
        if is_cpu_wide { Some(number::<4>(&record[..trailer], HEADER + 4)? as u32) } else { None };
    Some(SwitchRecord {
        at_ns: number::<8>(record, trailer + 8)?,
        cpu: number::<4>(record, trailer + 16)? as u32,
        thread: number::<4>(record, trailer + 4)? as u32,
        kind,
        next: other.filter(|_| kind != SwitchKind::On),
    })
}

/// Parses a record of process, thread and name, which ends with a zero.
fn parse_name(record: &[u8]) -> Option<NamedThread> {
    let text = record.get(HEADER + 8..record.len().checked_sub(TRAILER)?)?;
    let text = text.split(|&byte| byte == 0).next().unwrap_or_default();
    Some(NamedThread {
        at_ns: record_time(record)?,
        thread: number::<4>(record, HEADER + 4)? as u32,
        name: String::from_utf8_lossy(text).into_owned(),
    })
}

#[cfg(test)]
mod tests {
    use jitterstat::stats::random::SplitMix64;

    use super::*;

    fn record(kind: u32, flags: u16, body: &[u8]) -> Vec<u8> {
        let size = u16::try_from(HEADER + body.len()).unwrap();
        [&kind.to_ne_bytes()[..], &flags.to_ne_bytes(), &size.to_ne_bytes(), body].concat()
    }

    fn trailer(at_ns: u64, cpu: u32) -> Vec<u8> {
        [
            &7_u32.to_ne_bytes()[..],
            &8_u32.to_ne_bytes(),
            &at_ns.to_ne_bytes(),
            &cpu.to_ne_bytes(),
            &[0; 4],
        ]
        .concat()
    }

    fn sample_ring() -> Vec<u8> {
        let other = [&1_u32.to_ne_bytes()[..], &42_u32.to_ne_bytes()].concat();
        [
            record(SWITCH, 0, &trailer(100, 1)),
            record(SWITCH, SWITCH_OUT, &trailer(200, 1)),
            record(99, 0, &[1, 2, 3, 4, 5, 6, 7, 8]),
            record(
                LOST,
                0,
                &[&1_u64.to_ne_bytes()[..], &5_u64.to_ne_bytes(), &trailer(250, 1)].concat(),
            ),
            record(
                SWITCH_CPU_WIDE,
                SWITCH_OUT | SWITCH_OUT_PREEMPT,
                &[&other[..], &trailer(300, 0)].concat(),
            ),
            record(SWITCH_CPU_WIDE, 0, &[&other[..], &trailer(400, 0)].concat()),
            record(COMM, 0, &[&other[..], b"worker\0\0", &trailer(500, 0)].concat()),
            mapping(),
        ]
        .concat()
    }

    /// Returns a record of `/bin/true`.
    fn mapping() -> Vec<u8> {
        let ids = [7_u32, 7].map(u32::to_ne_bytes).concat();
        let numbers = [0x1000_u64, 0x2000, 0x3000, 0, 0, 0, 0].map(u64::to_ne_bytes).concat();
        let path = b"/bin/true\0\0\0\0\0\0\0";
        record(MMAP2, 0, &[&ids[..], &numbers, path, &trailer(600, 0)].concat())
    }

    #[test]
    fn switches_and_losses_are_parsed() {
        let switch = |at_ns, cpu, kind, next| SwitchRecord { at_ns, cpu, thread: 8, kind, next };
        let switches = vec![
            switch(100, 1, SwitchKind::On, None),
            switch(200, 1, SwitchKind::Waits, None),
            switch(300, 0, SwitchKind::Preempted, Some(42)),
            switch(400, 0, SwitchKind::On, None),
        ];
        let names = vec![NamedThread { at_ns: 500, thread: 42, name: "worker".to_owned() }];
        let path = "/bin/true".to_owned();
        let (start, end, offset) = (0x1000, 0x3000, 0x3000);
        let mapped = MappedFile { at_ns: 600, process: 7, start, end, offset, path };
        let mapped_files = vec![mapped];
        let expected = DrainedSwitches { switches, names, mapped_files, lost: 5 };
        assert_eq!(parse(&sample_ring()), expected);
        assert_eq!(parse(&[]), DrainedSwitches::default());
    }

    fn switch_at(at_ns: u64, flags: u16) -> Vec<u8> {
        record(SWITCH, flags, &trailer(at_ns, 0))
    }

    /// Returns the times of the switches, and the time from which on they are complete.
    fn past_times(bytes: &[u8], is_cut: bool) -> (Vec<u64>, u64) {
        let past = parse_past(bytes, is_cut);
        assert_eq!(past.records.lost, 0);
        (past.records.switches.iter().map(|s| s.at_ns).collect(), past.complete_from_ns)
    }

    #[test]
    fn past_switches_are_in_order() {
        assert_eq!(parse_past(&[], false), PastSwitches::default());
        assert_eq!(past_times(&[0; 4_096], false), (Vec::new(), 0), "nothing was written yet");
        let newest_first =
            [switch_at(300, 0), switch_at(200, SWITCH_OUT), switch_at(100, 0)].concat();
        assert_eq!(past_times(&newest_first, false), (vec![100, 200, 300], 0));
        let padded = [&newest_first[..], &[0; 64]].concat();
        assert_eq!(past_times(&padded, false), (vec![100, 200, 300], 0));
        let names = [1_u32, 2].map(|thread| {
            let ids = [&7_u32.to_ne_bytes()[..], &thread.to_ne_bytes()].concat();
            record(COMM, 0, &[&ids[..], b"worker\0\0", &trailer(500, 0)].concat())
        });
        let threads = parse_past(&names.concat(), false).records.names;
        assert_eq!(threads.iter().map(|named| named.thread).collect::<Vec<_>>(), [2, 1]);
    }

    #[test]
    fn overwritten_records_shorten_the_past() {
        let newest_first = [switch_at(300, 0), switch_at(200, 0), switch_at(100, 0)].concat();
        let length = newest_first.len();
        assert_eq!(past_times(&newest_first, true), (vec![100, 200, 300], 100));
        for cut in 1..length / 3 {
            assert_eq!(past_times(&newest_first[..length - cut], true), (vec![200, 300], 200));
        }
        assert_eq!(past_times(&newest_first[..5], true), (Vec::new(), u64::MAX));
    }

    #[test]
    fn past_begins_after_a_loss() {
        let lost = |at_ns| {
            let body = [&1_u64.to_ne_bytes()[..], &5_u64.to_ne_bytes(), &trailer(at_ns, 0)];
            record(LOST, 0, &body.concat())
        };
        let bytes =
            [switch_at(400, 0), switch_at(300, 0), lost(250), switch_at(250, 0), switch_at(90, 0)];
        assert_eq!(past_times(&bytes.concat(), true), (vec![300, 400], 250));
        assert_eq!(past_times(&lost(250)[..24], false), (Vec::new(), 0), "a cut record");
    }

    #[test]
    fn hostile_rings_are_bounded() {
        let whole = sample_ring();
        for end in 0..whole.len() {
            let cut = parse(&whole[..end]);
            assert!(
                cut.switches.len() <= 4
                    && (cut.lost > 0 || parse(&whole[..end]).switches.len() < 4),
                "{end}"
            );
        }
        let mut random = SplitMix64::new(7);
        for _ in 0..2_000 {
            let mut bytes = sample_ring().repeat(1 + random.index(4));
            for _ in 0..random.index(12) {
                let at = random.index(bytes.len());
                bytes[at] = random.next_u64() as u8;
            }
            bytes.truncate(random.index(bytes.len() + 1));
            let drained = parse(&bytes);
            assert!(drained.switches.len() <= bytes.len() / (HEADER + TRAILER));
            assert!(parse_past(&bytes, true).records.switches.len() <= drained.switches.len());
            let noise: Vec<u8> = (0..random.index(300)).map(|_| random.next_u64() as u8).collect();
            assert!(parse_past(&noise, true).records.switches.len() <= noise.len() / HEADER);
            assert!(parse(&noise).switches.len() <= noise.len() / (HEADER + TRAILER));
        }
    }

    #[test]
    fn zero_sizes_end_the_parsing() {
        let endless =
            [record(SWITCH, 0, &trailer(1, 0)), vec![14, 0, 0, 0, 0, 0, 0, 0], sample_ring()]
                .concat();
        let drained = parse(&endless);
        assert_eq!((drained.switches.len(), drained.lost), (1, 1));
        assert_eq!(
            parse(&record(SWITCH, 0, &[0; 8])),
            DrainedSwitches { lost: 1, ..DrainedSwitches::default() }
        );
        assert_eq!(
            parse(&record(COMM, 0, &[0; 30])),
            DrainedSwitches { lost: 1, ..DrainedSwitches::default() },
            "too short for a name"
        );
    }
}
