//! A report in plain English: only what its numbers show, no judgement and no advice.

use std::collections::BTreeSet;

use cli::time::{format_share, format_time};
use files::report::{Report, Subject, Summary};

use crate::render::cost::core_percent;
use crate::render::label::{is_control, labels, why_unmeasured};
use crate::render::quantity::is_gaps;
use crate::render::{origin, percentile, tradeoff};

/// One subject as the sentences need it.
struct Line<'a> {
    name: String,
    subject: &'a Subject,
    summary: &'a Summary,
    /// Its lateness at the percentile that the report ranks by.
    late: i64,
    interval: Option<[i64; 2]>,
}

/// What the table cannot show, in at most three sentences without line breaks: who was the least
/// late and at what price, what the machine could do in the same rounds, and what to beware of.
pub fn reading(report: &Report) -> String {
    let ranked = tradeoff::percentile(report);
    let names = labels(report).names;
    let lines: Vec<Line<'_>> = report
        .subjects
        .iter()
        .zip(names)
        .filter_map(|(subject, name)| {
            let summary = subject.summary.as_ref()?;
            let late = percentile::named(&summary.lateness_ns, ranked)?;
            Some(Line {
                name,
                subject,
                summary,
                late,
                interval: summary.lateness_ns.ci95.get(ranked).copied(),
            })
        })
        .collect();
    if is_gaps(report) {
        let longest = lines.iter().max_by_key(|l| l.summary.lateness_ns.max);
        return longest.map_or(String::new(), |l| {
            format!(
                "The longest gap was {}, of {}.",
                format_time(l.summary.lateness_ns.max),
                l.name
            )
        });
    }
    let at = ranked.replace('_', ".");
    [trade(&lines, &at), machine(report, &lines, &at), beware(report, &lines)]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join(" ")
}

/// Who was the least late, and at what price.
fn trade(lines: &[Line<'_>], at: &str) -> Option<String> {
    let subjects: Vec<&Line<'_>> = lines.iter().filter(|l| !is_control(&l.subject.name)).collect();
    fn conditions<'a>(line: &Line<'a>) -> (u64, Option<&'a str>) {
        (line.subject.period_ns, line.subject.load.as_deref())
    }
    let all: BTreeSet<(u64, Option<&str>)> = subjects.iter().map(|l| conditions(l)).collect();
    let choice = |of: (u64, Option<&str>)| -> Vec<&Line<'_>> {
        let of = subjects.iter().filter(|l| conditions(l) == of && tradeoff::keeps_up(l.subject));
        of.copied().collect()
    };
    let least =
        |of: &[&'_ Line<'_>]| of.iter().enumerate().min_by_key(|(_, l)| l.late).map(|(i, _)| i);
    if let (1, Some(one)) = (all.len(), all.first()) {
        let choice = choice(*one);
        let Some(first) = least(&choice).map(|i| choice[i]) else {
            return Some(
                "Every subject missed more than half of its ticks: none is ranked.".to_owned(),
            );
        };
        if choice.len() == 1 {
            let rest = if subjects.len() > 1 {
                " It alone missed no more than half of its ticks."
            } else {
                ""
            };
            return Some(format!(
                "{} was {} late at {at}{}.{rest}",
                first.name,
                format_time(first.late),
                cost(first.subject, ", for")
            ));
        }
        let equal = |l: &Line<'_>| l.late == first.late || overlap(l.interval, first.interval);
        let near = choice.iter().find(|l| l.name != first.name && equal(l));
        let near = near.map_or(String::new(), |l| format!(" (not clearly apart from {})", l.name));
        let dearest = core_percent(first.subject);
        let cheapest = choice
            .iter()
            .filter_map(|l| Some((core_percent(l.subject)?, *l)))
            .min_by(|a, b| a.0.total_cmp(&b.0));
        return Some(match cheapest.filter(|(_, l)| l.name != first.name).zip(dearest) {
            Some(((core, cheap), dearest)) => format!(
                "{} was the least late at {at}{near}, for {} % of one core; {}, the cheapest at {} %, was {} as late.",
                first.name,
                digits(dearest),
                cheap.name,
                digits(core),
                fold(cheap.late as f64 / first.late.max(1) as f64)
            ),
            None => {
                let cheapest = if dearest.is_some() { " and the cheapest" } else { "" };
                format!(
                    "{} was the least late at {at}{near}{cheapest}{}.",
                    first.name,
                    cost(first.subject, ", for")
                )
            }
        });
    }
    let of = |of: &(u64, Option<&str>)| {
        let choice = choice(*of);
        least(&choice).map(|i| {
            format!(
                "{} ({}{})",
                choice[i].name,
                format_time(choice[i].late),
                cost(choice[i].subject, " for")
            )
        })
    };
    let loads: BTreeSet<Option<&str>> = all.iter().map(|(_, load)| *load).collect();
    let each = match (loads.len(), all.len()) {
        (1, _) => "period",
        (loads, all) if loads == all => "load",
        _ => "period and load",
    };
    let all: Vec<String> = all.iter().filter_map(of).collect();
    (!all.is_empty()).then(|| format!("The least late of each {each} at {at}: {}.", all.join(", ")))
}

