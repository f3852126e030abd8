//! Targets for reports of runs, written by osjitter or by other tools.

use std::collections::BTreeSet;

use cli::exit;
use files::compare::{self, ChosenSubject, Comparison, Origin, SCHEMA};
use files::file::File as _;
use files::merge;
use files::report::Report;
use interop::cyclictest::Resolution;

use crate::fuzz::files::{check_file, text};
use crate::fuzz::round_trip;
use crate::fuzz::step_costs::StepCosts;
use crate::report::runs::{BinsArgs, FORMATS, RunOptions, Runs};
use render::formats::{Format, Rendering, make};
use render::report::table::TableArgs;

/// Relative error of a value in a log with three digits.
const THREE_DIGITS: f64 = 1e-3;

/// Reads one report and renders it in every format.
pub fn body(bytes: &[u8], costs: &StepCosts) -> exit::Result<()> {
    let report =
        costs.measure("read", || interop::parse(&text(bytes)?).map_err(exit::Error::from))?;
    check_written(&report, costs);
    let options = RunOptions {
        samples: false,
        histogram: false,
        table: TableArgs::default(),
        quiet: false,
        subject: None,
        resolution: None,
        bins: BinsArgs::default(),
    };
    for (format, _) in FORMATS {
        check_format(
            &report,
            format,
            &RunOptions { histogram: format == Format::Table, ..options.clone() },
            costs,
        );
    }
    check_format(
        &report,
        Format::CyclictestJson,
        &RunOptions { resolution: Some(Resolution::Ns), ..options.clone() },
        costs,
    );
    check_format(&report, Format::Csv, &RunOptions { samples: true, ..options }, costs);
    Ok(())
}

/// Checks that a report survives writing and reading.
fn check_written(report: &Report, costs: &StepCosts) {
    let json = costs.measure("json", || report.to_json());
    match costs.measure("read again", || Report::from_json(&json)) {
        Ok(again) => assert!(again == *report, "the report differs when it is read again"),
        Err(error) => panic!("what we write must be readable: {error}"),
    }
}

fn check_format(report: &Report, format: Format, options: &RunOptions, costs: &StepCosts) {
    let runs = Runs::new(vec![report.clone()], format, options);
    let Ok(runs) = runs else { panic!("{format:?} with its options is refused") };
    let Ok(rendering) = costs.measure("format", || make("a run", &FORMATS, format, &runs)) else {
        return;
    };
    round_trip::check(format, &rendering);
    let Rendering::Text(text) = rendering else { return };
    let read = |text: &str| {
        interop::parse(text).unwrap_or_else(|e| panic!("our {format:?} cannot be read: {e}"))
    };
    let measured = report.subjects.iter().filter(|s| s.summary.is_some());
    match format {
        Format::CyclictestJson if measured.clone().next().is_some() => {
            // Times are cut off to the resolution.
            let unit_ns = if options.resolution == Some(Resolution::Ns) { 1 } else { 1_000 };
            let mut expected = round_trip::subject_numbers(report);
            for (_, max) in &mut expected {
                *max = (*max).max(0) / unit_ns * unit_ns;
            }
            round_trip::check_numbers(expected, &read(&text), 0.0);
        }
        Format::Hlog if text.lines().any(|line| !line.starts_with(['#', '"'])) => drop(read(&text)),
        Format::Csv if !options.samples => {
            assert_eq!(
                round_trip::parse_csv(&text).len() - 1,
                measured.count(),
                "a line for each subject that was measured"
            );
        }
        Format::Hgrm => {
            let stored = measured.clone().find_map(|s| s.histogram.as_ref()).map_or(0, |h| h.count);
            assert_eq!(round_trip::count_hgrm(&text), stored, "values are lost");
            drop(read(&text));
        }
        _ => {}
    }
    if format == Format::Hlog {
        check_log(report, &text);
    }
}

/// Checks that a log has every tick, if the report has all of them.
fn check_log(report: &Report, log: &str) {
    let measured = || report.subjects.iter().filter(|s| s.summary.is_some());
    let whole = measured().all(|s| {
        let kept: usize = s.rounds.iter().map(|r| r.lateness_ns.len()).sum();
        s.summary.as_ref().is_some_and(|m| m.came() == kept as u64)
    });
    let tags = |s: &str| s.replace([',', ' ', '\n', '\r', '\t'], "_");
    let ids: BTreeSet<String> = report.subjects.iter().map(|s| tags(&s.id)).collect();
    if whole
        && ids.len() == report.subjects.len()
        && let Ok(read) = interop::parse(log)
    {
        let kept = measured().map(|s| s.rounds.iter().flat_map(|r| r.lateness_ns.iter().copied()));
        let numbers = kept.map(|kept| (kept.clone().count() as u64, kept.max().unwrap_or(0)));
        round_trip::check_numbers(numbers.collect(), &read, THREE_DIGITS);
    }
}

/// Merges the report with another run of its plan, and compares its subjects with each other.
pub fn several(bytes: &[u8], costs: &StepCosts) -> exit::Result<()> {
    const MAX_REPORTS: usize = 4;
    let report =
        costs.measure("read", || interop::parse(&text(bytes)?).map_err(exit::Error::from))?;
    let mut other = report.clone();
    other.started_utc = "2001-01-01T00:00:00Z".to_owned();
    other.plan.seed = !other.plan.seed;
    for late in
        other.subjects.iter_mut().flat_map(|s| &mut s.rounds).flat_map(|r| &mut r.lateness_ns)
    {
        *late = late.saturating_add(1);
    }
    let both = [report, other];
    if let Ok(merged) = costs.measure("merge", || merge::merge(&both, true)) {
        let _ = costs.measure("ranking", || merge::ranking(&both));
        check_written(&merged, costs);
    }
    let subjects = &both[0].subjects;
    for (i, b) in subjects.iter().take(MAX_REPORTS).enumerate() {
        for (report, a) in subjects[..i]
            .iter()
            .map(|a| (&both[0], a))
            .chain(both[1].subjects.get(i).map(|a| (&both[1], a)))
        {
            check_comparison(
                ChosenSubject { report, subject: a },
                ChosenSubject { report: &both[0], subject: b },
                costs,
            );
        }
    }
    Ok(())
}

fn check_comparison(a: ChosenSubject<'_>, b: ChosenSubject<'_>, costs: &StepCosts) {
    let _ = costs.measure("differences", || compare::differences(a, b));
    let Ok(subject) = costs.measure("compare", || compare::compare(a, b)) else { return };
    let origin = |chosen: ChosenSubject<'_>| Origin {
        file: "report.json".to_owned(),
        program: None,
        started_utc: chosen.report.started_utc.clone(),
        partial: chosen.report.partial,
        fitness: chosen.report.fitness.clone(),
        tool: chosen.report.tool.clone(),
    };
    let comparison = Comparison {
        metrics: Vec::new(),
        schema: SCHEMA.to_owned(),
        tool: a.report.tool.clone(),
        a: origin(a),
        b: origin(b),
        warnings: compare::warnings(a.report, b.report, std::slice::from_ref(&subject)),
        forced: Vec::new(),
        subjects: vec![subject],
    };
    check_file(&comparison, &crate::compare::formats::FORMATS, costs);
}
