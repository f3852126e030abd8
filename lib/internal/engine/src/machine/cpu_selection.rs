//! Lists of CPUs.

use std::fmt;
use std::str::FromStr;

use crate::machine::os;
use crate::machine::tuning_error::TuningError;

/// Maximum number of a CPU, which is that of the largest kernels.
const MAX_CPU: usize = 8_191;

/// The CPUs on which a scenario runs at once, with a thread on each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CpuSelection {
    /// All CPUs on which this process may run.
    Allowed,
    /// CPUs in ascending order, each once.
    List(Vec<usize>),
}

impl CpuSelection {
    /// Returns the numbers of the CPUs.
    ///
    /// # Errors
    ///
    /// Returns an error if the platform cannot bind threads to CPUs.
    pub fn numbers(&self) -> Result<Vec<usize>, TuningError> {
        let allowed = os::affinity().ok_or(TuningError::CannotBindThreads)?;
        match self {
            Self::Allowed => Ok(allowed),
            Self::List(cpus) => Ok(cpus.clone()),
        }
    }
}

/// Parses `all`, or a list of numbers and ranges in the format of the kernel, such as `0-3,6`.
impl FromStr for CpuSelection {
    type Err = TuningError;

    fn from_str(text: &str) -> Result<Self, TuningError> {
        if text == "all" {
            return Ok(Self::Allowed);
        }
        let mut cpus = Vec::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            match (parse_cpu(first), parse_cpu(last)) {
                (Some(first), Some(last)) if first <= last => cpus.extend(first..=last),
                _ => return Err(TuningError::InvalidCpuList(text.to_owned())),
            }
        }
        cpus.sort_unstable();
        cpus.dedup();
        Ok(Self::List(cpus))
    }
}

fn parse_cpu(text: &str) -> Option<usize> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|&cpu| is_number && cpu <= MAX_CPU)
}

impl fmt::Display for CpuSelection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Allowed => f.write_str("all"),
            Self::List(cpus) => {
                f.write_str(&cpus.iter().map(usize::to_string).collect::<Vec<_>>().join(","))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_contain_numbers_and_ranges() {
        for (text, expected) in
            [("3", vec![3]), ("0-3,6", vec![0, 1, 2, 3, 6]), ("2,0-2", vec![0, 1, 2])]
        {
            assert_eq!(text.parse::<CpuSelection>().unwrap(), CpuSelection::List(expected));
        }
        assert_eq!("all".parse::<CpuSelection>().unwrap(), CpuSelection::Allowed);
        for text in
            ["", "a", "3-", "-3", "3-1", "1,,2", "0-8192", "+1", "1 2", "0-99999999999999999999"]
        {
            let error = text.parse::<CpuSelection>().unwrap_err();
            assert!(error.to_string().starts_with("invalid list of CPUs"), "{error}");
        }
    }

    #[test]
    fn selections_parse_back() {
        for text in ["all", "7", "0,1,5"] {
            assert_eq!(text.parse::<CpuSelection>().unwrap().to_string(), text);
        }
    }
}
