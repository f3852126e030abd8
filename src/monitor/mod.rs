//! `osjitter monitor`: runs probes and watches meters for days, in intervals.

mod accumulator;
pub mod args;
pub mod breaches;
mod budget;
mod exposition;
mod flight_watch;
mod http;
mod limits;
mod log;
mod session;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use crate::interrupt::stop_on_interrupt;
use cli::exit::{self, Error, ExitStatus, usage};
use cli::terminal::note;
use cli::time::{format_duration, format_share};
use cli::units;
use cli::words::pluralize;
use engine::machine::host;
use engine::scenario::{Scenario, ScenarioArgs, Subjects, draw_seed};
use engine::subject::{self, WaitKind};
use files::bins::{Labels, cell};
use files::subjects::{DefaultSelection, defaults_of};

use crate::meters::MeterReader;
use crate::monitor::accumulator::{LoopId, MAX_LOOPS};
use crate::monitor::args::MonitorArgs;
use crate::monitor::flight_watch::FlightWatch;
use crate::monitor::http::Server;
use crate::monitor::limits::{Limit, MAX_LIMITS};
use crate::monitor::log::Log;
use crate::monitor::session::{Session, Setup};

const DEFAULT_PERIOD: Duration = Duration::from_millis(10);
const MAX_PROBES: usize = MAX_LOOPS / 2;
/// Maximum time between two polls. A program that ends removes its meters, so at most the ticks of
/// this time are lost.
const POLL_INTERVAL: Duration = Duration::from_secs(10);
/// Maximum time until an interrupt takes effect.
const INTERRUPT_POLL_INTERVAL: Duration = Duration::from_millis(100);
const MAX_LABEL_BYTES: usize = 3_500;

/// Runs the monitor until it is interrupted or its duration has passed.
pub fn run(args: &MonitorArgs) -> exit::Result<ExitStatus> {
    if args.log.is_none() && args.listen.is_none() && args.limit.is_empty() {
        return Err(usage!(
            "no output selected; use --log DIR, --listen ADDR or --limit, for example --limit p99=2ms"
        ));
    }
    let scenarios = select_scenarios(args)?;
    let setup = resolve_setup(args, &scenarios)?;
    let meters = open_meters(args)?;
    let max_intervals = args.keep.map(|n| usize::try_from(n).unwrap_or(usize::MAX));
    let mut log = args
        .log
        .as_deref()
        .map(|directory| Log::open(directory, &setup.host, max_intervals))
        .transpose()?;
    let server = args.listen.map(Server::bind).transpose()?;
    let stop = Arc::default();
    stop_on_interrupt(&stop)?;
    let flight =
        args.flight.and_then(|length| open_flight_watch(length, args, !scenarios.is_empty()));
    let session = Session::start(setup, &scenarios, meters, flight, draw_seed())?;
    announce(args, &session, server.as_ref());
    let session = Arc::new(Mutex::new(session));
    if let Some(server) = server {
        serve_scrapes(server, &session)?;
    }
    run_intervals(args, &session, log.as_mut(), &stop);
    let mut session = lock(&session);
    // The server's threads keep the session alive until the process ends.
    session.stop_probes();
    Ok(report_end(args, &session))
}

/// Starts to record switches. Reports their scope or, if there are none, the reason.
fn open_flight_watch(
    length: Duration,
    args: &MonitorArgs,
    has_probes: bool,
) -> Option<FlightWatch> {
    match FlightWatch::open(length, has_probes) {
        Ok((watch, scope)) => {
            note(args.quiet, &scope);
            Some(watch)
        }
        Err(why) => {
            note(false, &format!("flight records: none, the monitor continues without: {why}"));
            None
        }
    }
}

fn open_meters(args: &MonitorArgs) -> exit::Result<Option<MeterReader>> {
    if args.no_meters {
        return Ok(None);
    }
    let meters = MeterReader::new(args.all, session::MAX_FILES);
    let meters = meters.map_err(|e| Error::usage(format!("{e}; --no-meters ignores meters")))?;
    Ok(Some(meters))
}

fn serve_scrapes(server: Server, session: &Arc<Mutex<Session>>) -> exit::Result<()> {
    let session = Arc::clone(session);
    let serving = server.serve(move |format| lock(&session).scrape(format));
    serving.map_err(|e| Error::measure(format!("cannot serve metrics: {e}")))
}

