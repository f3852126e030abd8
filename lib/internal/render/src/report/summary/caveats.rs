//! Caveats of a report: ticks, costs and stolen time that the table hides.

use cli::time::format_share;
use files::report::{Report, Round, Subject, Summary};
use files::window::TimeInWindow;

use crate::report::ranking::Ranking;
use crate::report::summary::name_list::join_with;
use crate::report::summary::subject_line::SubjectLine;
use crate::report::trust::Trust;
use crate::report::{origin, tradeoff};

/// Lists what the numbers of the table hide: early, coalesced and skipped ticks, subjects that are
/// not ranked, the cost of the observer, and stolen CPU time.
pub(super) fn describe_caveats(ranking: &Ranking<'_>, lines: &[SubjectLine<'_>]) -> Option<String> {
    let report = ranking.report();
    let mut caveats = Vec::new();
    if ranking.percentile().is_some() {
        let competitors = lines.iter().filter(|line| !line.is_control());
        let (failed, others): (Vec<_>, Vec<_>) =
            competitors.partition(|line| line.subject.status.failure().is_some());
        let behind: Vec<_> =
            others.into_iter().filter(|line| !tradeoff::keeps_up(line.subject)).collect();
        caveats.extend(describe_unranked(&failed, "failed"));
        caveats.extend(match behind.as_slice() {
            [_] => describe_unranked(&behind, "missed most of its ticks"),
            _ => describe_unranked(&behind, "missed most of their ticks"),
        });
    }
    let trust = Trust::from_report(report);
    for line in lines {
        caveats.extend(describe_odd_ticks(line, trust));
    }
    caveats.extend(describe_observer(report, lines));
    caveats.extend(describe_steal(report));
    if caveats.is_empty() { None } else { Some(format!("Note: {}.", caveats.join("; "))) }
}

/// Names subjects that are not ranked.
fn describe_unranked(lines: &[&SubjectLine<'_>], reason: &str) -> Option<String> {
    let names: Vec<&str> = lines.iter().map(|line| line.name.as_str()).collect();
    match names.as_slice() {
        [] => None,
        [name] => Some(format!("{name} {reason} and is not ranked")),
        several => Some(format!("{} {reason} and are not ranked", join_with(several, "and"))),
    }
}

/// Describes ticks that were early, coalesced or skipped.
fn describe_odd_ticks(line: &SubjectLine<'_>, trust: Trust) -> Vec<String> {
    let Summary { early, coalesced, skipped, ticks, .. } = line.summary;
    let mut descriptions = Vec::new();
    let name = &line.name;
    let share = |n: u64| format_share(n, *ticks);
    let remark = |key: &str| trust.remark(line.summary, key);
    if let Some(early @ 1..) = *early {
        descriptions.push(format!("{name} was early for {} of its ticks", share(early)));
    }
    if let Some(coalesced @ 1..) = *coalesced {
        let (share, remark) = (share(coalesced), remark("coalesced"));
        descriptions.push(format!(
            "{name} delivered {share} of its ticks in the wake-up of a later one{remark}"
        ));
    }
    if let Some(skipped @ 1..) = *skipped {
        let (share, remark) = (share(skipped), remark("skipped"));
        descriptions.push(format!("{name} skipped {share} of its ticks{remark}"));
    }
    descriptions
}

/// Describes the cost of the observer if it is at least a tenth of a median lateness.
fn describe_observer(report: &Report, lines: &[SubjectLine<'_>]) -> Option<String> {
    let ns = report.clock.observer_ns_per_tick?;
    let least = lines.iter().filter_map(|l| l.summary.lateness_ns.p50).min()?;
    let tenfold = i64::try_from(ns.saturating_mul(10)).unwrap_or(i64::MAX);
    if least <= tenfold { origin::observer(report) } else { None }
}

/// Minimum share of stolen time that is worth a sentence.
const MIN_STEAL: f64 = 0.01;

/// Describes stolen CPU time in a report without a fitness verdict; a verdict includes it.
fn describe_steal(report: &Report) -> Option<String> {
    if report.fitness.is_some() {
        return None;
    }
    let mut stolen = TimeInWindow::default();
    for subject in &report.subjects {
        for round in &subject.rounds {
            let Some(steal_ns) = round.steal_ns else { continue };
            stolen = stolen + TimeInWindow::new(steal_ns, steal_window_ns(subject, round));
        }
    }
    let share = stolen.share_of_cpus(report.host.cpus_online?)?;
    (share >= MIN_STEAL)
        .then(|| format!("the hypervisor took {:.0} % of the CPU time", share * 100.0))
}

/// Returns the time in which the stolen time of a round was counted. The instances of a round share
/// its stolen time, but overlap in time, so that the entry of the first one has all of it. Files of
/// early versions do not state it: it is a period for each tick and each tick of the warm-up.
fn steal_window_ns(subject: &Subject, round: &Round) -> u64 {
    if round.instance != 0 {
        return 0;
    }
    let planned = round.summary.as_ref().map_or(0, |summary| summary.ticks);
    let ticks = round.first_tick.saturating_add(planned / subject.instances.max(1));
    round.window_ns.unwrap_or_else(|| ticks.saturating_mul(subject.period_ns))
}

#[cfg(test)]
mod tests {
    use files::file::File as _;

    use super::*;

    #[test]
    fn stolen_time_has_its_window() {
        let text = include_str!("../../../../../../tests/fixtures/report.json");
        let mut report = Report::from_json(text).expect("a report");
        report.host.cpus_online = Some(2);
        report.subjects.truncate(1);
        let subject = &mut report.subjects[0];
        let steal_ns = Some(5_000_000);
        let round = Round { window_ns: Some(100_000_000), steal_ns, ..subject.rounds[0].clone() };
        let other = Round { instance: 1, summary: None, ..round.clone() };
        (subject.instances, subject.rounds) = (2, vec![round, other]);
        // 10 ms in 100 ms of two CPUs.
        let sentence = |percent| Some(format!("the hypervisor took {percent} % of the CPU time"));
        assert_eq!(describe_steal(&report), sentence(5));
        // An early file does not state the time of ten ticks of warm-up and 25 per instance.
        report.subjects[0].rounds.iter_mut().for_each(|round| round.window_ns = None);
        assert_eq!(describe_steal(&report), sentence(14));
    }
}
