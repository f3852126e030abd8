//! Parser of the records of context switches that the kernel writes to a ring. The input can be any
//! bytes.

use files::why::SwitchKind;

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

/// Contents of a ring.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DrainedSwitches {
    /// Switches in the order in which they were written.
    pub switches: Vec<SwitchRecord>,
    /// Threads that were given a name, in this order.
    pub names: Vec<(u32, String)>,
    /// Number of lost and invalid records.
    pub lost: u64,
}

const LOST: u32 = 2;
const COMM: u32 = 3;
const SWITCH: u32 = 14;
const SWITCH_CPU_WIDE: u32 = 15;
const SWITCH_OUT: u16 = 1 << 13;
const SWITCH_OUT_PREEMPT: u16 = 1 << 14;
/// Length of type, flags and size, at the start of every record.
const HEADER: usize = 8;
/// Length of process, thread, time and CPU with a reserved word, at the end of every record.
const TRAILER: usize = 24;

/// Parses the records of a ring, oldest first.
pub fn parse(bytes: &[u8]) -> DrainedSwitches {
    let mut drained = DrainedSwitches::default();
    let mut rest = bytes;
    while !rest.is_empty() {
        let size = number::<2>(rest, 6).map_or(0, |size| size as usize);
        if size < HEADER || size > rest.len() {
            // The start of the next record is unknown.
            drained.lost += 1;
            break;
        }
        let (record, after) = rest.split_at(size);
        rest = after;
        let kind = number::<4>(record, 0).unwrap_or(0) as u32;
        match kind {
            // The body is an id and the number of lost records.
            LOST => {
                drained.lost =
                    drained.lost.saturating_add(number::<8>(record, HEADER + 8).unwrap_or(1))
            }
            SWITCH | SWITCH_CPU_WIDE => match parse_switch(record, kind == SWITCH_CPU_WIDE) {
                Some(switch) => drained.switches.push(switch),
                None => drained.lost += 1,
            },
            COMM => match parse_name(record) {
                Some(named) => drained.names.push(named),
                None => drained.lost += 1,
            },
            // Records of throttling, and of kinds that later kernels may add.
            _ => {}
        }
    }
    drained
}

fn parse_switch(record: &[u8], is_cpu_wide: bool) -> Option<SwitchRecord> {
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
fn parse_name(record: &[u8]) -> Option<(u32, String)> {
    let text = record.get(HEADER + 8..record.len().checked_sub(TRAILER)?)?;
    let text = text.split(|&byte| byte == 0).next().unwrap_or_default();
    Some((number::<4>(record, HEADER + 4)? as u32, String::from_utf8_lossy(text).into_owned()))
}

/// Reads a number of `N` bytes in the byte order of this machine.
pub(super) fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<u64> {
    let mut word = [0; 8];
    let range = if cfg!(target_endian = "little") { 0..N } else { 8 - N..8 };
    word[range].copy_from_slice(bytes.get(at..at.checked_add(N)?)?);
    Some(u64::from_ne_bytes(word))
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
        ]
        .concat()
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
        assert_eq!(
            parse(&sample_ring()),
            DrainedSwitches { switches, names: vec![(42, "worker".to_owned())], lost: 5 }
        );
        assert_eq!(parse(&[]), DrainedSwitches::default());
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
            let noise: Vec<u8> = (0..random.index(300)).map(|_| random.next_u64() as u8).collect();
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
