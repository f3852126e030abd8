//! `osjitter gate`: has jitter become worse?
//!
//! Each question has a file, which plans, measures, judges and words it: two sides ([`sides`]),
//! whole runs of two programs ([`runs`]), one against what is stored of it ([`mod@against`]),
//! limits on one of them ([`limits`]). Another one is another file, a line in [`QUESTIONS`], and
//! its key in the verdict.

mod add;
pub mod against;
pub mod args;
pub mod calibrate;
mod calibration;
mod design;
pub mod formats;
mod limits;
mod pairs;
mod question;
mod reading;
mod runs;
mod sarif;
mod session;
mod sides;
pub mod text;

use std::sync::Arc;

use cli::exit::{self, Error, ExitStatus};
use files::file::File as _;
use files::gate::verdict::Verdict;
use jitterstat::gate::decision::Outcome;

use crate::file_io::{self, Directory};
use crate::render::formats::make;
use crate::{interrupt, terminal};

use args::{BaselineAction, GateAction, GateArgs, OnInconclusive};
use question::{Gate, Question};
use text::{Section, Worded};

/// Plans a question where the arguments ask it, and words its answer.
type Kind =
    (fn(&GateArgs) -> exit::Result<Option<Box<dyn Question>>>, fn(&Verdict) -> Vec<Section>);

/// All that a gate can be asked, in the order in which it is measured and told.
const QUESTIONS: [Kind; 4] = [
    (sides::plan, sides::sections),
    (runs::plan, runs::text::sections),
    (against::plan, against::sections),
    (limits::plan, limits::sections),
];

/// Plans, measures until all is decided, writes the verdict.
pub fn run(args: &GateArgs) -> exit::Result<ExitStatus> {
    if let Some(GateAction::Baseline { action: BaselineAction::Add(add) }) = &args.action {
        return add::run(add);
    }
    let planned = QUESTIONS.iter().map(|(plan, _)| plan(args)).collect::<exit::Result<Vec<_>>>()?;
    let questions: Vec<Box<dyn Question>> = planned.into_iter().flatten().collect();
    if questions.is_empty() {
        let what = "nothing to judge: give --a and --b, or --baseline-cmd and --candidate-cmd, or --baseline, or --max";
        return Err(Error::usage(what));
    }
    let stop = Arc::default();
    interrupt::stop_on_interrupt(&stop)?;
    questions.iter().try_for_each(|question| question.prepare(&stop))?;
    let quiet = args.judged.rounds.quiet;
    let mut gate = Gate::open(args.out.as_deref(), stop, quiet)?;
    let announced: Vec<String> =
        questions.iter().flat_map(|question| question.announce()).collect();
    if !announced.is_empty() {
        terminal::note(quiet, &format!("gate: {}", announced.join("; ")));
    }
    questions.into_iter().try_for_each(|question| question.ask(&mut gate))?;
    let (verdict, out) = gate.conclude();
    report(verdict, args, &out)
}

/// A verdict, worded question by question.
pub fn worded(verdict: Verdict) -> Worded {
    let sections = QUESTIONS.iter().flat_map(|(_, sections)| sections(&verdict)).collect();
    (verdict, sections)
}

/// Writes the verdict, prints it, and turns it into an exit code.
fn report(verdict: Verdict, args: &GateArgs, out: &Directory) -> exit::Result<ExitStatus> {
    let file = out.write("verdict.json", &verdict.to_json());
    let worded = worded(verdict);
    let made = make("a verdict", &formats::FORMATS, args.format, &worded)?;
    // Shown all the same where the file cannot be written.
    let shown = file_io::deliver(made.into_bytes(), None);
    let (verdict, _) = worded;
    if let Ok(file) = &file {
        terminal::note(args.judged.rounds.quiet, &format!("written: {}", file.display()));
    }
    if verdict.verdict == Outcome::Inconclusive {
        // Said even when asked to be quiet: an exit code of 0 must not be taken for a pass.
        terminal::note(false, "NOT A PASS: the gate is inconclusive");
    }
    file?;
    shown?;
    Ok(match verdict.verdict {
        _ if verdict.partial => ExitStatus::NotMeasured,
        Outcome::Regressed | Outcome::LimitBroken => ExitStatus::Regressed,
        Outcome::Inconclusive if args.on_inconclusive == OnInconclusive::Fail => {
            ExitStatus::Inconclusive
        }
        Outcome::Inconclusive | Outcome::Pass | Outcome::Improved => ExitStatus::Done,
    })
}
