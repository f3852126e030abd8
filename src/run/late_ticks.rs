//! Handles ticks later than a limit: `--break`, `--late-threshold`, `--on-late` and `--mark`.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use clap::Args;
use cli::exit::{self, Error};
use cli::interrupt;
use cli::terminal;
use cli::time::format_unsigned_time;
use cli::units::{self, UnitError};
use cli::words::pluralize;
use engine::machine::trace_marker::TraceMarker;
use engine::measure::child;
use engine::measure::excluded_rounds::describe_changes;
use engine::measure::late_watch::{LateTick, LateWatch};
use engine::measure::round::MeasuredRound;
use engine::program::Program;
use engine::scenario::Scenario;
use engine::subject::RuntimeKind;
use files::report::{Change, Report, Warning};

use crate::flight_record::Flight;
use crate::run::flight::FlightRecorder;
use render::report::table::BREAK;

#[derive(Debug, Args)]
pub struct LateArgs {
    /// End the run at the first tick later than this, write the results and a record of the second
    /// before it, and exit with 1
    #[arg(long = "break", value_name = "DURATION", allow_hyphen_values = true, value_parser = parse_limit)]
    pub break_at: Option<Duration>,
    /// Lateness from which --on-late and --mark act, if --break does not end the run
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = parse_limit, conflicts_with = "break_at")]
    pub late_threshold: Option<Duration>,
    /// Run a command after a late tick, at most one per second; with --break, once at the end
    #[arg(long, value_name = "COMMAND", allow_hyphen_values = true, value_parser = Program::parse)]
    pub on_late: Option<Program>,
    /// Write a marker into the kernel's trace after a late tick (Linux, requires a writable
    /// tracefs)
    #[arg(long)]
    pub mark: bool,
}

fn parse_limit(text: &str) -> Result<Duration, UnitError> {
    units::parse_duration_within("a limit", text, Duration::from_nanos(1)..=units::MAX_PERIOD)
}

/// The minimum time between the starts of two commands.
const COMMAND_INTERVAL: Duration = Duration::from_secs(1);
/// The time after which a command is killed.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(60);

/// Time for the command of the last late tick after an interrupt that ended the run.
const INTERRUPTED_TIMEOUT: Duration = Duration::from_secs(5);
/// Interval at which interrupts are polled while the run waits for a command.
const INTERRUPT_POLL_INTERVAL: Duration = Duration::from_millis(10);

/// The late-tick handling of a run.
pub struct LateTicks {
    watch: Arc<LateWatch>,
    recorder: FlightRecorder,
    command: Option<LateCommand>,
    /// Changes of settings in the round that ended the run.
    setting_changes: Vec<Change>,
}

impl LateTicks {
    /// Sets up the handling that the arguments request, if any.
    ///
    /// # Errors
    /// Returns an error if the arguments lack a limit or an action, if the trace cannot be marked,
    /// or if the command cannot be run.
    pub fn from_args(args: &LateArgs, stop: &Arc<AtomicBool>) -> exit::Result<Option<Self>> {
        let Some(limit) = late_limit(args)? else { return Ok(None) };
        let mut watch = LateWatch::new(limit);
        watch.stop = args.break_at.map(|_| Arc::clone(stop));
        if args.mark {
            let first_line =
                format!("osjitter: marks ticks later than {}", units::format_exact_duration(limit));
            let marker = TraceMarker::open(&first_line);
            watch.marker = Some(marker.map_err(|why| exit::usage!("--mark: {why}"))?);
        }
        let command = args.on_late.clone().map(LateCommand::start).transpose()?;
        if let Some(command) = command.as_ref().filter(|_| args.break_at.is_none()) {
            watch.sender = Some(command.sender.clone());
        }
        Ok(Some(Self {
            watch: Arc::new(watch),
            recorder: FlightRecorder::new(limit, args.break_at.is_some()),
            command,
            setting_changes: Vec::new(),
        }))
    }

