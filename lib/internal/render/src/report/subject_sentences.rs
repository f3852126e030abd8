//! A sentence about each subject of a report, in the order of the ranking.

use cli::time::format_time;
use cli::words::{end_sentence, pluralize};
use files::quantity::is_gaps;
use files::report::{Distribution, Report, Subject};
use files::subjects::is_control;

use crate::report::cost::format_cost;
use crate::report::label::{FAILED_LATE, unmeasured_reason};
use crate::report::ranking::Ranking;
use crate::report::tradeoff;
use crate::report::trust::{Trust, UNRELIABLE};

/// Returns one sentence per subject: its index in the report, and the text that follows its name.
///
/// The subject with the lowest percentile comes first, then subjects that failed or miss most of
/// their ticks, then the controls, then subjects that could not be measured. Subjects of which none is clearly
/// the lowest keep the order of the report, as do all subjects without a ranking.
pub fn sentences(ranking: &Ranking<'_>) -> Vec<(usize, String)> {
    let report = ranking.report();
    let mut ranked: Vec<usize> = (0..report.subjects.len()).collect();
    if ranking.percentile().is_some() {
        ranked.sort_by_key(|&index| rank(ranking, index));
    }
    let mut sentences = Vec::new();
    for index in ranked {
        let mut points = ranking.points().iter();
        let is_on_front = points.any(|point| point.front && point.subject == index);
        let sentence = describe_subject(report, &report.subjects[index], is_on_front);
        sentences.push((index, sentence));
    }
    sentences
}

/// The key by which subjects are sorted.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    is_unmeasured: bool,
    is_control: bool,
    is_behind: bool,
    late: Option<i64>,
}

fn rank(ranking: &Ranking<'_>, index: usize) -> Rank {
    let subject = &ranking.report().subjects[index];
    let late = ranking.sort_value(index);
    Rank {
        is_unmeasured: late.is_none(),
        is_control: is_control(&subject.name),
        is_behind: !tradeoff::keeps_up(subject),
        late,
    }
}

fn describe_subject(report: &Report, subject: &Subject, front: bool) -> String {
    let Some(summary) = &subject.summary else {
        return format!("was not measured: {}.", unmeasured_reason(subject));
    };
    let d = &summary.lateness_ns;
    if is_gaps(report) {
        let turns = pluralize(summary.ticks, "turn");
        return format!("had gaps of at most {} in {turns} of its loop.", format_time(d.max));
    }
    let trust = Trust::from_report(report);
    let late = describe_lateness(d, trust);
    let cost = format_cost(subject, " and used");
    let missed = match tradeoff::format_missed(subject, summary) {
        // Without a period there is no next deadline to miss.
        None => String::new(),
        Some(_) if summary.missed == Some(0) => "; it missed no tick".to_owned(),
        Some(missed) => format!("; it missed {missed}{}", trust.remark(summary, "missed")),
    };
    let unbeaten = if front {
        "; no other ranked subject was clearly better in one and not clearly worse in the other"
    } else {
        ""
    };
    let failure = match subject.status.failure() {
        Some(reason) => format!("; it {FAILED_LATE}: {reason}"),
        None => String::new(),
    };
    end_sentence(&format!("{late}{cost}{missed}{unbeaten}{failure}"))
}

/// Describes the median and the tail of the lateness, and which of them is not trusted.
pub fn describe_lateness(d: &Distribution, trust: Trust) -> String {
    let format = |ns: i64, is_trusted: bool| {
        format!("{}{}", format_time(ns), if is_trusted { "" } else { UNRELIABLE })
    };
    let max = format(d.max, trust.covers_max());
    let Some(p50) = d.p50.map(|ns| format(ns, trust.covers("p50"))) else {
        return format!("was at most {max} late");
    };
    match d.p99 {
        Some(p99) => {
            let p99 = format(p99, trust.covers("p99"));
            format!("was late by {p50} at the median and by {p99} at p99")
        }
        None => format!("was late by {p50} at the median and by at most {max}"),
    }
}

#[cfg(test)]
mod tests {
    use files::file::File as _;

    use super::*;

    #[test]
    fn each_subject_has_one_sentence() {
        let text = include_str!("../../../../../tests/fixtures/report.json");
        let report = Report::from_json(text).expect("a report");
        let ranked = sentences(&Ranking::new(&report));
        let mut indices: Vec<usize> = ranked.iter().map(|(i, _)| *i).collect();
        assert!(report.subjects[indices[0]].name != "spin", "a control is not ranked");
        indices.sort_unstable();
        assert!(indices.iter().copied().eq(0..report.subjects.len()));
        assert!(ranked.iter().all(|(_, s)| s.starts_with("was ")
            && s.ends_with('.')
            && s.matches(". ").count() == 0));
    }
}
