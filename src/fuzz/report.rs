//! Reports of runs, ours or of other tools.

use std::collections::BTreeSet;

use cli::exit;
use files::compare::{self, ChosenSubject, Comparison, Origin, SCHEMA};
use files::file::File as _;
use files::merge;
use files::report::Report;

use crate::fuzz::again;
use crate::fuzz::files::{shown, text};
use crate::fuzz::stage::Stages;
use crate::interop;
use crate::render::formats::{Format, Made, make};
use crate::render::table::TableArgs;
use crate::report::runs::{BinsArgs, FORMATS, RunOptions, Runs};

/// A value is within this of what it was in a log of three digits.
const THREE_DIGITS: f64 = 1e-3;

/// One report.
pub fn body(bytes: &[u8], stages: &Stages) -> exit::Result<()> {
    let report = stages.of("read", || interop::parse(&text(bytes)?))?;
    written(&report, stages);
    let options = RunOptions {
        samples: false,
        histogram: false,
        table: TableArgs::default(),
        quiet: false,
        subject: None,
        bins: BinsArgs::default(),
    };
    for (format, _) in FORMATS {
        formatted(
            &report,
            format,
            &RunOptions { histogram: format == Format::Table, ..options.clone() },
            stages,
        );
    }
    formatted(&report, Format::Csv, &RunOptions { samples: true, ..options }, stages);
    Ok(())
}

/// The file that we write of it is one that we read, to the same report.
fn written(report: &Report, stages: &Stages) {
    let json = stages.of("json", || report.to_json());
    match stages.of("read again", || Report::from_json(&json)) {
        Ok(again) => assert!(again == *report, "it is another report when it is read again"),
        Err(error) => panic!("what we write we refuse: {error}"),
    }
}

fn formatted(report: &Report, format: Format, options: &RunOptions, stages: &Stages) {
    let runs = Runs::new(vec![report.clone()], format, options);
    let Ok(runs) = runs else { panic!("{format:?} with its options is refused") };
    let Ok(made) = stages.of("format", || make("a run", &FORMATS, format, &runs)) else { return };
    again::check(format, &made);
    let Made::Text(text) = made else { return };
    let read = |text: &str| {
        interop::parse(text).unwrap_or_else(|e| panic!("our {format:?} we refuse: {e}"))
    };
    let measured = report.subjects.iter().filter(|s| s.summary.is_some());
    match format {
        Format::CyclictestJson if measured.clone().next().is_some() => {
            again::same_numbers(again::numbers(report), &read(&text), 0.0)
        }
        Format::Hlog if text.lines().any(|line| !line.starts_with(['#', '"'])) => drop(read(&text)),
        Format::Csv if !options.samples => {
            assert_eq!(
                again::csv(&text).len() - 1,
                measured.count(),
                "a line for each subject that was measured"
            );
        }
        Format::Hgrm => {
            let stored = measured.clone().find_map(|s| s.histogram.as_ref()).map_or(0, |h| h.count);
            assert_eq!(again::hgrm(&text), stored, "values are lost");
        }
        _ => {}
    }
    if format == Format::Hlog {
        logged(report, &text);
    }
}

/// A log has every tick, if the report has them all.
fn logged(report: &Report, log: &str) {
    let measured = || report.subjects.iter().filter(|s| s.summary.is_some());
    let whole = measured().all(|s| {
        let kept: usize = s.rounds.iter().map(|r| r.lateness_ns.len()).sum();
        s.summary.as_ref().is_some_and(|m| m.ticks - m.skipped == kept as u64)
    });
    let tags = |s: &str| s.replace([',', ' ', '\n', '\r', '\t'], "_");
    let ids: BTreeSet<String> = report.subjects.iter().map(|s| tags(&s.id)).collect();
    if whole
        && ids.len() == report.subjects.len()
        && let Ok(read) = interop::parse(log)
    {
        let kept = measured().map(|s| s.rounds.iter().flat_map(|r| r.lateness_ns.iter().copied()));
        let numbers = kept.map(|kept| (kept.clone().count() as u64, kept.max().unwrap_or(0)));
        again::same_numbers(numbers.collect(), &read, THREE_DIGITS);
    }
}

/// Several: the report joined with another run of its plan, and its subjects compared with each
/// other.
pub fn several(bytes: &[u8], stages: &Stages) -> exit::Result<()> {
    const MAX_REPORTS: usize = 4;
    let report = stages.of("read", || interop::parse(&text(bytes)?))?;
    let mut other = report.clone();
    other.started_utc = "2001-01-01T00:00:00Z".to_owned();
    other.plan.seed = !other.plan.seed;
    for late in
        other.subjects.iter_mut().flat_map(|s| &mut s.rounds).flat_map(|r| &mut r.lateness_ns)
    {
        *late = late.saturating_add(1);
    }
    let both = [report, other];
    if let Ok(merged) = stages.of("merge", || merge::merge(&both, true)) {
        let _ = stages.of("ranking", || merge::ranking(&both));
        written(&merged, stages);
    }
    let subjects = &both[0].subjects;
    for (i, b) in subjects.iter().take(MAX_REPORTS).enumerate() {
        for (report, a) in subjects[..i]
            .iter()
            .map(|a| (&both[0], a))
            .chain(both[1].subjects.get(i).map(|a| (&both[1], a)))
        {
            compared(
                ChosenSubject { report, subject: a },
                ChosenSubject { report: &both[0], subject: b },
                stages,
            );
        }
    }
    Ok(())
}

fn compared(a: ChosenSubject<'_>, b: ChosenSubject<'_>, stages: &Stages) {
    let _ = stages.of("differences", || compare::differences(a, b));
    let Ok(one) = stages.of("compare", || compare::compare(a, b)) else { return };
    let origin = |of: ChosenSubject<'_>| Origin {
        file: "report.json".to_owned(),
        program: None,
        started_utc: of.report.started_utc.clone(),
        partial: of.report.partial,
        fitness: of.report.fitness.clone(),
        tool: of.report.tool.clone(),
    };
    let comparison = Comparison {
        metrics: Vec::new(),
        schema: SCHEMA.to_owned(),
        tool: a.report.tool.clone(),
        a: origin(a),
        b: origin(b),
        warnings: compare::warnings(a.report, b.report, std::slice::from_ref(&one)),
        forced: Vec::new(),
        subjects: vec![one],
    };
    shown(&comparison, &crate::compare::formats::FORMATS, stages);
}