fn report_end(args: &MonitorArgs, session: &Session) -> ExitStatus {
    let (closed, lost) = (session.intervals_closed(), session.intervals_lost);
    if lost > 0 {
        let closed = pluralize(closed, "interval");
        note(false, &format!("{lost} of {closed} could not be written"));
        return ExitStatus::NotMeasured;
    }
    note(args.quiet, &format!("ended after {}", pluralize(closed, "interval")));
    ExitStatus::Done
}

/// Locks the session. A scrape that panicked has not modified it, so poisoning is ignored.
fn lock(session: &Mutex<Session>) -> MutexGuard<'_, Session> {
    session.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Polls the meters and closes intervals until the monitor should stop, then closes the last one.
fn run_intervals(
    args: &MonitorArgs,
    session: &Mutex<Session>,
    mut log: Option<&mut Log>,
    stop: &AtomicBool,
) {
    let monitor_start = tach::Instant::now();
    let mut interval_start = monitor_start;
    let mut length = until_boundary(args.interval);
    // Late ticks have to be noticed while the rings still contain the time before them.
    let poll_interval = args.flight.map_or(POLL_INTERVAL, |length| POLL_INTERVAL.min(length / 3));
    loop {
        // The lateness of this wait does not matter: only probes are measured.
        let remaining = length.saturating_sub(interval_start.elapsed());
        std::thread::park_timeout(INTERRUPT_POLL_INTERVAL.min(remaining));
        let is_over = stop.load(Ordering::Relaxed)
            || args.duration.is_some_and(|duration| monitor_start.elapsed() >= duration);
        if is_over || interval_start.elapsed() >= length {
            (interval_start, length) = (tach::Instant::now(), until_boundary(args.interval));
            close_interval(session, log.as_deref_mut());
        } else if lock(session).last_poll().elapsed() >= poll_interval {
            lock(session).poll();
        }
        if is_over {
            return;
        }
    }
}

/// Closes the interval and writes it to the log. Reports it as lost if it cannot be written. Old
/// intervals are removed in either case: they may be why the disk is full.
fn close_interval(session: &Mutex<Session>, log: Option<&mut Log>) {
    let closed = lock(session).close_interval();
    let Some(log) = log else { return };
    match log.write(&closed.start, &closed.rows, closed.breaches.as_deref()) {
        Ok(path) => write_flights(session, log, &path, &closed.flights),
        Err(error) => {
            let mut session = lock(session);
            session.intervals_lost += 1;
            session.flights_lost += closed.flights.len() as u64;
            note(false, &format!("the interval of {} is lost: {error}", closed.start));
        }
    }
    for warning in log.remove_old_intervals(SystemTime::now()) {
        note(false, &warning);
    }
}

/// Writes the flight records of an interval. If the disk is full, the interval is kept without them.
fn write_flights(session: &Mutex<Session>, log: &Log, interval: &Path, flights: &[String]) {
    if flights.is_empty() {
        return;
    }
    match log.write_flights(interval, flights) {
        Ok(paths) => {
            lock(session).flights_written += paths.len() as u64;
            for path in paths {
                note(false, &format!("flight record: {}", path.display()));
            }
        }
        Err(error) => {
            lock(session).flights_lost += flights.len() as u64;
            note(false, &format!("flight records could not be written: {error}"));
        }
    }
}

/// Returns the time until the next whole multiple of the interval, UTC, or until the one after it
/// if less than a tenth of an interval remains.
fn until_boundary(interval: Duration) -> Duration {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let elapsed = Duration::from_nanos((now.as_nanos() % interval.as_nanos()) as u64);
    let remaining = interval - elapsed;
    if remaining < interval / 10 { remaining + interval } else { remaining }
}

fn select_scenarios(args: &MonitorArgs) -> exit::Result<Vec<Scenario>> {
    if args.no_probes {
        return Ok(Vec::new());
    }
    let mut subjects = Subjects::union(args.subject.iter().cloned());
    if subjects.is_empty() {
        subjects = defaults_of(DefaultSelection::Monitor).collect();
    }
    let periods = if args.period.is_empty() { vec![DEFAULT_PERIOD] } else { args.period.clone() };
    let scenarios = ScenarioArgs {
        subjects,
        periods,
        runtimes: args.runtime.clone(),
        ..ScenarioArgs::default()
    };
    let scenarios = scenarios.scenarios()?;
    check_probes(args, &scenarios)?;
    Ok(scenarios)
}

