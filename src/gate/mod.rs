//! `osjitter gate`: has jitter become worse?
//!
//! Each question has a file, which plans, measures, judges and words it: two sides ([`sides`]), one against what is stored
//! of it ([`mod@against`]), limits on one of them ([`limits`]). Another one is another file, a line in [`QUESTIONS`], and
//! its key in the verdict.

mod add;
mod against;
pub mod args;
pub mod calibrate;
mod calibration;
mod design;
mod limits;
mod pairs;
mod question;
mod session;
mod sides;
mod text;

use std::io::Write;
use std::sync::Arc;

use jitterstat::file::File as _;
use jitterstat::gate::look::Outcome;
use jitterstat::gate::verdict::Verdict;

use crate::exit::{self, Error, ExitStatus};
use crate::files::Directory;
use crate::{interrupt, terminal};

use args::{BaselineAction, GateAction, GateArgs, OnInconclusive, VerdictFormat};
use question::{Gate, Question};
use text::Section;

/// Plans a question where the arguments ask it, and words its answer.
type Kind = (fn(&GateArgs) -> exit::Result<Option<Box<dyn Question>>>, fn(&Verdict) -> Vec<Section>);

/// All that a gate can be asked, in the order in which it is measured and told.
const QUESTIONS: [Kind; 3] =
    [(sides::plan, sides::sections), (against::plan, against::sections), (limits::plan, limits::sections)];

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
    let announced: Vec<String> = questions.iter().flat_map(|question| question.announce()).collect();
    if !announced.is_empty() {
        terminal::note(quiet, &format!("gate: {}", announced.join("; ")));
    }
    for question in questions {
        question.ask(&mut gate)?;
    }
    let (verdict, out) = gate.conclude();
    report(&verdict, args, &out)
}

/// Writes the verdict, prints it, and turns it into an exit code.
fn report(verdict: &Verdict, args: &GateArgs, out: &Directory) -> exit::Result<ExitStatus> {
    let sections: Vec<Section> = QUESTIONS.iter().flat_map(|(_, sections)| sections(verdict)).collect();
    let json = verdict.to_json();
    let file = out.write("verdict.json", &json)?;
    let text = match args.format {
        VerdictFormat::Table => text::table(verdict, &sections),
        VerdictFormat::Json => json,
        VerdictFormat::Markdown => text::markdown(verdict, &sections),
        VerdictFormat::Junit => text::junit(verdict, &sections),
    };
    let written = std::io::stdout().write_all(text.as_bytes()).map_err(Error::writing);
    terminal::note(args.judged.rounds.quiet, &format!("verdict: {}", file.display()));
    if verdict.verdict == Outcome::Inconclusive {
        // Said even when asked to be quiet: an exit code of 0 must not be taken for a pass.
        terminal::note(false, &format!("NOT A PASS. {}", text::sentence(verdict, &sections)));
    }
    written?;
    Ok(match verdict.verdict {
        _ if verdict.partial => ExitStatus::NotMeasured,
        Outcome::Regressed | Outcome::LimitBroken => ExitStatus::Regressed,
        Outcome::Inconclusive if args.on_inconclusive == OnInconclusive::Fail => ExitStatus::Inconclusive,
        Outcome::Inconclusive | Outcome::Pass | Outcome::Improved => ExitStatus::Done,
    })
}
