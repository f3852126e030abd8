//! `osjitter run`: measures a plan and reports the result.

pub mod args;
mod flight;
mod late_ticks;
mod live_terminal;
mod live_view;
pub mod new_plan;
pub mod plan_args;
pub mod plan_file;
mod round_stream;
mod settling;

use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use cli::exit::{self, Error, ExitStatus, usage};
use cli::file_io;
use cli::file_io::{Destination, OutputDirectory, RESULT_FILES};
use cli::printable::to_printable;
use cli::terminal;
use cli::time::format_duration;
use cli::words::pluralize;
use cli::wrap::wrap;
use engine::machine::{host, tuning};
use engine::measure::late_watch::LateWatch;
use engine::measure::load::Loads;
use engine::measure::order::Observer;
use engine::measure::plan_changes::apply_changes;
use engine::measure::program::{CheckedPrograms, DEFAULT_START_TIMEOUT, StartupCosts};
use engine::measure::record::{self, Conditions, RecordedRound};
use engine::measure::round::{MeasuredRound, RoundResult};
use engine::measure::round_settings::RoundSettings;
use engine::scenario::{Plan, Scenario};
use files::file::File as _;
use files::fitness::Verdict;
use files::report::{Report, Status};

use crate::flight_record::Flight;
use crate::interrupt;
use crate::run::args::RunArgs;
use crate::run::late_ticks::{LateOutcome, LateTicks};
use crate::run::live_terminal::LiveView;
use crate::run::plan_args::{PlanArgs, ScenarioKeys};
use crate::run::round_stream::RoundStream;
use crate::run::settling::{MIN_ROUNDS, Settling};
use crate::settings::is_from_file;
use crate::viewer::Viewer;
use crate::{needless_runtime, previous_runs, table_colors};
use render::document::terminal::prose_width;
use render::formats::Format;
use render::report::{bars, html, svg, table};

const REPORT: &str = "report.json";
const PAGE: &str = "report.html";
const FLIGHT: &str = "flight.json";

