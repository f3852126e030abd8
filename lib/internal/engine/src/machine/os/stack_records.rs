//! Parser of the samples of stacks that the kernel writes to a ring. The input can be any bytes.

use crate::machine::os::switches::{
    HEADER, LOST, SWITCH, SWITCH_CPU_WIDE, SwitchRecord, TRAILER, number, parse_switch,
    record_kind, split_record,
};

/// Number of bytes of a stack that the kernel copies with each sample.
pub const STACK_BYTES: u32 = 8_192;
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

/// A part of a file that a process has mapped for execution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MappedFile {
    pub process: u32,
    pub start: u64,
    pub end: u64,
    /// Position of the part in the file.
    pub offset: u64,
    pub path: String,
}

/// Contents of a ring with samples.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct StackRecords {
    /// Samples in the order in which they were written.
    pub samples: Vec<StackRecord>,
    pub mapped_files: Vec<MappedFile>,
    /// Switches in the order in which they were written.
    pub switches: Vec<SwitchRecord>,
    /// Number of lost and invalid records.
    pub lost: u64,
}

impl MappedFile {
    /// Parses the files that a process has mapped for execution, in the format of `/proc/PID/maps`.
    pub fn parse_maps(process: u32, maps: &str) -> Vec<Self> {
        let number = |text: &str| u64::from_str_radix(text, 16).ok();
        let parse = |line: &str| {
            let mut fields = line.splitn(6, ' ');
            let (start, end) = fields.next()?.split_once('-')?;
            let is_executable = fields.next()?.contains('x');
            let offset = number(fields.next()?)?;
            let path = fields.nth(2)?.trim_start();
            let mapped = Self {
                process,
                start: number(start)?,
                end: number(end)?,
                offset,
                path: path.into(),
            };
            (is_executable && path.starts_with('/')).then_some(mapped)
        };
        maps.lines().filter_map(parse).collect()
    }
}

const MMAP2: u32 = 10;
const SAMPLE: u32 = 9;
/// Length of process, thread, time and CPU with a reserved word, at the start of a sample.
const SAMPLE_IDS: usize = TRAILER;
/// Length of the numbers in a record of a mapped file, before its path.
const MAPPING_NUMBERS: usize = 64;

impl StackRecords {
    /// Parses the records of a ring, oldest first.
    pub fn parse(bytes: &[u8]) -> Self {
        let mut records = Self::default();
        let mut rest = bytes;
        while !rest.is_empty() {
            let Some((record, after)) = split_record(rest) else {
                records.lost += 1;
                break;
            };
            rest = after;
            records.add(record);
        }
        records
    }

    /// Parses the records of an overwriting ring, newest first, until the first invalid one.
    pub fn parse_past(bytes: &[u8]) -> Self {
        let mut records = Self::default();
        let mut rest = bytes;
        while let Some((record, after)) = split_record(rest) {
            rest = after;
            records.add(record);
        }
        records.samples.reverse();
        records.mapped_files.reverse();
        records.switches.reverse();
        records
    }

    /// Adds the records of another ring.
    pub fn append(&mut self, mut other: Self) {
        self.samples.append(&mut other.samples);
        self.mapped_files.append(&mut other.mapped_files);
        self.switches.append(&mut other.switches);
        self.lost = self.lost.saturating_add(other.lost);
    }

    fn add(&mut self, record: &[u8]) {
        match record_kind(record) {
            LOST => {
                let count = number::<8>(record, HEADER + 8).unwrap_or(1);
                self.lost = self.lost.saturating_add(count);
            }
            SAMPLE => match parse_sample(record) {
                Some(sample) => self.samples.push(sample),
                None => self.lost += 1,
            },
            MMAP2 => match parse_mapping(record) {
                Some(mapping) => self.mapped_files.push(mapping),
                None => self.lost += 1,
            },
            SWITCH => self.switches.extend(parse_switch(record, false)),
            SWITCH_CPU_WIDE => self.switches.extend(parse_switch(record, true)),
            _ => {}
        }
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

/// Parses a record of process, thread, address, length, offset, identity of the file, protection,
/// flags and path, which ends with a zero.
fn parse_mapping(record: &[u8]) -> Option<MappedFile> {
    let path = record.get(HEADER + MAPPING_NUMBERS..record.len().checked_sub(TRAILER)?)?;
    let path = path.split(|&byte| byte == 0).next().unwrap_or_default();
    let start = number::<8>(record, HEADER + 8)?;
    Some(MappedFile {
        process: number::<4>(record, HEADER)? as u32,
        start,
        end: start.checked_add(number::<8>(record, HEADER + 16)?)?,
        offset: number::<8>(record, HEADER + 24)?,
        path: String::from_utf8_lossy(path).into_owned(),
    })
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

    fn mapping() -> Vec<u8> {
        let words = [pair(7, 7), 0x1000, 0x2000, 0x3000, 0, 0, 0, 0];
        let trailer = [pair(7, 8), 5, 0].into_iter().flat_map(u64::to_ne_bytes).collect::<Vec<_>>();
        record(MMAP2, &words, &[b"/bin/true\0\0\0\0\0\0\0", &trailer[..]].concat())
    }

    #[test]
    fn samples_and_mappings_are_parsed() {
        let lost = record(LOST, &[1, 5, pair(7, 8), 250, 0], b"");
        let records = StackRecords::parse(&[mapping(), sample(100), lost, sample(200)].concat());
        let times: Vec<u64> = records.samples.iter().map(|sample| sample.at_ns).collect();
        assert_eq!((times, records.lost), (vec![100, 200], 5));
        let first = &records.samples[0];
        assert_eq!((first.process, first.thread), (7, 8));
        assert_eq!(first.registers.frame, 0);
        assert!(first.registers.instruction > first.registers.stack);
        assert_eq!(first.stack, 0xaa_u64.to_ne_bytes(), "only what was copied");
        let path = "/bin/true".to_owned();
        let expected = MappedFile { process: 7, start: 0x1000, end: 0x3000, offset: 0x3000, path };
        assert_eq!(records.mapped_files, [expected]);
    }

    #[test]
    fn maps_of_processes_are_parsed() {
        let maps = "55d0-55e0 r--p 00000000 fe:00 12 /bin/a b\n\
                    55e0-55f0 r-xp 00001000 fe:00 12                         /bin/a b\n\
                    7ff0-7fff r-xp 00000000 00:00 0                          [vdso]\n\
                    8000-9000 r-xp 00000000 00:00 0\nx\n";
        let path = "/bin/a b".to_owned();
        let expected = MappedFile { process: 7, start: 0x55e0, end: 0x55f0, offset: 0x1000, path };
        assert_eq!(MappedFile::parse_maps(7, maps), [expected]);
    }

    #[test]
    fn past_samples_are_in_order() {
        let bytes = [sample(300), sample(200), sample(100)].concat();
        let times = |bytes: &[u8]| {
            let samples = StackRecords::parse_past(bytes).samples;
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
            let mut bytes = [sample(1), mapping(), sample(2)].concat();
            for _ in 0..random.index(12) {
                let at = random.index(bytes.len());
                bytes[at] = random.next_u64() as u8;
            }
            bytes.truncate(random.index(bytes.len() + 1));
            let records = StackRecords::parse(&bytes);
            let copied: usize = records.samples.iter().map(|sample| sample.stack.len()).sum();
            assert!(copied <= bytes.len());
            assert!(StackRecords::parse_past(&bytes).samples.len() <= records.samples.len());
        }
    }
}
