//! Ticks later than a limit: what `osjitter run` does about them.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread::JoinHandle;
use std::time::Duration;

use clap::Args;
use cli::exit::{self, Error};
use cli::time::format_time;
use cli::units;
use engine::machine::trace_marker::TraceMarker;
use engine::measure::child;
use engine::measure::late_watch::{LateTick, LateWatch};
use engine::measure::round::MeasuredRound;
use engine::program::Program;
use engine::scenario::Scenario;
use engine::subject::RuntimeKind;
use files::report::{Report, Warning};

use crate::render::table::BREAK;
use crate::run::flight::{Flight, Late, Recorder};
use crate::terminal;

#[derive(Debug, Args)]
pub struct LateArgs {
    /// End the run at the first tick later than this, write what was measured and the second before
    /// that tick, exit with 1
    #[arg(long = "break", value_name = "DURATION", allow_hyphen_values = true, value_parser = limit)]
    pub ends: Option<Duration>,
    /// Go on after ticks later than this; for --on-late and --mark without --break
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = limit, conflicts_with = "ends")]
    pub late_threshold: Option<Duration>,
    /// Run a command for a late tick, at most one at once and one a second; with --break once, at
    /// the end
    #[arg(long, value_name = "COMMAND", allow_hyphen_values = true, value_parser = Program::parse)]
    pub on_late: Option<Program>,
    /// Write a marker into the kernel's trace at a late tick (Linux, where tracefs can be written)
    #[arg(long)]
    pub mark: bool,
}

fn limit(text: &str) -> Result<Duration, String> {
    match units::parse_duration(text)? {
        Duration::ZERO => {
            Err(format!("every tick is later than {text}; give more than 0, such as 500us"))
        }
        limit => Ok(limit),
    }
}

/// A command begins so long after the one before it.
const REST: Duration = Duration::from_secs(1);
/// A command that takes longer is ended.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(60);

/// What is done about late ticks in a run.
pub struct LateTicks {
    watch: Arc<LateWatch>,
    record: Recorder,
    command: Option<Commands>,
}

impl LateTicks {
    /// Refuses what cannot be done before anything is measured.
    pub fn of(args: &LateArgs, stop: &Arc<AtomicBool>) -> exit::Result<Option<Self>> {
        let Some(limit) = args.ends.or(args.late_threshold) else {
            let flag = if args.mark { "--mark" } else { "--on-late" };
            return match args.mark || args.on_late.is_some() {
                true => Err(exit::usage!(
                    "{flag} needs to know what is late: give --break 500us, or --late-threshold 500us to go on after it"
                )),
                false => Ok(None),
            };
        };
        let shown = units::format_exact_duration(limit);
        if args.late_threshold.is_some() && !args.mark && args.on_late.is_none() {
            return Err(exit::usage!(
                "--late-threshold {shown} is for --on-late or --mark; --break ends the run at such a tick"
            ));
        }
        let mut watch = LateWatch::new(limit);
        watch.stop = args.ends.map(|_| Arc::clone(stop));
        if args.mark {
            let first = format!("osjitter: marks ticks later than {shown}");
            watch.marker =
                Some(TraceMarker::open(&first).map_err(|why| exit::usage!("--mark: {why}"))?);
        }
        let command = args.on_late.clone().map(Commands::start).transpose()?;
        if let Some(command) = command.as_ref().filter(|_| args.ends.is_none()) {
            watch.sender = Some(command.sender.clone());
        }
        Ok(Some(Self {
            watch: Arc::new(watch),
            record: Recorder::new(limit, args.ends.is_some()),
            command,
        }))
    }

    pub fn watch(&self) -> Arc<LateWatch> {
        Arc::clone(&self.watch)
    }

    /// Takes a round that is over.
    pub fn add(&mut self, scenario: &Scenario, round: &MeasuredRound) {
        let late = self.record.add(scenario, round, self.watch.has_stopped_run());
        // What measures itself, or plays a script, was not watched while it ran.
        let watched = scenario
            .subject
            .as_builtin()
            .is_some_and(|entry| entry.runtime_kind != RuntimeKind::Script);
        if let Some(Late { subject, tick, lateness_ns, .. }) = late.filter(|_| !watched) {
            self.watch.report_late_tick(
                &Arc::from(subject.as_str()),
                tick,
                lateness_ns.unsigned_abs(),
            );
        }
    }

    /// The run is over: what becomes of it, and of the report.
    pub fn finish(self, report: &mut Report) -> Ended {
        let Self { watch, record, command } = self;
        let late_ticks = record.late_ticks();
        let ended = watch.has_stopped_run();
        let flight = record.finish();
        if let Some(Flight { late, .. }) = flight.as_ref().filter(|_| ended) {
            report.warnings.push(Warning {
                code: BREAK.to_owned(),
                message: format!(
                    "ended by --break {}: tick {} of {} in round {} was {} late",
                    units::format_exact_duration(watch.limit),
                    late.tick,
                    late.subject,
                    late.round,
                    format_time(late.lateness_ns)
                ),
                hint: "what happened in the second before it: flight.json".to_owned(),
            });
        }
        Ended { limit: watch.limit, ended, late_ticks, flight, command }
    }
}