    pub fn watch(&self) -> Arc<LateWatch> {
        Arc::clone(&self.watch)
    }

    /// Adds a finished round, unless it is excluded and did not end the run.
    pub fn add(&mut self, scenario: &Scenario, round: &MeasuredRound) {
        let has_stopped_run = self.watch.was_stopped_by(&scenario.id);
        if !round.setting_changes.is_empty() {
            if !has_stopped_run {
                return;
            }
            self.setting_changes.clone_from(&round.setting_changes);
        }
        let late = self.recorder.add(scenario, round, has_stopped_run);
        // Programs and scripted subjects cannot be watched while they run.
        let is_watched = scenario
            .subject
            .as_builtin()
            .is_some_and(|subject| subject.runtime_kind != RuntimeKind::Script);
        if let Some(late) = late.filter(|_| !is_watched) {
            let lateness_ns = late.lateness_ns.unsigned_abs();
            self.watch.report_late_tick(&Arc::from(late.subject.as_str()), late.tick, lateness_ns);
        }
    }

    /// Summarizes the late ticks after the run. Adds a warning to the report if one ended the run.
    pub fn finish(self, report: &mut Report) -> LateOutcome {
        let Self { watch, recorder, command, setting_changes } = self;
        let late_ticks = recorder.late_ticks();
        let flight = recorder.finish();
        let stopping_tick = watch
            .stopping_tick()
            .map(|tick| StoppingTick::new(tick, flight.as_ref(), setting_changes));
        report.warnings.extend(stopping_tick.as_ref().map(|tick| tick.warning(watch.limit)));
        let was_interrupted = interrupt::has_come();
        let limit = watch.limit;
        LateOutcome { limit, stopping_tick, late_ticks, flight, command, was_interrupted }
    }
}

/// The late tick that ended a run.
struct StoppingTick {
    tick: LateTick,
    /// Index of its round; `None` if there is no flight record, because the round failed.
    round: Option<u64>,
    /// Changes of settings for which the round is excluded.
    setting_changes: Vec<Change>,
}

impl StoppingTick {
    /// Returns the tick of the flight record or, without one, that of the watch. `setting_changes`
    /// are those in the round of the latter.
    fn new(watched: &LateTick, flight: Option<&Flight>, setting_changes: Vec<Change>) -> Self {
        let Some(Flight { late, at_utc, .. }) = flight else {
            return Self { tick: watched.clone(), round: None, setting_changes };
        };
        // On several CPUs at once, the record may be that of another subject.
        let is_watched = *watched.scenario_id == *late.subject;
        let setting_changes = if is_watched { setting_changes } else { Vec::new() };
        let tick = LateTick {
            scenario_id: Arc::from(late.subject.as_str()),
            tick: late.tick,
            lateness_ns: late.lateness_ns.unsigned_abs(),
            at: humantime::parse_rfc3339(at_utc).expect("a time of the recorder"),
        };
        Self { tick, round: Some(late.round), setting_changes }
    }

    fn warning(&self, limit: Duration) -> Warning {
        let LateTick { scenario_id, tick, lateness_ns, .. } = &self.tick;
        let limit = units::format_exact_duration(limit);
        let round = self.round.map_or_else(String::new, |round| format!(" in round {round}"));
        let lateness = format_unsigned_time(*lateness_ns);
        let exclusion = match self.setting_changes.is_empty() {
            true => String::new(),
            false => {
                format!("; the round is excluded: {}", describe_changes(&self.setting_changes))
            }
        };
        let hint = match self.round {
            Some(_) => "flight.json contains the second before it",
            None => "its round failed, so there is no flight record",
        };
        Warning::new(
            BREAK,
            format!(
                "ended by --break {limit}: tick {tick} of {scenario_id}{round} was {lateness} late{exclusion}"
            ),
            hint,
        )
    }
}

