//! `osjitter run`.

pub mod args;
mod flight;
mod late;
mod live_terminal;
mod live_view;
pub mod new_plan;
pub mod plan_file;
mod stream;

use std::io::Write;
use std::sync::Arc;
use std::time::SystemTime;

use cli::exit::{self, Error, ExitStatus};
use cli::printable::to_printable;
use cli::time::format_duration;
use cli::wrap::wrap_paragraph;
use engine::machine::host;
use engine::measure::late_watch::LateWatch;
use engine::measure::load::Loads;
use engine::measure::order::Observer;
use engine::measure::program::StartupCosts;
use engine::measure::record::{self, Conditions, RoundListener, RoundResult};
use engine::measure::round::MeasuredRound;
use engine::scenario::{Plan, Scenario, ScenarioArgs};
use files::file::File as _;
use files::fitness::Verdict;
use files::report::{Report, Status};

use crate::file_io::Directory;
use crate::render::formats::Format;
use crate::run::args::RunArgs;
use crate::run::late::LateTicks;
use crate::run::live_terminal::LiveView;
use crate::run::plan_file::PlanArgs;
use crate::run::stream::Stream;
use crate::{earlier, file_io, interrupt, render, terminal};

pub fn run(args: &RunArgs) -> exit::Result<ExitStatus> {
    let plan = plan(args)?;
    if args.print_plan {
        let text = plan_file::to_toml(&plan);
        print(&text)?;
        return Ok(ExitStatus::Done);
    }
    plan.check_memory()?;
    let host = host::capture();
    let started_utc = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let stop = Arc::default();
    let late = LateTicks::of(&args.late, &stop)?;
    interrupt::stop_on_interrupt(&stop)?;
    let starts = StartupCosts::measure(&plan, &stop)?;
    // Before this thread is bound or made urgent: a load is the rest of the machine.
    let mut loads = Loads::start(&plan.scenarios)?;
    let changes = record::apply_changes(&plan)?;
    // Last: what is refused above leaves no directory behind.
    let out = Directory::open(args.out.as_deref(), &started_utc)?;
    announce(&plan, args.quiet);

    let mut watched = Watched { view: view(&plan, args), plan: &plan, late };
    let conditions = Conditions { host, changes, started_utc, starts };
    let mut stream = (args.format == Format::Jsonl).then(|| Stream::new(&stop));
    let mut listener = stream
        .as_mut()
        .map(|stream| |id: &str, measured: RoundResult<'_>| stream.add(id, measured));
    let listener = listener.as_mut().map(|listener| listener as &mut RoundListener<'_>);
    let mut report = record::measure(&plan, conditions, &mut loads, &stop, &mut watched, listener);
    report.loads = loads.end();
    watched.view.finish();
    let late = watched.late.map(|late| late.finish(&mut report));

    let json = report.to_json();
    let flight = late.as_ref().and_then(|late| late.flight.as_ref());
    let flight = flight.map(|flight| serde_json::to_string(flight).expect("plain data") + "\n");
    if late.is_some() && flight.is_none() {
        // One that is there is of another run.
        let _ = std::fs::remove_file(out.path(FLIGHT));
    }
    let saved = save(&out, &report, &json, flight.as_deref(), args.svg);
    let complete = report.subjects.iter().all(|s| s.status == Status::Measured);
    let unfit = report.fitness.as_ref().is_some_and(|f| f.verdict == Verdict::Unfit);
    let written = match (stream, args.format) {
        (Some(stream), _) => stream.finish(report),
        (None, Format::Table) => print(&table(&report, args, &out)),
        (None, _) => print(&json),
    };
    if saved.is_ok() {
        terminal::note(args.quiet, &format!("report: {}", out.path(REPORT).display()));
        terminal::note_link(args.quiet, "page: ", &out.path(PAGE));
        if flight.is_some() {
            terminal::note(args.quiet, &format!("flight record: {}", out.path(FLIGHT).display()));
        }
    }
    let broken = late.as_ref().is_some_and(|late| late.ended);
    let failed = late.is_some_and(|late| late.conclude(&out.path(FLIGHT), args.quiet));
    // What was measured is shown even where it cannot be kept.
    saved.and(written)?;
    if broken {
        return Ok(ExitStatus::Regressed);
    }
    Ok(if complete && !failed && !(args.strict && unfit) {
        ExitStatus::Done
    } else {
        ExitStatus::NotMeasured
    })
}

fn print(text: &str) -> exit::Result<()> {
    std::io::stdout().write_all(text.as_bytes()).map_err(Error::from_stdout)
}

/// The table, and what stands below it.
fn table(report: &Report, args: &RunArgs, out: &Directory) -> String {
    let (words, columns) = (!args.quiet, terminal::columns());
    let table =
        render::table::render_reports(std::slice::from_ref(report), &args.table, columns, words);
    let last = words.then(|| earlier::against_the_last(report, &out.path(REPORT))).flatten();
    let last = last.map_or(String::new(), |line| wrap_paragraph(&line, columns));
    let bars = args.histogram.then(|| format!("\n{}", render::bars::text(report, columns)));
    table + &to_printable(&last) + &bars.unwrap_or_default()
}

const REPORT: &str = "report.json";
const PAGE: &str = "report.html";
const FLIGHT: &str = "flight.json";

/// Writes the report and what is drawn of it, the report last: where it is new, so is the rest.
fn save(
    out: &Directory,
    report: &Report,
    json: &str,
    flight: Option<&str>,
    svg: bool,
) -> exit::Result<()> {
    let page = render::html::page(std::slice::from_ref(report));
    let pictures = if svg { render::svg::pictures(report) } else { Vec::new() };
    let pictures = pictures.iter().map(|p| (p.name.as_str(), p.svg.as_str()));
    let flight = flight.map(|flight| (FLIGHT, flight));
    out.place(
        &pictures.chain(flight).chain([(PAGE, page.as_str()), (REPORT, json)]).collect::<Vec<_>>(),
    )
}

fn plan(args: &RunArgs) -> exit::Result<Plan> {
    let given = args.plan_args()?;
    let Some(path) = &args.plan else { return given.plan(&PlanArgs::default()) };
    let name = path.display().to_string();
    let text = file_io::read_text(&file_io::resolved(path)).map_err(|e| e.context("the plan"))?;
    let file = plan_file::parse(&name, &text)?;
    let plan = given.plan(&file)?;
    for flag in given.defaults.overridden_flags(&file.scenarios) {
        terminal::note(
            false,
            &format!("{flag} has no effect: each scenario of {name} states its own"),
        );
    }
    if ![&given.defaults, &file.defaults]
        .into_iter()
        .chain(&file.scenarios)
        .any(ScenarioArgs::has_subject)
    {
        terminal::note(
            args.quiet,
            &format!("{name} names no subject: the default ones are measured"),
        );
    }
    Ok(plan)
}

fn announce(plan: &Plan, quiet: bool) {
    let time = match plan.expected_duration().as_secs_f64() {
        s if s < 1.0 => "less than a second".to_owned(),
        s => format!("about {}", format_duration(s)),
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
    let name = |s: &Scenario| if twins(s) { s.id.clone() } else { s.subject.name() };
    let subjects = plan
        .scenarios
        .iter()
        .map(|s| (name(s), s.ticks.saturating_mul(s.instances), s.period_ns()));
    LiveView::new(subjects, plan.rounds(), args.quiet, !args.no_progress)
}

struct Watched<'a> {
    view: LiveView,
    plan: &'a Plan,
    late: Option<LateTicks>,
}

impl Watched<'_> {
    fn place(&self, scenario: &Scenario) -> usize {
        self.plan
            .scenarios
            .iter()
            .position(|s| s.id == scenario.id)
            .expect("a scenario of the plan")
    }
}

impl Observer for Watched<'_> {
    fn late_watch(&self) -> Option<Arc<LateWatch>> {
        self.late.as_ref().map(LateTicks::watch)
    }

    fn before_round(&mut self, scenario: &Scenario, _: u64) {
        self.view.before(self.place(scenario));
    }

    fn after_round(&mut self, scenario: &Scenario, result: &Result<MeasuredRound, String>) {
        if let (Some(late), Ok(round)) = (&mut self.late, result) {
            late.add(scenario, round);
        }
        match result {
            // It is in no figure.
            Ok(round) if round.diagnosis.is_some() => {
                self.view.after(self.place(scenario), round.index, std::iter::empty())
            }
            Ok(round) => {
                let instances = round
                    .instances
                    .iter()
                    .map(|i| (i.samples.lateness_ns.as_slice(), i.samples.skipped()));
                self.view.after(self.place(scenario), round.index, instances);
            }
            Err(reason) => self.view.say(&format!("{}: not measured: {reason}", scenario.id)),
        }
    }
}
