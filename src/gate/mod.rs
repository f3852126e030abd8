//! `osjitter gate`: checks whether jitter has become worse.
//!
//! [`run`] is the way of a gate from its arguments to its exit code. A gate can judge several
//! questions at once, each of which has a file that plans, measures and judges it: two sides
//! ([`comparison`]), whole runs of two programs ([`runs`]), a subject against its stored sessions
//! ([`mod@baseline`]), and limits on one subject ([`limits`]). A [`screen`] gives a quick verdict
//! within seconds. [`text`] describes a verdict. `osjitter calibrate` measures what a gate
//! can detect ([`calibrate`]).

pub mod args;
mod baseline;
pub mod calibrate;
mod calibration;
mod comparison;
mod left_out_pairs;
mod limits;
mod live_estimate;
mod needless_flags;
mod pair_failure;
mod pair_test;
mod pairs;
mod rate_limits;
mod running_gate;
mod runs;
mod screen;
pub mod text;

use std::path::PathBuf;
use std::sync::Arc;

use cli::exit::{self, Error, ExitStatus};
use cli::file_io;
use cli::file_io::{Destination, OutputDirectory, RESULT_FILES};
use cli::terminal::{self, Style};
use files::file::File as _;
use jitterstat::gate::decision::Outcome;
use render::formats::{Format, make};

use crate::{interrupt, settings};

use args::{BaselineAction, GateAction, GateArgs, OnInconclusive, check_named_once};
use running_gate::RunningGate;
use text::formats::FORMATS;
use text::{RenderedVerdict, outcome_word};

/// Measures until all questions of the arguments are decided, and reports the verdict.
pub fn run(args: &GateArgs) -> exit::Result<ExitStatus> {
    if let Some(GateAction::Baseline { action: BaselineAction::Add(add) }) = &args.action {
        let outcome = baseline::add::run(add)?;
        return Ok(exit_status(outcome, OnInconclusive::Fail));
    }

    check_named_once("--tolerance", &args.judged.tolerance)?;
    check_named_once("--detect", &args.detect)?;

    // Plan the questions. Nothing is measured or written yet.
    let mut comparison = comparison::plan(args)?;
    let mut runs = runs::plan(args)?;
    let baseline = baseline::plan(args)?;
    let limits = limits::plan(args)?;
    if comparison.is_none() && runs.is_none() && baseline.is_none() && limits.is_none() {
        return Err(Error::usage(
            "nothing to judge: give --a and --b, or --base-cmd and --candidate-cmd, or --bench and --base, or --baseline, or --limit",
        ));
    }

    needless_flags::check(args)?;
    for flag in ["--limit", "--baseline"] {
        if let Some(by) = settings::excluding_flag(flag) {
            terminal::note(
                false,
                &format!("gate: {by} does not judge {flag} of the settings file"),
            );
        }
    }

    // Check that everything can be measured here.
    let destination = Destination::from_flags(args.out.as_deref(), args.force);
    let inputs = [&args.report, &args.baseline, &args.calibration];
    let inputs = inputs.into_iter().flatten().map(PathBuf::as_path);
    OutputDirectory::check_inputs(destination, RESULT_FILES, inputs)?;
    OutputDirectory::check(destination, RESULT_FILES)?;
    let stop = Arc::default();
    interrupt::stop_on_interrupt(&stop)?;
    if let Some(comparison) = &mut comparison {
        comparison.prepare(&stop)?;
    }
    if let Some(runs) = &mut runs {
        runs.prepare(&stop)?;
    }

    // Create the directory of the results, and announce how long measuring takes.
    let mut gate = RunningGate::open(args, stop)?;
    let mut notes = Vec::new();
    notes.extend(comparison.iter().flat_map(|comparison| comparison.notes()));
    notes.extend(runs.iter().map(|runs| runs.note()));
    notes.extend(baseline.iter().flat_map(|baseline| baseline.notes()));
    notes.extend(limits.iter().filter_map(|limits| limits.note()));
    if !notes.is_empty() {
        terminal::note(gate.quiet, &format!("gate: {}", notes.join("; ")));
    }

    // Measure and judge. Every question adds its answer to the verdict.
    if let Some(comparison) = comparison {
        comparison.judge(&mut gate)?;
    }
    if let Some(runs) = runs {
        runs.judge(&mut gate)?;
    }
    if let Some(baseline) = baseline {
        baseline.judge(&mut gate)?;
    }
    if let Some(limits) = limits {
        limits.judge(&mut gate)?;
    }
    let (verdict, out) = gate.conclude();

    // Write the verdict, and print it even if its file could not be written.
    out.set_partial(verdict.partial);
    let written = out.write("verdict.json", &verdict.to_json());
    let rendered = RenderedVerdict::from(verdict);
    let mut text = make("a verdict", &FORMATS, args.format, &rendered)?.into_bytes();
    let verdict = rendered.verdict;
    let word = outcome_word(verdict.verdict, verdict.screen);
    if args.format == Format::Table {
        text = paint_verdict(&text, verdict.verdict, &word);
    }
    let printed = file_io::write_output(text, None);
    if let Ok(file) = &written {
        terminal::note(args.judged.rounds.quiet, &format!("written: {}", file.display()));
    }
    if let Some(failure) = &verdict.failure {
        terminal::failure(&Error::measure(failure.clone()));
    }

    let outcome = if verdict.partial { None } else { Some(verdict.verdict) };
    let status = exit_status(outcome, args.on_inconclusive);
    if verdict.verdict == Outcome::Inconclusive {
        // Not suppressed by --quiet: an exit code of 0 must not be mistaken for a pass.
        let exit_code = match status {
            ExitStatus::Done => " (exit code 0; --on-inconclusive fail makes it 3)",
            _ => "",
        };
        terminal::note(false, &format!("{}: this is not a pass{exit_code}", word.to_uppercase()));
    }
    written?;
    printed?;
    Ok(status)
}

/// Returns the exit status of an outcome; `None` is that of a measurement that was cut short.
fn exit_status(outcome: Option<Outcome>, on_inconclusive: OnInconclusive) -> ExitStatus {
    match (outcome, on_inconclusive) {
        (None, _) => ExitStatus::NotMeasured,
        (Some(Outcome::Regressed | Outcome::LimitBroken), _) => ExitStatus::Regressed,
        (Some(Outcome::Inconclusive), OnInconclusive::Fail) => ExitStatus::Inconclusive,
        (Some(Outcome::Inconclusive), OnInconclusive::Pass) => ExitStatus::Done,
        (Some(Outcome::Pass | Outcome::Improved), _) => ExitStatus::Done,
    }
}

/// Gives the verdict in a table a colour, if standard output has colours. `word` is its outcome.
fn paint_verdict(table: &[u8], outcome: Outcome, word: &str) -> Vec<u8> {
    let style = match outcome {
        Outcome::Pass | Outcome::Improved => Style::Good,
        Outcome::Regressed | Outcome::LimitBroken => Style::Bad,
        Outcome::Inconclusive => Style::Doubtful,
    };
    let plain = format!("verdict: {word}");
    let painted = terminal::paint_for_stdout(style, &plain);
    String::from_utf8_lossy(table).replacen(&plain, &painted, 1).into_bytes()
}
