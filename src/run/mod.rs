//! `osjitter run`.

pub mod args;
mod live_terminal;
mod live_view;
mod plan_file;

use std::io::Write;
use std::sync::Arc;
use std::time::SystemTime;

use jitterstat::file::File as _;
use jitterstat::report::Status;

use crate::exit::{self, Error, ExitStatus};
use crate::files::Directory;
use crate::machine::host;
use crate::measure::order::Observer;
use crate::measure::record::{self, Conditions};
use crate::measure::round::MeasuredRound;
use crate::render::formats::Format;
use crate::run::args::RunArgs;
use crate::run::live_terminal::LiveView;
use crate::run::plan_file::PlanArgs;
use crate::scenario::{Plan, Scenario};
use crate::{files, interrupt, render, terminal};

pub fn run(args: &RunArgs) -> exit::Result<ExitStatus> {
    let plan = plan(args)?;
    if args.print_plan {
        let text = plan_file::to_toml(&plan);
        std::io::stdout().write_all(text.as_bytes()).map_err(Error::writing)?;
        return Ok(ExitStatus::Done);
    }
    plan.fits_memory()?;
    let host = host::capture();
    let changes = record::changes(&plan)?;
    let started_utc = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let out = Directory::open(args.out.as_deref(), &started_utc)?;
    let stop = Arc::default();
    interrupt::stop_on_interrupt(&stop)?;
    announce(&plan, args.quiet);

    let mut watched = Watched { view: view(&plan, args), plan: &plan };
    let report = record::measure(&plan, Conditions { host, changes, started_utc }, &stop, &mut watched);
    watched.view.finish();

    let json = report.to_json();
    let file = out.write("report.json", &json)?;
    for picture in render::svg::pictures(&report) {
        out.write(&picture.name, &picture.svg)?;
    }
    out.write("report.html", &render::html::page(std::slice::from_ref(&report)))?;
    let text = match args.format {
        Format::Table if args.histogram => {
            let columns = terminal::columns();
            format!("{}\n{}", render::table::with_reading(&report, columns), render::bars::text(&report, columns))
        }
        Format::Table => render::table::with_reading(&report, terminal::columns()),
        _ => json,
    };
    let written = std::io::stdout().write_all(text.as_bytes()).map_err(Error::writing);
    terminal::note(args.quiet, &format!("report: {}", file.display()));
    written?;
    let complete = report.subjects.iter().all(|s| s.status == Status::Measured);
    Ok(if complete { ExitStatus::Done } else { ExitStatus::NotMeasured })
}

fn plan(args: &RunArgs) -> exit::Result<Plan> {
    let file = match &args.plan {
        None => PlanArgs::default(),
        Some(path) => {
            let name = path.display().to_string();
            let text = files::read_text(path).map_err(|e| e.context("the plan"))?;
            plan_file::parse(&name, &text)?
        }
    };
    args.plan_args().plan(&file)
}

fn announce(plan: &Plan, quiet: bool) {
    let seconds = plan.expected().as_secs_f64();
    let time = if seconds < 1.0 {
        "less than a second".to_owned()
    } else if seconds < 120.0 {
        format!("about {seconds:.0}s")
    } else {
        format!("about {:.0} min", seconds / 60.0)
    };
    let ticks = &plan.scenarios[0].ticks;
    let same = plan.scenarios.iter().all(|s| s.ticks == *ticks);
    let each = if same { format!("{ticks} ticks") } else { "their ticks".to_owned() };
    let n = plan.scenarios.len();
    let subjects = if n == 1 { "subject" } else { "subjects" };
    terminal::note(quiet, &format!("{n} {subjects} × {each}: {time}"));
}

fn view(plan: &Plan, args: &RunArgs) -> LiveView {
    // The short name, unless another scenario has it too.
    let twins = |s: &Scenario| plan.scenarios.iter().filter(|t| t.subject == s.subject).count() > 1;
    let name = |s: &Scenario| if twins(s) { s.id.clone() } else { s.subject.name.to_owned() };
    let subjects = plan.scenarios.iter().map(|s| (name(s), s.ticks.saturating_mul(s.instances), s.period_ns()));
    LiveView::new(subjects, plan.rounds(), args.quiet, !args.no_progress)
}

struct Watched<'a> {
    view: LiveView,
    plan: &'a Plan,
}

impl Watched<'_> {
    fn place(&self, scenario: &Scenario) -> usize {
        self.plan.scenarios.iter().position(|s| s.id == scenario.id).expect("a scenario of the plan")
    }
}

impl Observer for Watched<'_> {
    fn before(&mut self, scenario: &Scenario, _: u64) {
        self.view.before(self.place(scenario));
    }

    fn after(&mut self, scenario: &Scenario, result: &Result<MeasuredRound, String>) {
        match result {
            Ok(round) => {
                let instances = round.instances.iter().map(|i| (i.samples.lateness_ns.as_slice(), i.samples.skipped()));
                self.view.after(self.place(scenario), round.index, instances);
            }
            Err(reason) => self.view.say(&format!("{}: not measured: {reason}", scenario.id)),
        }
    }
}
