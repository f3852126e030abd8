//! Subjects whose late ticks cannot be explained: there are too few of them, or nothing was
//! recorded. Subjects with the same reason share a sentence.

use cli::printable::to_printable_message;
use cli::time::format_time;
use cli::words::group_digits;
use files::report::why::Why;
use files::why::pool::{MIN_EPISODES, MIN_TICKS};

use crate::report::subject_diagnosis::Diagnosis;
use crate::report::summary::name_list::join_with;

/// Maximum number of subjects that are named.
const MAX_NAMED: usize = 3;
/// Number of significant digits of an estimated length.
const ESTIMATE_DIGITS: u32 = 2;

/// The diagnoses of a report: those that are shown by themselves, and sentences for the others.
#[derive(Debug)]
pub struct GroupedDiagnoses<'a> {
    pub shown: Vec<Diagnosis<'a>>,
    pub sentences: Vec<String>,
}

impl<'a> GroupedDiagnoses<'a> {
    /// Groups the diagnoses that have neither causes nor functions by their reason. A group of one is
    /// shown by itself.
    pub fn new(diagnoses: impl Iterator<Item = Diagnosis<'a>>) -> Self {
        let mut grouped = Self { shown: Vec::new(), sentences: Vec::new() };
        let (mut too_few, mut unavailable) = (Vec::new(), Vec::new());
        for diagnosis in diagnoses {
            let code = diagnosis.why.code.as_ref();
            if code.is_some_and(|code| !code.functions.is_empty()) {
                grouped.shown.push(diagnosis);
                continue;
            }
            match (diagnosis.why.tier, &diagnosis.why.shares_ns) {
                (Some(_), Some(_)) => grouped.shown.push(diagnosis),
                (Some(_), None) => too_few.push(diagnosis),
                (None, _) => unavailable.push(diagnosis),
            }
        }
        grouped.add_group(too_few, describe_too_few);
        while let Some(reason) = unavailable.first().map(Diagnosis::missing_reason) {
            let has_reason = |other: &Diagnosis<'_>| other.missing_reason() == reason;
            let (same, others) = unavailable.into_iter().partition(has_reason);
            grouped.add_group(same, describe_unavailable);
            unavailable = others;
        }
        grouped
    }

