//! `osjitter gate`: checks whether jitter has become worse.
//!
//! A gate can judge several kinds of questions in one run. Each kind has a file that plans,
//! measures, judges and describes it: two sides ([`comparison`]), whole runs of two programs
//! ([`runs`]), a subject against its stored sessions ([`mod@baseline`]), and limits on one subject
//! ([`limits`]). A [`screen`] decides within seconds, and only what is clear. To add a kind, add a
//! file, a line in [`QUESTIONS`], and a key in the verdict.

mod add;
pub mod args;
pub mod baseline;
pub mod calibrate;
mod calibration;
mod comparison;
mod design;
mod explain;
pub mod formats;
mod limits;
mod live_estimate;
mod pair_failure;
mod pairs;
mod question;
mod rate_limits;
mod runs;
mod sarif;
mod screen;
mod session;
pub mod text;

use crate::interrupt;
use std::sync::Arc;

use cli::exit::{self, Error, ExitStatus};
use cli::file_io;
use cli::file_io::OutputDirectory;
use cli::terminal;
use cli::terminal::Style;
use files::file::File as _;
use files::gate::verdict::Verdict;
use jitterstat::gate::decision::Outcome;

use render::formats::{Format, make};

use args::{BaselineAction, GateAction, GateArgs, OnInconclusive};
use question::{Gate, PlannedQuestion, Question};
use text::{RenderedVerdict, Section, outcome_word};

/// A kind of question that a gate can judge.
struct QuestionKind {
    /// Plans the question, if the arguments request it.
    plan: fn(&GateArgs) -> PlannedQuestion,
    /// Describes the answers in a verdict.
    sections: fn(&Verdict) -> Vec<Section>,
}

/// All kinds of questions, in the order in which they are measured and shown.
const QUESTIONS: [QuestionKind; 4] = [
    QuestionKind { plan: comparison::plan, sections: comparison::sections },
    QuestionKind { plan: runs::plan, sections: runs::text::sections },
    QuestionKind { plan: baseline::plan, sections: baseline::sections },
    QuestionKind { plan: limits::plan, sections: limits::sections },
];

/// Plans the questions of the arguments, measures until all are decided, and reports the verdict.
pub fn run(args: &GateArgs) -> exit::Result<ExitStatus> {
    if let Some(GateAction::Baseline { action: BaselineAction::Add(add) }) = &args.action {
        return add::run(add);
    }
    let mut questions = plan_questions(args)?;
    let stop = Arc::default();
    interrupt::stop_on_interrupt(&stop)?;
    for question in &mut questions {
        question.prepare(&stop)?;
    }
    let quiet = args.judged.rounds.quiet;
    let mut gate = Gate::open(args.out.as_deref(), stop, quiet)?;
    gate.verdict.screen = args.screen;
    let notes: Vec<String> = questions.iter().flat_map(|question| question.announce()).collect();
    if !notes.is_empty() {
        terminal::note(quiet, &format!("gate: {}", notes.join("; ")));
    }
    for question in questions {
        question.judge(&mut gate)?;
    }
    let (verdict, out) = gate.conclude();
    report_verdict(verdict, args, &out)
}

fn plan_questions(args: &GateArgs) -> exit::Result<Vec<Box<dyn Question>>> {
    let planned: exit::Result<Vec<_>> = QUESTIONS.iter().map(|kind| (kind.plan)(args)).collect();
    let questions: Vec<Box<dyn Question>> = planned?.into_iter().flatten().collect();
    if questions.is_empty() {
        return Err(Error::usage(
            "nothing to judge: give --a and --b, or --base-cmd and --candidate-cmd, or --bench and --base, or --baseline, or --limit",
        ));
    }
    Ok(questions)
}

/// Describes the answers of a verdict, question by question.
pub fn render_sections(verdict: Verdict) -> RenderedVerdict {
    let sections = QUESTIONS.iter().flat_map(|kind| (kind.sections)(&verdict)).collect();
    RenderedVerdict { verdict, sections }
}

/// Writes the verdict, prints it, and returns the exit status.
fn report_verdict(
    verdict: Verdict,
    args: &GateArgs,
    out: &OutputDirectory,
) -> exit::Result<ExitStatus> {
    let written = out.write("verdict.json", &verdict.to_json());
    let rendered = render_sections(verdict);
    let made = make("a verdict", &formats::FORMATS, args.format, &rendered)?;
    let mut text = made.into_bytes();
    if args.format == Format::Table {
        text = paint_verdict(text, &rendered.verdict);
    }
    // Print the verdict even if its file could not be written.
    let printed = file_io::write_output(text, None);
    if let Ok(file) = &written {
        terminal::note(args.judged.rounds.quiet, &format!("written: {}", file.display()));
    }
    if let Some(failure) = &rendered.verdict.failure {
        terminal::failure(&Error::measure(failure.clone()));
    }
    if rendered.verdict.verdict == Outcome::Inconclusive {
        // Not suppressed by --quiet: an exit code of 0 must not be mistaken for a pass.
        terminal::note(false, &inconclusive_note(&rendered.verdict, args.on_inconclusive));
    }
    written?;
    printed?;
    Ok(exit_status(&rendered.verdict, args.on_inconclusive))
}

/// Gives the verdict in a table a colour, if standard output has colours.
fn paint_verdict(text: Vec<u8>, verdict: &Verdict) -> Vec<u8> {
    let style = match verdict.verdict {
        Outcome::Pass | Outcome::Improved => Style::Good,
        Outcome::Regressed | Outcome::LimitBroken => Style::Bad,
        Outcome::Inconclusive => Style::Doubtful,
    };
    let word = outcome_word(verdict.verdict, verdict.screen);
    let plain = format!("verdict: {word}");
    let painted = terminal::paint_for_stdout(style, &plain);
    String::from_utf8_lossy(&text).replacen(&plain, &painted, 1).into_bytes()
}

/// Returns the message about an inconclusive gate.
fn inconclusive_note(verdict: &Verdict, on_inconclusive: OnInconclusive) -> String {
    let word = outcome_word(Outcome::Inconclusive, verdict.screen).to_uppercase();
    let exit_code = match exit_status(verdict, on_inconclusive) {
        ExitStatus::Done => " (exit code 0; --on-inconclusive fail makes it 3)",
        _ => "",
    };
    format!("{word}: this is not a pass{exit_code}")
}

fn exit_status(verdict: &Verdict, on_inconclusive: OnInconclusive) -> ExitStatus {
    match verdict.verdict {
        _ if verdict.partial => ExitStatus::NotMeasured,
        Outcome::Regressed | Outcome::LimitBroken => ExitStatus::Regressed,
        Outcome::Inconclusive if on_inconclusive == OnInconclusive::Fail => {
            ExitStatus::Inconclusive
        }
        Outcome::Inconclusive | Outcome::Pass | Outcome::Improved => ExitStatus::Done,
    }
}
