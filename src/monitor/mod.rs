//! `osjitter monitor`: runs probes and watches meters for days, in intervals.

mod accumulator;
pub mod args;
pub mod breaches;
mod budget;
pub mod exposition;
mod flight_watch;
pub mod http;
mod limit_coverage;
mod limits;
mod log;
mod loop_id;
mod loop_record;
mod session;
mod setup;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use crate::interrupt::stop_on_interrupt;
use cli::exit::{self, Error, ExitStatus, usage};
use cli::file_io;
use cli::terminal::note;
use cli::time::{format_duration, format_share};
use cli::words::pluralize;
use engine::scenario::draw_seed;

use crate::meters::MeterReader;
use crate::monitor::args::MonitorArgs;
use crate::monitor::exposition::ExpositionFormat;
use crate::monitor::flight_watch::FlightWatch;
use crate::monitor::http::{Pages, Server};
use crate::monitor::log::Log;
use crate::monitor::session::{ClosedInterval, MAX_FILES, Session};
use crate::monitor::setup::{Setup, select_probes};

/// Maximum time until an interrupt takes effect.
const INTERRUPT_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Runs the monitor until it is interrupted or its duration has passed.
pub fn run(args: &MonitorArgs) -> exit::Result<ExitStatus> {
    if args.log.is_none() && args.listen.is_none() && args.limit.is_empty() {
        return Err(usage!(
            "no output selected; use --log DIR, --listen ADDR or --limit, for example --limit p99=2ms"
        ));
    }
    // Check everything that the user requested before anything starts.
    let probes = select_probes(args)?;
    let setup = Setup::new(args, &probes)?;
    let meters = if args.no_meters {
        None
    } else {
        let meters = MeterReader::new(args.all, MAX_FILES);
        Some(meters.map_err(|e| Error::usage(format!("{e}; --no-meters ignores meters")))?)
    };

    // Claim the outputs.
    let server = args.listen.map(Server::bind).transpose()?;
    let max_intervals = args.keep.map(|n| usize::try_from(n).unwrap_or(usize::MAX));
    let log = match &args.log {
        Some(directory) => {
            file_io::check_no_stdio(directory, "--log", "a directory")?;
            Some(Log::open(directory, &setup.host, max_intervals)?)
        }
        None => None,
    };
    let stop = Arc::default();
    stop_on_interrupt(&stop)?;

    // Record switches from before the first tick on.
    let mut flight = None;
    if let Some(length) = args.flight {
        match FlightWatch::open(length, !probes.is_empty()) {
            Ok((watch, scope)) => {
                note(args.quiet, &scope);
                flight = Some(watch);
            }
            Err(why) => {
                note(false, &format!("flight records: none, the monitor continues without: {why}"));
            }
        }
    }

    // Start the probes, and respond to scrapes from other threads.
    let session = Session::start(setup, &probes, meters, flight, draw_seed())?;
    announce(args, &session, server.as_ref());
    let session = Arc::new(Mutex::new(session));
    if let Some(server) = server {
        let serving = server.serve(SessionPages(Arc::clone(&session)));
        serving.map_err(|e| Error::measure(format!("cannot serve metrics: {e}")))?;
    }

    run_intervals(args, &session, log, &stop);

    // The server's threads keep the session alive until the process ends.
    let status = lock(&session).conclude();
    Ok(status)
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

/// Polls the meters and closes intervals until the monitor should stop, then closes the last one.
fn run_intervals(
    args: &MonitorArgs,
    session: &Mutex<Session>,
    mut log: Option<Log>,
    stop: &AtomicBool,
) {
    let monitor_start = tach::Instant::now();
    let mut interval_start = monitor_start;
    let mut length = until_boundary(args.interval);
    loop {
        // The lateness of this wait does not matter: only probes are measured.
        let remaining = length.saturating_sub(interval_start.elapsed());
        std::thread::park_timeout(INTERRUPT_POLL_INTERVAL.min(remaining));
        let is_over = stop.load(Ordering::Relaxed)
            || args.duration.is_some_and(|duration| monitor_start.elapsed() >= duration);
        if is_over || interval_start.elapsed() >= length {
            (interval_start, length) = (tach::Instant::now(), until_boundary(args.interval));
            let closed = lock(session).close_interval();
            if let Some(log) = &mut log {
                write_interval(session, log, &closed);
            }
        } else {
            lock(session).poll_if_due();
        }
        if is_over {
            return;
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

/// Writes an interval and its flight records to the log. What cannot be written is reported and
/// counted as lost.
fn write_interval(session: &Mutex<Session>, log: &mut Log, closed: &ClosedInterval) {
    let ClosedInterval { start, rows, breaches, flights } = closed;
    let written = log.write(start, rows, breaches.as_deref());
    lock(session).record_write(written.as_ref().map(drop).map_err(ToString::to_string));
    match written {
        Ok(_) if flights.is_empty() => {}
        Ok(interval) => write_flights(session, log, &interval, flights),
        Err(error) => {
            lock(session).flights_lost += flights.len() as u64;
            note(false, &format!("the interval of {start} is lost: {error}"));
        }
    }
    // In either case: old intervals may be why the disk is full.
    for warning in log.remove_old_intervals(SystemTime::now()) {
        note(false, &warning);
    }
}

/// Writes the flight records of an interval and removes old ones. If the disk is full by now, the
/// interval is kept without the rest of its records, which is counted as lost.
fn write_flights(session: &Mutex<Session>, log: &mut Log, interval: &Path, flights: &[String]) {
    let mut written = 0;
    for json in flights {
        match log.write_flight(interval, written + 1, json) {
            Ok(path) => note(false, &format!("flight record: {}", path.display())),
            Err(error) => {
                note(false, &format!("flight records could not be written: {error}"));
                break;
            }
        }
        written += 1;
    }
    lock(session).flights_written += written as u64;
    lock(session).flights_lost += (flights.len() - written) as u64;
    for warning in log.remove_old_flights(SystemTime::now()) {
        note(false, &warning);
    }
}

/// The pages of a session, which its server reads from other threads.
struct SessionPages(Arc<Mutex<Session>>);

impl Pages for SessionPages {
    fn metrics(&self, format: ExpositionFormat) -> Vec<u8> {
        lock(&self.0).scrape(format)
    }

    fn check_health(&self) -> Result<(), String> {
        lock(&self.0).check_health()
    }

    fn check_readiness(&self) -> Result<(), String> {
        lock(&self.0).check_readiness()
    }
}

/// Locks the session. A scrape that panicked has not modified it, so poisoning is ignored.
fn lock(session: &Mutex<Session>) -> MutexGuard<'_, Session> {
    session.lock().unwrap_or_else(PoisonError::into_inner)
}