    fn add_group(
        &mut self,
        diagnoses: Vec<Diagnosis<'a>>,
        describe: fn(&[Diagnosis<'a>]) -> String,
    ) {
        match diagnoses.len() {
            0 | 1 => self.shown.extend(diagnoses),
            _ => self.sentences.push(describe(&diagnoses)),
        }
    }
}

/// Describes several subjects for which nothing was recorded, all for the same reason.
fn describe_unavailable(diagnoses: &[Diagnosis<'_>]) -> String {
    let names: Vec<&str> = diagnoses.iter().map(|diagnosis| diagnosis.name.as_str()).collect();
    let reason = diagnoses[0].missing_reason();
    format!("Why ticks were late is not available here for {}: {reason}.", join_names(&names))
}

/// Describes several subjects with too few late ticks, and the lengths that would suffice.
fn describe_too_few(diagnoses: &[Diagnosis<'_>]) -> String {
    let names: Vec<&str> = diagnoses.iter().map(|diagnosis| diagnosis.name.as_str()).collect();
    let mut text = format!(
        "Too few late ticks to say why they were late, for {}. It takes {MIN_TICKS} late ticks in {MIN_EPISODES} episodes",
        join_names(&names)
    );
    let mut needs: Vec<(u64, &Diagnosis<'_>)> = Vec::new();
    for diagnosis in diagnoses {
        needs.extend(SufficientLength::new(diagnosis).map(|length| (length.value, diagnosis)));
    }
    needs.sort_by_key(|(value, _)| *value);
    for (i, (_, diagnosis)) in needs.iter().take(MAX_NAMED).enumerate() {
        let Some(length) = SufficientLength::new(diagnosis) else { continue };
        let name = to_printable_message(&diagnosis.name);
        let start = if i == 0 {
            format!(": {}", length.phrase())
        } else {
            format!(", {}", length.amount())
        };
        text += &format!("{start} for {name}");
    }
    if needs.len() > MAX_NAMED {
        text += ", more for the others";
    }
    text + "."
}

/// Names a few subjects, and counts the others.
fn join_names(names: &[&str]) -> String {
    let named: Vec<String> =
        names.iter().take(MAX_NAMED).map(|name| to_printable_message(name)).collect();
    match names.len() - named.len() {
        0 => join_with(&named, "and"),
        1 => format!("{} and 1 other", named.join(", ")),
        others => format!("{} and {others} others", named.join(", ")),
    }
}

/// The length of a measurement that would probably have enough late ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SufficientLength {
    /// Nanoseconds of a trace, or ticks of a run.
    value: u64,
    is_trace: bool,
}

impl SufficientLength {
    /// Estimates the length from the rate of late ticks and of their episodes so far. Returns
    /// `None` if there is none.
    pub fn new(diagnosis: &Diagnosis<'_>) -> Option<Self> {
        let length = diagnosis.trace_ns.unwrap_or(diagnosis.why.ticks);
        let value = round_up(length as f64 * growth(diagnosis.why)?);
        Some(Self { value, is_trace: diagnosis.trace_ns.is_some() })
    }

    /// Describes the measurement.
    pub fn phrase(self) -> String {
        let amount = self.amount();
        if self.is_trace { format!("a trace of about {amount}") } else { format!("about {amount}") }
    }

    fn amount(self) -> String {
        match self.is_trace {
            true => format_time(i64::try_from(self.value).unwrap_or(i64::MAX)),
            false => format!("{} ticks", group_digits(self.value)),
        }
    }
}

/// Returns the factor by which a measurement must grow to have enough late ticks and episodes;
/// `None` if it has no late tick.
fn growth(why: &Why) -> Option<f64> {
    let late_ticks = match why.quantile {
        // The share of late ticks is known even if a short measurement rounds it down to none.
        Some(quantile) => why.ticks as f64 * (1.0 - quantile),
        None => why.late_ticks as f64,
    };
    let by_ticks = MIN_TICKS as f64 / late_ticks;
    let by_episodes =
        if why.episodes == 0 { 0.0 } else { MIN_EPISODES as f64 / why.episodes as f64 };
    Some(by_ticks.max(by_episodes)).filter(|growth| growth.is_finite())
}

/// Rounds up to a few significant digits.
fn round_up(value: f64) -> u64 {
    // A share such as 0.01 is not exact; do not let it raise the last digit.
    let value = (value * (1.0 - 1e-9)).ceil().max(1.0) as u64;
    let step = 10_u64.pow((value.ilog10() + 1).saturating_sub(ESTIMATE_DIGITS));
    value.div_ceil(step).saturating_mul(step)
}

#[cfg(test)]
mod tests {
    use files::report::why::{Missing, Shares, Tier};
    use files::why::pool::Pool;

    use super::*;

    fn untraced() -> Why {
        Pool::new(None, 0).finish(&[], None)
    }

    fn traced(ticks: u64, late_ticks: u64, episodes: u64) -> Why {
        Why {
            tier: Some(Tier::B2),
            quantile: Some(0.99),
            ticks,
            late_ticks,
            episodes,
            ..untraced()
        }
    }

    fn sentences(whys: &[Why], trace_ns: Option<u64>) -> (usize, Vec<String>) {
        let named = whys.iter().zip('a'..);
        let diagnoses =
            named.map(|(why, name)| Diagnosis { name: name.to_string(), why, trace_ns });
        let grouped = GroupedDiagnoses::new(diagnoses);
        (grouped.shown.len(), grouped.sentences)
    }

    #[test]
    fn sufficient_length_follows_the_rate() {
        let length = |why: &Why, trace_ns| {
            let diagnosis = Diagnosis { name: String::new(), why, trace_ns };
            SufficientLength::new(&diagnosis).map(SufficientLength::phrase)
        };
        // Ten seconds of a loop of 10 ms have 10 late ticks.
        let ten_seconds = Some(10_000_000_000);
        assert_eq!(length(&traced(1_000, 10, 9), ten_seconds).unwrap(), "a trace of about 20.0 s");
        assert_eq!(length(&traced(1_000, 10, 1), ten_seconds).unwrap(), "a trace of about 50.0 s");
        assert_eq!(length(&traced(50, 0, 0), ten_seconds).unwrap(), "a trace of about 400 s");
        assert_eq!(length(&traced(1_000, 10, 9), None).unwrap(), "about 2,000 ticks");
        let threshold =
            |late_ticks| Why { quantile: None, ..traced(7_000, late_ticks, late_ticks) };
        assert_eq!(length(&threshold(3), None).unwrap(), "about 47,000 ticks");
        assert_eq!(length(&threshold(0), None), None, "no rate");
    }

    #[test]
    fn few_ticks_share_a_sentence() {
        let few: Vec<Why> = (1..=5).map(|n| traced(100 * n, n, n)).collect();
        let (shown, merged) = sentences(&few, Some(10_000_000_000));
        assert_eq!((shown, merged.len()), (0, 1));
        assert!(merged[0].contains("a, b, c and 2 others"), "{merged:?}");
        let lengths =
            ": a trace of about 40.0 s for e, 50.0 s for d, 67.0 s for c, more for the others.";
        assert!(merged[0].ends_with(lengths), "{merged:?}");
        let explained = Why { shares_ns: Some(Shares::default()), ..traced(9_000, 90, 90) };
        let (shown, merged) = sentences(&[explained, traced(1_000, 10, 9)], None);
        assert_eq!((shown, merged.len()), (2, 0), "a single subject keeps its heading");
    }

    #[test]
    fn equal_reasons_share_a_sentence() {
        let missing = |reason: &str| Why {
            missing: Some(Missing { tier: Tier::A1, reason: reason.to_owned() }),
            ..untraced()
        };
        let whys = [missing("x"), missing("y"), missing("x"), missing("y"), missing("z")];
        let (shown, merged) = sentences(&whys, None);
        assert_eq!((shown, merged.len()), (1, 2));
        assert!(merged[0].contains("a and c") && merged[1].contains("b and d"), "{merged:?}");
    }
}