/// Measures a plan and reports the result.
pub fn run(args: &RunArgs) -> exit::Result<ExitStatus> {
    if args.format != Format::Table {
        args.table.note_flags(args.histogram, args.quiet, is_from_file);
    }
    let (plan, length) = read_plan(args)?;
    check_runtime_flags(&args.scenario, &plan)?;
    if args.print_plan {
        file_io::write_output(plan_file::to_toml(&plan), None)?;
        return Ok(ExitStatus::Done);
    }

    // Check and set up everything that can fail, before anything is measured or written.
    let destination = Destination::from_flags(args.out.as_deref(), args.force);
    OutputDirectory::check_inputs(destination, RESULT_FILES, args.plan.as_deref())?;
    OutputDirectory::check(destination, RESULT_FILES)?;
    plan.check_memory("fewer --ticks or fewer subjects, or --no-samples")?;
    tuning::check_cpus(&plan.concurrent_cpus()?)?;
    let host = host::capture();
    let started_utc = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let stop = Arc::default();
    let late = LateTicks::from_args(&args.late, &stop)?;
    interrupt::stop_on_interrupt(&stop)?;
    let start_timeout = args.scenario.max_start_time.unwrap_or(DEFAULT_START_TIMEOUT);
    let programs = CheckedPrograms::check(&plan, start_timeout, &stop)?;
    // The viewer and the loads start first, so that they do not inherit the CPU and the scheduling
    // class of the measuring thread.
    let viewer = args.open.then(Viewer::new).transpose()?;
    let mut loads = Loads::start(&plan.scenarios)?;
    let changes = apply_changes(&plan)?;
    let settings = RoundSettings::read_with(&plan.tuning);
    let starts = programs.measure_starts(&stop)?;
    // The directory comes last, so that a failed setup does not leave one.
    let out = OutputDirectory::open(destination, &started_utc, RESULT_FILES)?;
    // Several CPUs at once are compared with each other, and late ticks wanted, not an order.
    let asks_for_order = late.is_none()
        && plan.why.is_none()
        && plan.scenarios.iter().all(|scenario| scenario.cpu.is_none());
    let may_end_early = length == RunLength::Default && asks_for_order;
    let settling = may_end_early.then(|| Settling::new(&plan.scenarios));
    announce_plan(&plan, &starts, may_end_early, args.quiet);

    // Measure the rounds. Each is shown, checked for late ticks, and printed if it is streamed.
    let conditions = Conditions { host, changes, started_utc, starts };
    let view = live_view(&plan, args);
    let mut observer = RunObserver { view, plan: &plan, settings, late, settling };
    let mut stream = (args.format == Format::Jsonl).then(|| RoundStream::new(&stop));
    let mut listener =
        stream.as_mut().map(|stream| |id: &str, result: RecordedRound<'_>| stream.add(id, result));
    let listener = listener.as_mut().map(|listener| listener as &mut record::RoundListener<'_>);
    let mut report = record::measure(&plan, conditions, &mut loads, &stop, &mut observer, listener);
    report.loads = loads.end();
    let settled = observer.settling.as_ref().and_then(Settling::early_end);
    // An interrupt may have cut its last round.
    if let Some(settled) = settled.filter(|_| !report.partial) {
        report.end_settled(settled);
    }
    observer.view.finish();
    let late = observer.late.map(|late| late.finish(&mut report));
    let was_stopped = late.as_ref().is_some_and(LateOutcome::has_stopped_run);

    // Write the report and its renderings. The report is written last: if it is new, so are the
    // other files.
    let json = report.to_json();
    let flight = late.as_ref().and_then(|late| late.flight.as_ref()).map(Flight::to_json);
    let page = html::page(std::slice::from_ref(&report));
    let pictures = if args.svg { svg::pictures(&report) } else { svg::main_pictures(&report) };
    let mut files: Vec<(&str, &str)> =
        pictures.iter().map(|p| (p.name.as_str(), p.svg.as_str())).collect();
    files.extend(flight.as_deref().map(|flight| (FLIGHT, flight)));
    files.extend([(PAGE, page.as_str()), (REPORT, json.as_str())]);
    // A late tick and the reader of a stream end a run as the user wants it. An interrupt also ends
    // the reader, if a terminal sends it to both.
    let is_ended_by_reader =
        stream.as_ref().is_some_and(RoundStream::is_closed) && !cli::interrupt::has_come();
    let is_cut_short = report.partial && !was_stopped && !is_ended_by_reader;
    let is_empty = report.subjects.iter().all(|subject| subject.summary.is_none());
    out.set_partial(is_cut_short || is_empty);
    let saved = out.write_all(&files);

    // Print the results, even if they could not be saved. A stream loses the rounds of the report,
    // which are printed already.
    let printed = match (stream, args.format) {
        (Some(stream), _) => stream.finish(&mut report),
        (None, Format::Table) => {
            let text = format_table(&report, args, &out.path(REPORT));
            file_io::write_output(table_colors::paint_for_stdout(text), None)
        }
        (None, _) => file_io::write_output(&json, None),
    };

    // Name the files.
    if saved.is_ok() {
        terminal::note(args.quiet, &format!("report: {}", out.path(REPORT).display()));
        terminal::note_link(args.quiet, "page: ", &out.path(PAGE));
        if let Some(note) = svg::undrawn_note(&report) {
            terminal::note(args.quiet, &note);
        }
        if let Some(viewer) = viewer {
            viewer.open(&out.path(PAGE));
        }
        if flight.is_some() {
            let path = out.path(FLIGHT);
            terminal::note(args.quiet, &format!("flight record: {}", path.display()));
        }
    }

    // Run the late command, if it still has to run, and choose the exit status.
    let has_failed_command = late.is_some_and(|late| late.conclude(&out.path(FLIGHT), args.quiet));
    let fitness = report.fitness.as_ref();
    let is_unfit = fitness.is_some_and(|f| f.verdict == Verdict::Unfit);
    let is_refused = args.strict && is_unfit && !was_stopped;
    if is_refused {
        terminal::failure(&Error::measure(format!(
            "cannot trust this run, as --strict requires: {}",
            render::report::fitness::sentence(fitness).unwrap_or_default()
        )));
    }
    saved?;
    printed?;
    let is_complete = report.subjects.iter().all(|subject| match subject.status {
        Status::Measured => true,
        Status::Partial => is_ended_by_reader,
        Status::Failed { .. } => false,
    });
    Ok(if was_stopped {
        ExitStatus::Regressed
    } else if !is_complete || has_failed_command || is_refused {
        ExitStatus::NotMeasured
    } else {
        ExitStatus::Done
    })
}

/// Whether a number of ticks or a duration was given.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RunLength {
    Given,
    /// The run ends at the default number of ticks, or when its answer is settled.
    Default,
}

/// Reads the plan of the arguments, and of the file that they name.
fn read_plan(args: &RunArgs) -> exit::Result<(Plan, RunLength)> {
    let given = args.plan_args()?;
    let length = |file: &PlanArgs| match [&given, file].iter().any(|args| args.has_length()) {
        true => RunLength::Given,
        false => RunLength::Default,
    };
    let Some(path) = &args.plan else {
        let file = PlanArgs::default();
        return Ok((given.to_plan(&file)?, length(&file)));
    };
    let name = path.display().to_string();
    let text = file_io::read_text(&file_io::resolve(path)).map_err(|e| e.context("the plan"))?;
    let file = plan_file::parse(&name, &text)?;
    let plan = given.to_plan(&file)?;
    let scenarios = if file.is_from_report { &[][..] } else { &file.scenarios };
    for flag in given.defaults.overridden_flags(scenarios) {
        let note = format!("{flag} has no effect: each scenario of {name} sets its own value");
        terminal::note(false, &note);
    }
    let mut sources = [&given.defaults, &file.defaults].into_iter().chain(&file.scenarios);
    if !sources.any(ScenarioKeys::has_subject) {
        let note = format!("{name} names no subject: measuring the default ones");
        terminal::note(args.quiet, &note);
    }
    Ok((plan, length(&file)))
}

/// Returns an error if a flag is for subjects with a runtime, and the plan has none. Those of a project
/// are defaults, for which not every run has a use. The usual values change nothing.
fn check_runtime_flags(keys: &ScenarioKeys, plan: &Plan) -> exit::Result<()> {
    let has_runtime = plan.scenarios.iter().any(|scenario| scenario.runtime.is_some());
    needless_runtime::check(&keys.runtime, has_runtime)?;
    let has_several_instances = keys.instances.is_some_and(|instances| instances > 1);
    match has_several_instances && !has_runtime && !is_from_file("--instances") {
        true => Err(usage!("--instances is for tokio subjects, and there is none")),
        false => Ok(()),
    }
}

fn announce_plan(plan: &Plan, starts: &StartupCosts, may_end_early: bool, quiet: bool) {
    let duration = plan.expected_duration().saturating_add(starts.total_duration(plan));
    let seconds = duration.as_secs_f64();
    let rounds = plan.scenarios.iter().map(Scenario::rounds).max().unwrap_or(0);
    let time = match seconds {
        s if s < 1.0 => "less than a second".to_owned(),
        s if may_end_early && rounds > MIN_ROUNDS => {
            let least = format_duration(s * MIN_ROUNDS as f64 / rounds as f64);
            format!("{least} to {}, until the answer is settled", format_duration(s))
        }
        s => format!("about {}", format_duration(s)),
    };
    let ticks = plan.scenarios[0].ticks;
    let is_uniform = plan.scenarios.iter().all(|s| s.ticks == ticks);
    let each = if is_uniform { pluralize(ticks, "tick") } else { "their ticks".to_owned() };
    let count = plan.scenarios.len();
    let subjects = pluralize(count as u64, "subject");
    terminal::note(quiet, &format!("{subjects} × {each}: {time}"));
}

fn live_view(plan: &Plan, args: &RunArgs) -> LiveView {
    let is_ambiguous =
        |s: &Scenario| plan.scenarios.iter().filter(|t| t.subject == s.subject).count() > 1;
    let name = |s: &Scenario| if is_ambiguous(s) { s.id.clone() } else { s.subject.name() };
    let subjects = plan
        .scenarios
        .iter()
        .map(|s| (name(s), s.ticks.saturating_mul(s.instances), s.period_ns()));
    LiveView::new(subjects, plan.rounds(), args.quiet, !args.no_progress)
}

/// Passes the rounds of a run to the live view and to the late-tick handling.
struct RunObserver<'a> {
    view: LiveView,
    plan: &'a Plan,
    settings: RoundSettings,
    late: Option<LateTicks>,
    settling: Option<Settling>,
}

