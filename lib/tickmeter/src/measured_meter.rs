//! Selects the meter whose ticks osjitter measures, among all meters of this process.
//!
//! It is the meter that the user names, or the only one with the requested period. Loops register
//! their meters in any order, so a meter is selected after it has ticked, when the others had time
//! to be registered.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Maximum number of meters that a message lists.
const MAX_LISTED: usize = 6;

/// The meters of this process that osjitter may measure.
pub(crate) static CANDIDATES: CandidateList = CandidateList::new();

/// The meters of a process, shared by its threads.
#[derive(Debug)]
pub(crate) struct CandidateList(Mutex<Candidates>);

impl CandidateList {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(Candidates {
            meters: Vec::new(),
            next_id: 0,
            files: Vec::new(),
            has_written: false,
            has_failed: false,
        }))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Candidates> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The meter that osjitter requests.
#[derive(Clone, Debug, Default)]
pub(crate) struct MeterRequest {
    pub(crate) name: Option<String>,
    /// Requested period; `None` if any period will do.
    pub(crate) period_ns: Option<u64>,
}

impl MeterRequest {
    fn matches(&self, meter: &Candidate) -> bool {
        match &self.name {
            Some(name) => *name == meter.name,
            None => self.period_ns.is_none_or(|period_ns| period_ns == meter.period_ns),
        }
    }
}

/// A meter that osjitter may measure.
#[derive(Debug)]
struct Candidate {
    id: u64,
    name: String,
    period_ns: u64,
}

/// Meters that osjitter may measure, in the order of their registration.
#[derive(Debug)]
pub(crate) struct Candidates {
    meters: Vec<Candidate>,
    next_id: u64,
    pub(crate) files: Vec<CandidateFile>,
    /// Whether a meter has written the file.
    pub(crate) has_written: bool,
    /// Whether a failure was reported, after which no meter writes the file.
    pub(crate) has_failed: bool,
}

/// The file of a meter.
#[derive(Debug)]
pub(crate) struct CandidateFile {
    /// Identifier of the meter.
    pub(crate) id: u64,
    /// The process that made the file. A forked child inherits the list.
    pub(crate) process: u32,
    pub(crate) path: PathBuf,
}

/// Role of a meter in a measurement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MeterRole {
    /// The meter is measured.
    Measured,
    /// The meter does not match the request, but the process has no other meter.
    OnlyMeter,
    /// Another meter is measured.
    Other,
    /// No meter matches the request; contains the message for the user.
    Unmatched(String),
    /// Several meters match the request; contains the message for the user.
    Ambiguous(String),
}

impl Candidates {
    /// Adds a meter and returns its identifier.
    pub(crate) fn add(&mut self, name: &str, period_ns: u64) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        self.meters.push(Candidate { id, name: name.to_owned(), period_ns });
        id
    }

    /// Forgets the meters and the file of a round. Identifiers are not used again.
    pub(crate) fn clear(&mut self) {
        self.meters.clear();
        self.has_written = false;
    }

    pub(crate) fn remove(&mut self, id: u64) {
        self.meters.retain(|meter| meter.id != id);
    }

    pub(crate) fn set_period(&mut self, id: u64, period_ns: u64) {
        if let Some(meter) = self.meters.iter_mut().find(|meter| meter.id == id) {
            meter.period_ns = period_ns;
        }
    }

    /// Returns the role of a meter.
    pub(crate) fn role(&self, id: u64, request: &MeterRequest) -> MeterRole {
        let matches: Vec<&Candidate> =
            self.meters.iter().filter(|meter| request.matches(meter)).collect();
        let is_match = matches.iter().any(|meter| meter.id == id);
        match matches.len() {
            0 if request.name.is_none() && self.meters.len() == 1 => MeterRole::OnlyMeter,
            0 => MeterRole::Unmatched(self.format_unmatched(request)),
            1 if is_match => MeterRole::Measured,
            _ if is_match => MeterRole::Ambiguous(format_ambiguous(&matches, request)),
            _ => MeterRole::Other,
        }
    }

    fn format_unmatched(&self, request: &MeterRequest) -> String {
        let meters: Vec<&Candidate> = self.meters.iter().collect();
        let meters = format_meters(&meters);
        match (&request.name, request.period_ns) {
            (Some(name), _) => format!("no meter is called {name:?}; there are {meters}"),
            (None, Some(period_ns)) => {
                let period = format_period(period_ns);
                format!("no meter has a period of {period}; choose a --period or --meter: {meters}")
            }
            (None, None) => format!("no meter is measured; there are {meters}"),
        }
    }
}