/// Returns the limit of the arguments, if they request any handling.
fn late_limit(args: &LateArgs) -> exit::Result<Option<Duration>> {
    let has_action = args.mark || args.on_late.is_some();
    match (args.break_at, args.late_threshold) {
        (Some(limit), _) => Ok(Some(limit)),
        (None, Some(limit)) if has_action => Ok(Some(limit)),
        (None, Some(limit)) => Err(exit::usage!(
            "--late-threshold {} needs --on-late or --mark; use --break to end the run at such a tick",
            units::format_exact_duration(limit)
        )),
        (None, None) if has_action => {
            let flag = if args.mark { "--mark" } else { "--on-late" };
            Err(exit::usage!(
                "{flag} needs a limit: give --break 500us, or --late-threshold 500us to continue after a late tick"
            ))
        }
        (None, None) => Ok(None),
    }
}

/// A summary of a run's late ticks.
pub struct LateOutcome {
    limit: Duration,
    /// The late tick that ended the run, if one did.
    stopping_tick: Option<StoppingTick>,
    late_ticks: u64,
    /// The second before the late tick, if there was one.
    pub flight: Option<Flight>,
    command: Option<LateCommand>,
    /// Whether an interrupt came during the measurement.
    was_interrupted: bool,
}

impl LateOutcome {
    /// Returns whether a late tick ended the run.
    pub fn has_stopped_run(&self) -> bool {
        self.stopping_tick.is_some()
    }

    /// Prints the summary, runs the command a last time with `--break`, and waits for it.
    ///
    /// Returns whether a command failed.
    pub fn conclude(self, flight_path: &Path, quiet: bool) -> bool {
        if !self.has_stopped_run() {
            let limit = units::format_exact_duration(self.limit);
            let ticks = pluralize(self.late_ticks, "tick");
            terminal::note(quiet, &format!("{ticks} later than {limit}"));
        }
        let Some(command) = self.command else { return false };
        if let Some(StoppingTick { tick, .. }) = self.stopping_tick {
            command.run_last(tick, self.flight.is_some().then_some(flight_path));
        }
        let text = command.program.text().to_owned();
        let CommandSummary { started, failure } = command.finish(self.was_interrupted);
        if started > 0 {
            let times = if started == 1 { "once".to_owned() } else { format!("{started} times") };
            terminal::note(quiet, &format!("--on-late {text} ran {times}"));
        }
        if let Some(why) = &failure {
            terminal::note(false, &format!("--on-late failed: {why}"));
        }
        failure.is_some()
    }
}

/// Runs a command for late ticks on a separate thread.
///
/// The thread starts before the measuring thread is bound to a CPU or changes its scheduling class.
struct LateCommand {
    program: Program,
    /// `None` ends the thread.
    sender: SyncSender<Option<LateTick>>,
    /// Set at the end of the run, when commands no longer wait for their interval.
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<CommandSummary>,
    /// The path of the flight record, once it is written.
    flight_path: Arc<OnceLock<String>>,
}

/// A summary of the commands of a run.
#[derive(Debug, Default)]
struct CommandSummary {
    started: u64,
    /// The reason of the first failure.
    failure: Option<String>,
}

impl LateCommand {
    fn start(program: Program) -> exit::Result<Self> {
        program.check_exists().map_err(|why| exit::usage!("--on-late: {why}"))?;
        let (sender, receiver) = mpsc::sync_channel(1);
        let is_over: Arc<AtomicBool> = Arc::default();
        let flight_path: Arc<OnceLock<String>> = Arc::default();
        let runner = CommandRunner {
            program: program.clone(),
            receiver,
            is_over: Arc::clone(&is_over),
            flight_path: Arc::clone(&flight_path),
            summary: CommandSummary::default(),
        };
        let builder = std::thread::Builder::new().name("on-late".to_owned());
        let thread = builder.spawn(move || runner.run());
        let thread =
            thread.map_err(|e| Error::measure(format!("--on-late: cannot start a thread: {e}")))?;
        Ok(Self { program, sender, is_over, thread, flight_path })
    }