impl RunObserver<'_> {
    fn scenario_index(&self, scenario: &Scenario) -> usize {
        self.plan
            .scenarios
            .iter()
            .position(|s| s.id == scenario.id)
            .expect("a scenario of the plan")
    }
}

impl Observer for RunObserver<'_> {
    fn settings(&self) -> Option<&RoundSettings> {
        Some(&self.settings)
    }

    fn late_watch(&self) -> Option<Arc<LateWatch>> {
        self.late.as_ref().map(LateTicks::watch)
    }

    fn before_round(&mut self, scenario: &Scenario, _: u64) {
        let answer = self.settling.as_ref().and_then(Settling::answer);
        self.view.start_round(self.scenario_index(scenario), answer);
    }

    fn should_stop(&self) -> bool {
        self.settling.as_ref().is_some_and(Settling::is_settled)
    }

    fn after_round(&mut self, scenario: &Scenario, result: &RoundResult) {
        if let (Some(late), Ok(round)) = (&mut self.late, result) {
            late.add(scenario, round);
        }
        let has_valid_settings = |round: &MeasuredRound| round.setting_changes.is_empty();
        let index = self.scenario_index(scenario);
        if let Some(settling) = &mut self.settling {
            settling.add(index, result);
        }
        match result {
            // The numbers exclude profiled rounds, and those with changed settings.
            Ok(round) if round.diagnosis.is_some() || !has_valid_settings(round) => {
                self.view.finish_round(index, round.index, std::iter::empty());
            }
            Ok(round) => {
                let instances = round
                    .instances
                    .iter()
                    .map(|i| (i.samples.lateness_ns.as_slice(), i.samples.skipped()));
                self.view.finish_round(index, round.index, instances);
            }
            // The report states whether the subject has numbers of earlier rounds.
            Err(reason) => self.view.error(&format!("{}: failed: {reason}", scenario.id)),
        }
    }
}

/// Formats the table, the comparison with the previous run and the histograms.
fn format_table(report: &Report, args: &RunArgs, path: &Path) -> String {
    let (has_prose, columns) = (!args.quiet, terminal::columns());
    let mut text =
        table::render_reports(std::slice::from_ref(report), &args.table, columns, has_prose);
    // Quiet output has no prose, but contains everything that was requested.
    if !has_prose && args.why {
        text += &table::render_diagnoses(report, columns);
    }
    if has_prose && let Some(sentence) = previous_runs::compare_with_previous(report, path) {
        text += &to_printable(&wrap(&sentence, prose_width(&text, columns)));
    }
    if args.histogram {
        text += &format!("\n{}", bars::text(report, columns));
    }
    text
}
