//! Parser of the samples of stacks that the kernel writes to a ring. The input can be any bytes.

use crate::machine::os::record_parts::{HEADER, TRAILER, number, record_kind, split_record};
use crate::machine::os::switches::{SWITCH, SwitchRecord, parse_switch};

/// Number of bytes of a stack that the kernel copies with each sample.
pub const STACK_BYTES: u32 = 4_096;
/// Maximum size of a record: a sample with its header, identifiers, registers and stack.
pub const MAX_RECORD_BYTES: usize = STACK_BYTES as usize + 256;

/// The registers that are needed to find the callers of a function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StackRegisters {
    pub instruction: u64,
    pub stack: u64,
    pub frame: u64,
    /// Return address of a function without a stack frame; zero if the CPU has no such register.
    pub link: u64,
}

/// Mask of the registers in the order of their bits, which is the order in which they are written.
#[cfg(target_arch = "aarch64")]
pub(super) const REGISTER_MASK: u64 = 1 << 29 | 1 << 30 | 1 << 31 | 1 << 32;
#[cfg(not(target_arch = "aarch64"))]
pub(super) const REGISTER_MASK: u64 = 1 << 6 | 1 << 7 | 1 << 8;

/// A sampled stack of a running thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StackRecord {
    /// `CLOCK_MONOTONIC`, in nanoseconds.
    pub at_ns: u64,
    pub process: u32,
    pub thread: u32,
    pub registers: StackRegisters,
    /// Copy of the stack from the stack pointer on.
    pub stack: Vec<u8>,
}

/// Contents of an overwriting ring with samples.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct StackRecords {
    /// Samples in the order in which they were written.
    pub samples: Vec<StackRecord>,
    /// Switches in the order in which they were written.
    pub switches: Vec<SwitchRecord>,
}

const SAMPLE: u32 = 9;
/// Length of process, thread, time and CPU with a reserved word, at the start of a sample.
const SAMPLE_IDS: usize = TRAILER;

impl StackRecords {
    /// Parses the records, newest first, until the first invalid one.
    pub fn parse(bytes: &[u8]) -> Self {
        let mut records = Self::default();
        let mut rest = bytes;
        while let Some((record, after)) = split_record(rest) {
            rest = after;
            match record_kind(record) {
                SAMPLE => records.samples.extend(parse_sample(record)),
                SWITCH => records.switches.extend(parse_switch(record, false)),
                _ => {}
            }
        }
        records.samples.reverse();
        records.switches.reverse();
        records
    }
}

/// Parses a sample. Its stack is empty if the thread has no registers of user code.
fn parse_sample(record: &[u8]) -> Option<StackRecord> {
    let mut sample = StackRecord {
        process: number::<4>(record, HEADER)? as u32,
        thread: number::<4>(record, HEADER + 4)? as u32,
        at_ns: number::<8>(record, HEADER + 8)?,
        ..StackRecord::default()
    };
    let mut at = HEADER + SAMPLE_IDS;
    let has_registers = number::<8>(record, at)? != 0;
    at += 8;
    if has_registers {
        let mut words = [0; 4];
        let count = REGISTER_MASK.count_ones() as usize;
        for word in &mut words[..count] {
            *word = number::<8>(record, at)?;
            at += 8;
        }
        sample.registers = to_registers(words);
    }
    let size = usize::try_from(number::<8>(record, at)?).ok()?;
    if size > 0 {
        let copied = at.checked_add(8)?;
        let end = copied.checked_add(size)?;
        // The last number is the length of the part that was copied.
        let length = usize::try_from(number::<8>(record, end)?).ok()?.min(size);
        sample.stack = record.get(copied..copied + length)?.to_vec();
    }
    Some(sample)
}

#[cfg(target_arch = "aarch64")]
fn to_registers([frame, link, stack, instruction]: [u64; 4]) -> StackRegisters {
    StackRegisters { instruction, stack, frame, link }
}

#[cfg(not(target_arch = "aarch64"))]
fn to_registers([frame, stack, instruction, _]: [u64; 4]) -> StackRegisters {
    StackRegisters { instruction, stack, frame, link: 0 }
}

#[cfg(test)]
mod tests {
    use jitterstat::stats::random::SplitMix64;

    use super::*;

    fn record(kind: u32, words: &[u64], text: &[u8]) -> Vec<u8> {
        let mut body: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        body.extend(text);
        let size = u16::try_from(HEADER + body.len()).unwrap();
        let head = [&kind.to_ne_bytes()[..], &[0; 2], &size.to_ne_bytes()];
        [&head.concat()[..], &body].concat()
    }

    /// Joins two numbers of 32 bits in the order in which they are written.
    fn pair(first: u32, second: u32) -> u64 {
        u64::from_ne_bytes([first.to_ne_bytes(), second.to_ne_bytes()].concat().try_into().unwrap())
    }

    fn sample(at_ns: u64) -> Vec<u8> {
        let registers: Vec<u64> = (0..u64::from(REGISTER_MASK.count_ones())).collect();
        let words = [&[pair(7, 8), at_ns, 0, 2][..], &registers, &[16, 0xaa, 0xbb, 8]].concat();
        record(SAMPLE, &words, b"")
    }

    #[test]
    fn samples_are_parsed() {
        let records = StackRecords::parse(&sample(100));
        let [first] = &records.samples[..] else { panic!("{records:?}") };
        assert_eq!((first.process, first.thread, first.at_ns), (7, 8, 100));
        assert_eq!(first.registers.frame, 0);
        assert!(first.registers.instruction > first.registers.stack);
        assert_eq!(first.stack, 0xaa_u64.to_ne_bytes(), "only what was copied");
    }

    #[test]
    fn past_samples_are_in_order() {
        let bytes = [sample(300), sample(200), sample(100)].concat();
        let times = |bytes: &[u8]| {
            let samples = StackRecords::parse(bytes).samples;
            samples.iter().map(|sample| sample.at_ns).collect::<Vec<_>>()
        };
        assert_eq!(times(&bytes), [100, 200, 300]);
        assert_eq!(times(&bytes[..bytes.len() - 1]), [200, 300], "the oldest is overwritten");
        assert!(times(&[0; 64]).is_empty());
    }

    #[test]
    fn hostile_records_are_bounded() {
        let mut random = SplitMix64::new(7);
        for _ in 0..2_000 {
            let mut bytes = [sample(1), sample(2)].concat();
            for _ in 0..random.index(12) {
                let at = random.index(bytes.len());
                bytes[at] = random.next_u64() as u8;
            }
            bytes.truncate(random.index(bytes.len() + 1));
            let records = StackRecords::parse(&bytes);
            let copied: usize = records.samples.iter().map(|sample| sample.stack.len()).sum();
            assert!(copied <= bytes.len());
        }
    }
}