    /// Runs the command a last time, with the path of the flight record, if there is one.
    fn run_last(&self, late: LateTick, flight_path: Option<&Path>) {
        if let Some(path) = flight_path {
            let _ = self.flight_path.set(path.display().to_string());
        }
        let _ = self.sender.send(Some(late));
    }

    /// Waits for the running command, which an interrupt ends. One that has ended the measurement
    /// leaves it some time: the next one would be the second, which ends the process.
    ///
    /// This is the end of the run: no other program is running.
    fn finish(self, was_interrupted: bool) -> CommandSummary {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.thread().unpark();
        let failed = |why: &str| CommandSummary { started: 0, failure: Some(why.to_owned()) };
        // The thread receives late ticks that were sent before, and then the end.
        let mut is_end_sent = false;
        let start = tach::Instant::now();
        while !self.thread.is_finished() {
            is_end_sent = is_end_sent || self.sender.try_send(None).is_ok();
            // The interrupt that ended the run leaves the command some time for its last tick.
            let limit = if was_interrupted { INTERRUPTED_TIMEOUT } else { Duration::ZERO };
            if interrupt::has_come() && start.elapsed() >= limit {
                child::kill_all();
                return failed("ended by the interrupt");
            }
            std::thread::park_timeout(INTERRUPT_POLL_INTERVAL);
        }
        self.thread.join().unwrap_or_else(|_| failed("the thread of the command panicked"))
    }
}

/// The thread of a [`LateCommand`].
struct CommandRunner {
    program: Program,
    receiver: Receiver<Option<LateTick>>,
    is_over: Arc<AtomicBool>,
    flight_path: Arc<OnceLock<String>>,
    summary: CommandSummary,
}

impl CommandRunner {
    fn run(mut self) -> CommandSummary {
        while let Ok(Some(late)) = self.receiver.recv() {
            let start = tach::Instant::now();
            self.run_command(&late);
            while start.elapsed() < COMMAND_INTERVAL && !self.is_over.load(Ordering::Relaxed) {
                std::thread::park_timeout(COMMAND_INTERVAL.saturating_sub(start.elapsed()));
            }
            // Discards a tick that came in the meantime.
            if let Ok(None) = self.receiver.try_recv() {
                break;
            }
        }
        self.summary
    }

    fn run_command(&mut self, late: &LateTick) {
        let mut variables = vec![
            ("OSJITTER_SUBJECT", late.scenario_id.to_string()),
            ("OSJITTER_LATENESS_NS", late.lateness_ns.to_string()),
            ("OSJITTER_LATE_AT", humantime::format_rfc3339_micros(late.at).to_string()),
        ];
        variables.extend(self.flight_path.get().map(|path| ("OSJITTER_FLIGHT", path.clone())));
        self.summary.started += 1;
        let result = child::run_to_completion(&self.program, &variables, COMMAND_TIMEOUT);
        if let Err(why) = result {
            self.summary.failure.get_or_insert(why.to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use files::file::File as _;

    use super::*;

    #[test]
    fn break_without_record_is_stated() {
        let limit = Some(Duration::from_micros(500));
        let args = LateArgs { break_at: limit, late_threshold: None, on_late: None, mark: false };
        let late = LateTicks::from_args(&args, &Arc::default()).unwrap().expect("a limit");
        late.watch().report_late_tick(&Arc::from("spin@1ms"), 7, 600_000);
        let text = include_str!("../../fuzz/corpus/report/no-samples.json");
        let mut report = Report::from_json(text).unwrap();
        assert!(late.finish(&mut report).has_stopped_run());
        let warning = report.warnings.last().expect("a warning");
        let expected = "ended by --break 500us: tick 7 of spin@1ms was 600 us late";
        assert_eq!((warning.code.as_str(), warning.message.as_str()), (BREAK, expected));
    }
}
