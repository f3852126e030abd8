//! Parsers of the files that programs map for execution.

use crate::machine::os::record_parts::{HEADER, TRAILER, number, record_time};

/// Length of the numbers in a record of a mapped file, before its path.
const MAPPING_NUMBERS: usize = 64;

/// A part of a file that a process has mapped for execution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MappedFile {
    /// `CLOCK_MONOTONIC`, in nanoseconds; zero if the time is not known.
    pub at_ns: u64,
    pub process: u32,
    pub start: u64,
    pub end: u64,
    /// Position of the part in the file.
    pub offset: u64,
    pub path: String,
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
                at_ns: 0,
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

    /// Parses a record of the kernel: process, thread, address, length, offset, identity of the
    /// file, protection, flags and path, which ends with a zero.
    pub(super) fn parse_record(record: &[u8]) -> Option<Self> {
        let path = record.get(HEADER + MAPPING_NUMBERS..record.len().checked_sub(TRAILER)?)?;
        let path = path.split(|&byte| byte == 0).next().unwrap_or_default();
        let start = number::<8>(record, HEADER + 8)?;
        Some(Self {
            at_ns: record_time(record)?,
            process: number::<4>(record, HEADER)? as u32,
            start,
            end: start.checked_add(number::<8>(record, HEADER + 16)?)?,
            offset: number::<8>(record, HEADER + 24)?,
            path: String::from_utf8_lossy(path).into_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_of_processes_are_parsed() {
        let maps = "55d0-55e0 r--p 00000000 fe:00 12 /bin/a b\n\
                    55e0-55f0 r-xp 00001000 fe:00 12                         /bin/a b\n\
                    7ff0-7fff r-xp 00000000 00:00 0                          [vdso]\n\
                    8000-9000 r-xp 00000000 00:00 0\nx\n";
        let path = "/bin/a b".to_owned();
        let (start, end) = (0x55e0, 0x55f0);
        let expected = MappedFile { at_ns: 0, process: 7, start, end, offset: 0x1000, path };
        assert_eq!(MappedFile::parse_maps(7, maps), [expected]);
    }
}