fn overlap(a: Option<[i64; 2]>, b: Option<[i64; 2]>) -> bool {
    a.zip(b).is_some_and(|(a, b)| a[0] <= b[1] && b[0] <= a[1])
}

/// What the controls met in the same rounds, where there are rounds.
fn machine(report: &Report, lines: &[Line<'_>], at: &str) -> Option<String> {
    let what = |name: &str| if name == "spin" { "a spinning thread" } else { "a sleeping thread" };
    let unloaded = lines.iter().any(|l| is_control(&l.subject.name) && l.subject.load.is_none());
    // Beside a load they say what the load does, and the table has that.
    let shown =
        |l: &&Line<'_>| is_control(&l.subject.name) && (l.subject.load.is_none() || !unloaded);
    let controls = lines.iter().filter(shown);
    let all: Vec<String> = controls
        .map(|l| format!("{} ({}) was {} late", what(&l.subject.name), l.name, format_time(l.late)))
        .collect();
    let met = if report.subjects.iter().all(|s| s.rounds.is_empty()) {
        "Beside them"
    } else {
        "In the same rounds"
    };
    (!all.is_empty()).then(|| format!("{met}, at {at}, {}.", all.join(", and ")))
}

/// What numbers of a table hide: ticks that came early, together or never, subjects out of the
/// ranking, stolen time.
fn beware(report: &Report, lines: &[Line<'_>]) -> Option<String> {
    let odd = |line: &Line<'_>| -> Vec<String> {
        let (s, name) = (line.summary, &line.name);
        let of = |n: u64, what: &str| {
            (n > 0).then(|| format!("{name} {what} {} of its ticks", format_share(n, s.ticks)))
        };
        [
            of(s.early, "was early for"),
            of(s.coalesced, "woke once for several of"),
            of(s.skipped, "skipped"),
        ]
        .into_iter()
        .flatten()
        .collect()
    };
    let behind = |l: &&Line<'_>| !is_control(&l.subject.name) && !tradeoff::keeps_up(l.subject);
    let behind: Vec<&str> = lines.iter().filter(behind).map(|l| l.name.as_str()).collect();
    let unranked = match behind.as_slice() {
        [] => None,
        [one] => Some(format!("{one} missed most of its ticks and is not ranked")),
        [rest @ .., last] => Some(format!(
            "{} and {last} missed most of their ticks and are not ranked",
            rest.join(", ")
        )),
    };
    let oddities = lines.iter().flat_map(odd).chain(observer(report, lines));
    let all: Vec<String> = unranked.into_iter().chain(oddities).chain(steal(report)).collect();
    (!all.is_empty()).then(|| format!("Beware: {}.", all.join("; ")))
}

/// What the observer costs, where that is a tenth of a lateness or more.
fn observer(report: &Report, lines: &[Line<'_>]) -> Option<String> {
    let ns = report.clock.observer_ns_per_tick?;
    let least = lines.iter().filter_map(|l| l.summary.lateness_ns.p50).min()?;
    (least <= i64::try_from(ns.saturating_mul(10)).unwrap_or(i64::MAX))
        .then(|| origin::observer(report))
        .flatten()
}

/// One sentence per subject: its place in the report, and what follows its name. The most punctual
/// stands first, by the percentile that the report ranks by; then what misses most of its ticks,
/// then the controls, then what could not be measured.
pub fn sentences(report: &Report) -> Vec<(usize, String)> {
    let front: Vec<usize> =
        tradeoff::points(report).iter().filter(|p| p.front).map(|p| p.subject).collect();
    let mut all: Vec<(usize, &Subject)> = report.subjects.iter().enumerate().collect();
    let ranked = tradeoff::percentile(report);
    all.sort_by_key(|(_, s)| {
        let d = s.summary.as_ref().map(|m| &m.lateness_ns);
        let late = d.map(|d| percentile::named(d, ranked).unwrap_or(d.max));
        (late.is_none(), is_control(&s.name), !tradeoff::keeps_up(s), late)
    });
    all.into_iter()
        .map(|(i, subject)| (i, sentence(subject, front.contains(&i), is_gaps(report))))
        .collect()
}

fn sentence(subject: &Subject, front: bool, gaps: bool) -> String {
    let Some(summary) = &subject.summary else {
        return format!("was not measured: {}.", why_unmeasured(subject));
    };
    let d = &summary.lateness_ns;
    if gaps {
        return format!(
            "had gaps of {} at most, among {} of its loop.",
            format_time(d.max),
            summary.ticks
        );
    }
    let late = match (d.p50, d.p99) {
        (Some(p50), Some(p99)) => {
            format!("was {} late at the median and {} at p99", format_time(p50), format_time(p99))
        }
        (Some(p50), None) => {
            format!(
                "was {} late at the median and at most {}",
                format_time(p50),
                format_time(d.max)
            )
        }
        _ => format!("was at most {} late", format_time(d.max)),
    };
    let cost = cost(subject, ", for");
    let missed = match summary.missed {
        // Without a period there is no next deadline to miss.
        _ if subject.period_ns == 0 => String::new(),
        0 => "; it missed no tick".to_owned(),
        n => format!("; it missed {}", format_share(n, summary.ticks)),
    };
    let unbeaten = if front { "; nothing else was both more punctual and cheaper" } else { "" };
    format!("{late}{cost}{missed}{unbeaten}.")
}

/// The warnings as sentences, one for each code: the first of its kind, and how many others there
/// are.
pub fn warnings(report: &Report) -> Vec<String> {
    let all = &report.warnings;
    let first = all
        .iter()
        .enumerate()
        .filter(|(i, w)| !all[..*i].iter().any(|before| before.code == w.code));
    let ended = |text: &str| {
        if text.ends_with(['.', '!', '?']) { text.to_owned() } else { format!("{text}.") }
    };
    first
        .map(|(_, w)| {
            let others = all.iter().filter(|other| other.code == w.code).count() - 1;
            let more =
                if others > 0 { format!(" (And {others} more like it.)") } else { String::new() };
            format!("{}: {} {}{more}", w.code, ended(&w.message), ended(&w.hint))
        })
        .collect()
}

/// Least share of stolen time that is worth a sentence.
const MIN_STEAL: f64 = 0.01;

/// For a report without a verdict of its fitness, which says so itself.
fn steal(report: &Report) -> Option<String> {
    report.fitness.is_none().then_some(())?;
    let rounds =
        || report.subjects.iter().flat_map(|s| s.rounds.iter().map(move |r| (s.period_ns, r)));
    let stolen: f64 = rounds().filter_map(|(_, r)| r.steal_ns).map(|ns| ns as f64).sum();
    let asked = |(period, r): (u64, &files::report::Round)| {
        r.summary.as_ref().map_or(0.0, |s| s.ticks as f64 * period as f64)
    };
    let span: f64 = rounds().map(asked).sum();
    let cpus = report.host.cpus_online?;
    let share = stolen / (span * cpus as f64);
    (share >= MIN_STEAL)
        .then(|| format!("the hypervisor took {:.0} % of the CPU time away", share * 100.0))
}

fn cost(subject: &Subject, lead: &str) -> String {
    core_percent(subject).map_or(String::new(), |c| format!("{lead} {} % of one core", digits(c)))
}

fn fold(times: f64) -> String {
    match times {
        t if t < 1.995 => format!("{t:.2} times"),
        t if t < 1_000.0 => format!("{} times", digits(t)),
        t => format!("{:.1} thousand times", t / 1_000.0),
    }
}

/// Two or three digits: a run supports no more.
fn digits(value: f64) -> String {
    match value {
        v if v >= 10.0 => format!("{v:.0}"),
        v if v >= 1.0 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use files::file::File as _;

    /// The fixed report of the tests, read as any other.
    fn report() -> Report {
        Report::from_json(include_str!("../../tests/fixtures/report.json")).expect("a report")
    }

    #[test]
    fn each_subject_has_one_sentence() {
        let report = report();
        let said = sentences(&report);
        let mut places: Vec<usize> = said.iter().map(|(i, _)| *i).collect();
        assert!(report.subjects[places[0]].name != "spin", "a control is no answer");
        places.sort_unstable();
        assert!(places.iter().copied().eq(0..report.subjects.len()));
        assert!(said.iter().all(|(_, s)| s.starts_with("was ")
            && s.ends_with('.')
            && s.matches(". ").count() == 0));
    }

    #[test]
    fn one_ranking_is_named_and_followed() {
        let mut report = report();
        report.subjects.iter_mut().filter_map(|s| s.summary.as_mut()).for_each(|s| s.missed = 0);
        let at = tradeoff::percentile(&report).replace('_', ".");
        let first = report.subjects[sentences(&report)[0].0].name.clone();
        let text = reading(&report);
        assert!(
            text.starts_with(&format!("{first} was the least late at {at}")),
            "{first}: {text}"
        );
        assert!(text.matches(". ").count() < 3, "{text}");
        // What misses nine of ten is praised by nobody.
        for summary in report
            .subjects
            .iter_mut()
            .filter(|s| s.name == first)
            .filter_map(|s| s.summary.as_mut())
        {
            summary.missed = summary.ticks / 10 * 9;
        }
        let text = reading(&report);
        assert!(
            !text.starts_with(&first)
                && text.contains("missed most of")
                && text.contains("not ranked"),
            "{text}"
        );
        let said = sentences(&report);
        let of = |name: &str| {
            said.iter().position(|(i, _)| report.subjects[*i].name == name).expect("it is there")
        };
        assert!(of(&first) > 0 && !said[of(&first)].1.contains("nothing else was"), "{said:?}");
    }
}