/// What a run's late ticks came to.
pub struct Ended {
    limit: Duration,
    /// Whether a late tick ended the run.
    pub ended: bool,
    late_ticks: u64,
    /// The second before the tick that counts, where there was one.
    pub flight: Option<Flight>,
    command: Option<Commands>,
}

impl Ended {
    /// Lets the command do what is left to do, and says what came of it; whether that failed.
    pub fn conclude(self, record: &Path, quiet: bool) -> bool {
        let limit = units::format_exact_duration(self.limit);
        if !self.ended {
            let ticks = if self.late_ticks == 1 { "tick" } else { "ticks" };
            terminal::note(quiet, &format!("{} {ticks} later than {limit}", self.late_ticks));
        }
        let Some(command) = self.command else { return false };
        if let Some(Flight { late, at_utc, .. }) = self.flight.as_ref().filter(|_| self.ended) {
            let (of, lateness_ns) =
                (Arc::from(late.subject.as_str()), late.lateness_ns.unsigned_abs());
            let at = humantime::parse_rfc3339(at_utc).expect("it was written so");
            command.last(LateTick { scenario_id: of, lateness_ns, at }, record);
        }
        let text = command.program.text().to_owned();
        let Done { started, failed } = command.end();
        if started > 0 {
            let times = if started == 1 { "once".to_owned() } else { format!("{started} times") };
            terminal::note(quiet, &format!("--on-late {text} ran {times}"));
        }
        if let Some(why) = &failed {
            terminal::note(false, &format!("--on-late failed: {why}"));
        }
        failed.is_some()
    }
}

/// Runs a command for late ticks, on a thread of its own: made before the measuring one is bound or
/// made urgent.
struct Commands {
    program: Program,
    sender: SyncSender<Option<LateTick>>,
    over: Arc<AtomicBool>,
    thread: JoinHandle<Done>,
    record: Arc<std::sync::OnceLock<String>>,
}

/// What became of the commands.
#[derive(Debug, Default)]
struct Done {
    started: u64,
    /// Why the first of them failed that did.
    failed: Option<String>,
}

impl Commands {
    fn start(program: Program) -> exit::Result<Self> {
        program.check_exists().map_err(|why| exit::usage!("--on-late: {why}"))?;
        let (sender, taken) = mpsc::sync_channel(1);
        let (over, record): (Arc<AtomicBool>, Arc<std::sync::OnceLock<String>>) =
            Default::default();
        let (its_program, its_end, its_record) =
            (program.clone(), Arc::clone(&over), Arc::clone(&record));
        let runs = move || run_all(&its_program, &taken, &its_end, &its_record);
        let thread = std::thread::Builder::new().name("on-late".to_owned()).spawn(runs);
        let thread =
            thread.map_err(|e| Error::measure(format!("--on-late: cannot start a thread: {e}")))?;
        Ok(Self { program, sender, over, thread, record })
    }

    /// Runs it a last time, with the path of the flight record.
    fn last(&self, late: LateTick, record: &Path) {
        let _ = self.record.set(record.display().to_string());
        let _ = self.sender.send(Some(late));
    }

    /// Waits for the command that runs.
    fn end(self) -> Done {
        self.over.store(true, Ordering::Relaxed);
        self.thread.thread().unpark();
        // It takes what was sent before, and then this.
        let _ = self.sender.send(None);
        let lost = || Done { started: 0, failed: Some("its thread is lost".to_owned()) };
        self.thread.join().unwrap_or_else(|_| lost())
    }
}

fn run_all(
    program: &Program,
    taken: &Receiver<Option<LateTick>>,
    over: &AtomicBool,
    record: &std::sync::OnceLock<String>,
) -> Done {
    let mut done = Done::default();
    while let Ok(Some(late)) = taken.recv() {
        let began = tach::Instant::now();
        let mut variables = vec![
            ("OSJITTER_SUBJECT", late.scenario_id.to_string()),
            ("OSJITTER_LATENESS_NS", late.lateness_ns.to_string()),
            ("OSJITTER_LATE_AT", humantime::format_rfc3339_micros(late.at).to_string()),
        ];
        variables.extend(record.get().map(|path| ("OSJITTER_FLIGHT", path.clone())));
        done.started += 1;
        if let Err(why) = child::run_to_completion(program, &variables, COMMAND_TIMEOUT) {
            done.failed.get_or_insert(why);
        }
        while began.elapsed() < REST && !over.load(Ordering::Relaxed) {
            std::thread::park_timeout(REST.saturating_sub(began.elapsed()));
        }
        // What came meanwhile is history.
        if let Ok(None) = taken.try_recv() {
            break;
        }
    }
    done
}
