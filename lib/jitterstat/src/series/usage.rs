//! The usage of a measured process, which it counts itself.

use std::fmt;
use std::str::FromStr;

/// First word of the line.
const NAME: &str = "usage";

/// Resources that a process used from its first recorded tick to its last one, which is the time of
/// all recorded ticks but the first.
///
/// A program reads the counters of its process at both ticks, after it has read the clock, and
/// writes the differences. Only a program without other processes may write them.
///
/// ```
/// use jitterstat::series::Usage;
/// let usage: Usage = "usage process=4711 cpu_ns=2093844 switches_voluntary=249".parse()?;
/// assert_eq!((usage.process, usage.cpu_ns), (4711, 2_093_844));
/// assert_eq!((usage.switches_voluntary, usage.switches_involuntary), (Some(249), None));
/// # Ok::<(), jitterstat::series::InvalidUsage>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Id of the process. osjitter ignores the usage if this is not the process that it started.
    pub process: u32,
    /// CPU time of all threads of the process.
    pub cpu_ns: u64,
    /// Context switches by waiting, if they are known.
    pub switches_voluntary: Option<u64>,
    /// Context switches by being preempted, if they are known.
    pub switches_involuntary: Option<u64>,
}

/// A line that is not the usage of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidUsage;

impl fmt::Display for InvalidUsage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "invalid usage: expected {NAME} process=N cpu_ns=N")
    }
}

impl std::error::Error for InvalidUsage {}

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{NAME} process={} cpu_ns={}", self.process, self.cpu_ns)?;
        let optional = [
            ("switches_voluntary", self.switches_voluntary),
            ("switches_involuntary", self.switches_involuntary),
        ];
        for (key, number) in optional {
            if let Some(number) = number {
                write!(f, " {key}={number}")?;
            }
        }
        Ok(())
    }
}

impl FromStr for Usage {
    type Err = InvalidUsage;

    /// Parses a line. Keys that are not known are ignored.
    fn from_str(line: &str) -> Result<Self, InvalidUsage> {
        let mut words = line.split_ascii_whitespace();
        if words.next() != Some(NAME) {
            return Err(InvalidUsage);
        }
        let (mut process, mut cpu_ns) = (None, None);
        let (mut switches_voluntary, mut switches_involuntary) = (None, None);
        for word in words {
            let (key, number) = word.split_once('=').ok_or(InvalidUsage)?;
            let slot = match key {
                "process" => &mut process,
                "cpu_ns" => &mut cpu_ns,
                "switches_voluntary" => &mut switches_voluntary,
                "switches_involuntary" => &mut switches_involuntary,
                _ => continue,
            };
            *slot = Some(number.parse::<u64>().map_err(|_| InvalidUsage)?);
        }
        let process = process.and_then(|id| u32::try_from(id).ok());
        Ok(Self {
            process: process.ok_or(InvalidUsage)?,
            cpu_ns: cpu_ns.ok_or(InvalidUsage)?,
            switches_voluntary,
            switches_involuntary,
        })
    }
}

/// Returns whether a line is one of the usage, and not a value of a metric with its name.
pub(super) fn is_usage_line(line: &str) -> bool {
    line.strip_prefix(NAME).is_some_and(|rest| rest.starts_with(' ') && rest.contains('='))
}

#[cfg(test)]
mod tests {
    use crate::series::{Better, Reader, Writer, metrics};

    use super::*;

    const USAGE: Usage = Usage {
        process: 7,
        cpu_ns: 2_093_844,
        switches_voluntary: Some(249),
        switches_involuntary: Some(0),
    };

    #[test]
    fn usage_reads_back() {
        let unknown = Usage { switches_voluntary: None, switches_involuntary: None, ..USAGE };
        for usage in [USAGE, unknown] {
            assert_eq!(usage.to_string().parse(), Ok(usage));
            let mut file = Vec::new();
            let mut out = Writer::new(&mut file, 500).unwrap();
            out.push(7).unwrap();
            out.push(-8).unwrap();
            out.usage(&usage).unwrap();
            out.finish().unwrap();
            let read = Reader::read(&file[..]).unwrap();
            assert_eq!((read.lateness_ns, read.usage), (vec![7, -8], Some(usage)));
        }
        let more =
            "usage later=x cpu_ns=2093844 switches_voluntary=249 switches_involuntary=0 process=7";
        assert_eq!(more.parse(), Ok(USAGE));
        for line in [
            "",
            "usage",
            "usage process=7",
            "usage cpu_ns=7",
            "usage process=7 cpu_ns=0.5",
            "usage process=-1 cpu_ns=7",
            "usage process=4294967296 cpu_ns=7",
            "usage process=7 cpu_ns=7 more",
            "used process=7 cpu_ns=7",
        ] {
            assert_eq!(line.parse::<Usage>(), Err(InvalidUsage), "{line:?}");
        }
    }

    #[test]
    fn metrics_of_that_name_stay_metrics() {
        let mut file = Vec::new();
        let mut out = Writer::new(&mut file, 500).unwrap();
        out.declare("usage", "ns", Better::Lower).unwrap();
        out.value("usage", 12.5).unwrap();
        out.push(7).unwrap();
        out.usage(&USAGE).unwrap();
        out.finish().unwrap();
        let read = Reader::read(&file[..]).unwrap();
        assert_eq!((read.lateness_ns, read.usage), (vec![7], Some(USAGE)));
        let [metric] = &metrics(&file[..]).unwrap()[..] else { panic!() };
        assert_eq!((metric.samples.count(), metric.samples.quantile(0.5)), (1, Some(12.5)));
    }
}