fn check_probes(args: &MonitorArgs, scenarios: &[Scenario]) -> exit::Result<()> {
    if scenarios.len() > MAX_PROBES {
        return Err(usage!("{} probes selected; the maximum is {MAX_PROBES}", scenarios.len()));
    }
    let mut spinning = 0;
    for subject in scenarios.iter().filter_map(|scenario| scenario.subject.as_builtin()) {
        let name = subject.name;
        if subject.delays_grid {
            return Err(usage!(
                "{name} moves its grid with each miss, so its lateness would only grow over days; leave it out"
            ));
        }
        subject::check_available(subject)
            .map_err(|reason| usage!("{name} is not available here: {reason}"))?;
        spinning += usize::from(subject.wait_kind == WaitKind::Spin);
    }
    if spinning as f64 > args.budget {
        let needed = spinning * 100 + 10;
        return Err(usage!(
            "{spinning} of these probes spin, which needs a whole core each at any period; leave them out or use --budget {needed}%"
        ));
    }
    Ok(())
}

fn resolve_setup(args: &MonitorArgs, scenarios: &[Scenario]) -> exit::Result<Setup> {
    let labels = collect_labels(args)?;
    check_limits(args, scenarios)?;
    let hostname = || host::hostname().filter(|name| !name.is_empty());
    let name = args.host.clone().or_else(hostname).unwrap_or("unknown".to_owned());
    let captured = host::capture();
    let or_unknown = |text: Option<String>| text.unwrap_or_else(|| "unknown".to_owned());
    let stamp =
        humantime::format_rfc3339_seconds(SystemTime::now()).to_string().replace([':', '-'], "");
    Ok(Setup {
        host: cell(&name).into_owned(),
        run_id: format!("{stamp}-{:08x}", draw_seed()),
        labels,
        limits: args.limit.clone(),
        budget: args.budget,
        info: vec![
            ("version", env!("CARGO_PKG_VERSION").to_owned()),
            ("kernel", or_unknown(captured.kernel)),
            ("clock_source", or_unknown(captured.clock_source)),
            ("slack_ns", or_unknown(captured.timer_slack_ns.map(|ns| ns.to_string()))),
        ],
        quiet: args.quiet,
    })
}

fn collect_labels(args: &MonitorArgs) -> exit::Result<Labels> {
    let mut labels = Labels::default();
    for (key, value) in &args.label {
        if labels.get(key).is_some() {
            return Err(usage!("--label {key} is given twice"));
        }
        labels.set(key, value).map_err(|why| usage!("--label: {why}"))?;
    }
    if labels.to_string().len() > MAX_LABEL_BYTES {
        return Err(usage!("the labels are longer than {MAX_LABEL_BYTES} bytes"));
    }
    Ok(labels)
}

/// Checks that every limit can be judged: each probe it applies to must tick often enough in an
/// interval.
fn check_limits(args: &MonitorArgs, scenarios: &[Scenario]) -> exit::Result<()> {
    if args.limit.len() > MAX_LIMITS {
        return Err(usage!("{} limits given; the maximum is {MAX_LIMITS}", args.limit.len()));
    }
    for limit in &args.limit {
        for scenario in scenarios {
            check_limit(limit, scenario, args.interval)?;
        }
    }
    Ok(())
}

fn check_limit(limit: &Limit, scenario: &Scenario, interval: Duration) -> exit::Result<()> {
    let ticks = interval.as_nanos() / scenario.period.as_nanos();
    let needed = limit.min_ticks();
    if !limit.applies_to(&LoopId::from(scenario)) || ticks >= u128::from(needed) {
        return Ok(());
    }
    Err(usage!(
        "--limit {} needs {needed} ticks per interval, but {} has {ticks} in {}; use a longer --interval, a shorter --period, or NAME: before the limit",
        limit.text,
        scenario.id,
        units::format_exact_duration(interval)
    ))
}

/// Prints what the monitor watches, and its outputs.
fn announce(args: &MonitorArgs, session: &Session, server: Option<&Server>) {
    let loops = format!(
        "{} and {}",
        pluralize(session.probe_count(), "probe"),
        pluralize(session.meter_count(), "meter")
    );
    let budget = format_share((args.budget * 1e6).round() as u64, 1_000_000);
    let interval = format_duration(args.interval.as_secs_f64());
    note(args.quiet, &format!("{loops}, intervals of {interval}, at most {budget} of a core"));
    if let Some(log) = &args.log {
        note(args.quiet, &format!("log: {}", log.display()));
    }
    if let Some(server) = server {
        note(args.quiet, &format!("metrics: http://{}/metrics", server.address));
    }
}