fn format_ambiguous(matches: &[&Candidate], request: &MeterRequest) -> String {
    let period = match request.period_ns {
        Some(period_ns) => format!(" with a period of {}", format_period(period_ns)),
        None => String::new(),
    };
    format!("several meters{period}; choose one with --meter NAME: {}", format_meters(matches))
}

/// Formats the names and periods of meters.
fn format_meters(meters: &[&Candidate]) -> String {
    let mut text = String::new();
    for meter in meters.iter().take(MAX_LISTED) {
        let separator = if text.is_empty() { "" } else { ", " };
        let _ = write!(text, "{separator}{} ({})", meter.name, format_period(meter.period_ns));
    }
    match meters.len().saturating_sub(MAX_LISTED) {
        0 => text,
        more => format!("{text} and {more} more"),
    }
}

/// Formats a period as it is written on a command line, such as `500us`.
fn format_period(period_ns: u64) -> String {
    const UNITS: [(&str, u64); 3] = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000)];
    for (unit, unit_ns) in UNITS {
        if period_ns > 0 && period_ns.is_multiple_of(unit_ns) {
            return format!("{}{unit}", period_ns / unit_ns);
        }
    }
    format!("{period_ns}ns")
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Returns the role of each of these meters.
    fn roles(meters: &[(&str, u64)], name: Option<&str>, period_ns: Option<u64>) -> Vec<MeterRole> {
        let list = CandidateList::new();
        let mut candidates = list.lock();
        let ids: Vec<u64> =
            meters.iter().map(|(name, period_ns)| candidates.add(name, *period_ns)).collect();
        let request = MeterRequest { name: name.map(str::to_owned), period_ns };
        ids.into_iter().map(|id| candidates.role(id, &request)).collect()
    }

    #[test]
    fn role_is_independent_of_order() {
        use MeterRole::{Measured, OnlyMeter, Other};
        let (slow, fast, twin) = (("slow", 10 * MS), ("fast", MS), ("twin", MS));
        for (meters, name, period_ns, expected) in [
            (&[fast][..], None, Some(MS), &[Measured][..]),
            (&[fast], None, None, &[Measured]),
            (&[fast], None, Some(7), &[OnlyMeter]),
            (&[slow, fast], None, Some(MS), &[Other, Measured]),
            (&[fast, slow], None, Some(MS), &[Measured, Other]),
            (&[fast, slow], None, Some(10 * MS), &[Other, Measured]),
            (&[fast, twin], Some("twin"), Some(MS), &[Other, Measured]),
            (&[twin, fast], Some("twin"), Some(7), &[Measured, Other]),
        ] {
            assert_eq!(roles(meters, name, period_ns), expected, "{meters:?} {name:?}");
        }
    }

    #[test]
    fn periods_are_formatted_as_arguments() {
        let periods = [0, 1_500, 500_000, 10 * MS, 2_000 * MS].map(format_period);
        assert_eq!(periods, ["0ns", "1500ns", "500us", "10ms", "2s"]);
    }

    #[test]
    fn failure_lists_names_and_periods() {
        let meters = [("first", MS), ("second", MS), ("slow", 10 * MS)];
        let twins = "first (1ms), second (1ms)";
        let found = roles(&meters, None, Some(MS));
        assert_eq!(found[2], MeterRole::Other);
        for role in &found[..2] {
            let MeterRole::Ambiguous(message) = role else { panic!("{role:?}") };
            assert!(message.contains("--meter NAME") && message.ends_with(twins), "{message}");
        }
        for (name, period_ns) in [(Some("third"), Some(MS)), (None, Some(7))] {
            for role in roles(&meters, name, period_ns) {
                let MeterRole::Unmatched(message) = role else { panic!("{role:?}") };
                assert!(message.ends_with(&format!("{twins}, slow (10ms)")), "{message}");
            }
        }
        let many = [("loop", MS); 9];
        let MeterRole::Ambiguous(message) = &roles(&many, None, None)[0] else { panic!() };
        assert!(message.ends_with("loop (1ms) and 3 more"), "{message}");
    }
}
