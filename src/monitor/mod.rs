//! `osjitter monitor`: probes and meters for days, in intervals.

pub mod args;
mod books;
mod budget;
mod exposition;
mod http;
mod limits;
mod log;
mod session;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use cli::exit::{self, Error, ExitStatus, usage};
use cli::time::{format_duration, format_share};
use cli::units;
use engine::machine::{host, os};
use engine::scenario::{Scenario, ScenarioArgs, Subjects, draw_seed, parse_subject};
use engine::subject;
use files::bins::{Labels, cell};

use crate::interrupt::stop_on_interrupt;
use crate::meters::Watch;
use crate::monitor::args::MonitorArgs;
use crate::monitor::http::Server;
use crate::monitor::limits::MAX_LIMITS;
use crate::monitor::log::Log;
use crate::monitor::session::{Session, Setup};
use crate::terminal::note;

const SUBJECTS: [&str; 2] = ["os-interval", "nanosleep"];
const PERIOD: Duration = Duration::from_millis(10);
/// A program that ends takes its meters with it: no more than this of them is lost.
const LOOK: Duration = Duration::from_secs(10);
/// How long an interrupt may go unnoticed.
const NOTICE: Duration = Duration::from_millis(100);
const MAX_LABEL_BYTES: usize = 3_500;

pub fn run(args: &MonitorArgs) -> exit::Result<ExitStatus> {
    if args.log.is_none() && args.listen.is_none() && args.limit.is_empty() {
        return Err(usage!(
            "nobody would learn what it sees: give --log DIR, --listen ADDR or --limit, such as --limit p99=2ms"
        ));
    }
    // Each scrape is a thread, and makes a text of some hundred kB.
    os::limit_heap_growth();
    let scenarios = scenarios(args)?;
    let setup = setup(args, &scenarios)?;
    let watch = if args.no_meters {
        None
    } else {
        let opened = Watch::new(args.all, session::MAX_FILES);
        Some(opened.map_err(|e| Error::usage(format!("{e}; --no-meters leaves meters alone")))?)
    };
    let keep = args.keep.map(|n| usize::try_from(n).unwrap_or(usize::MAX));
    let log =
        args.log.as_deref().map(|directory| Log::open(directory, &setup.host, keep)).transpose()?;
    let server = args.listen.map(Server::bind).transpose()?;
    let stop = Arc::default();
    stop_on_interrupt(&stop)?;
    let session = Session::start(setup, &scenarios, watch, draw_seed())?;
    announce(args, &session, server.as_ref());
    let session = Arc::new(Mutex::new(session));
    if let Some(server) = server {
        let scraped = Arc::clone(&session);
        let served = server.serve(move |form| locked(&scraped).page(form));
        served.map_err(|e| Error::measure(format!("cannot answer scrapes: {e}")))?;
    }
    watched(args, &session, log.as_ref(), &stop);
    let mut session = locked(&session);
    // The listener holds it as long as the process is there.
    session.end();
    let (closed, lost) = (session.intervals_closed(), session.intervals_lost);
    if lost > 0 {
        note(false, &format!("{lost} of {closed} intervals could not be written"));
        return Ok(ExitStatus::NotMeasured);
    }
    note(
        args.quiet,
        &format!(
            "ended after {}",
            counted(usize::try_from(closed).unwrap_or(usize::MAX), "interval")
        ),
    );
    Ok(ExitStatus::Done)
}

fn counted(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

/// A scrape that panicked has not touched the books.
fn locked(session: &Mutex<Session>) -> MutexGuard<'_, Session> {
    session.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Looks and closes until it is to end, and then once more.
fn watched(args: &MonitorArgs, session: &Mutex<Session>, log: Option<&Log>, stop: &AtomicBool) {
    let began = tach::Instant::now();
    let mut opened = began;
    let mut length = until_boundary(args.interval);
    loop {
        // No call of a probe's: how late those are is another question than how long this waits.
        std::thread::park_timeout(NOTICE.min(length.saturating_sub(opened.elapsed())));
        let over = stop.load(Ordering::Relaxed)
            || args.duration.is_some_and(|length| began.elapsed() >= length);
        if over || opened.elapsed() >= length {
            (opened, length) = (tach::Instant::now(), until_boundary(args.interval));
            let closed = locked(session).close();
            let written = log.map_or(Ok(()), |log| {
                log.write(&closed.start, &closed.rows, closed.breaches.as_deref())
            });
            if let Err(error) = written {
                locked(session).intervals_lost += 1;
                note(false, &format!("the interval of {} is lost: {error}", closed.start));
            }
        } else if locked(session).looked().elapsed() >= LOOK {
            locked(session).look();
        }
        if over {
            return;
        }
    }
}

/// Until the next whole multiple of an interval, UTC, or the one after where that is close.
fn until_boundary(interval: Duration) -> Duration {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let into = Duration::from_nanos((now.as_nanos() % interval.as_nanos()) as u64);
    let left = interval - into;
    if left < interval / 10 { left + interval } else { left }
}

fn scenarios(args: &MonitorArgs) -> exit::Result<Vec<Scenario>> {
    if args.no_probes {
        return Ok(Vec::new());
    }
    let subjects = match Subjects::union(args.subject.iter().cloned()) {
        none if none.is_empty() => SUBJECTS
            .iter()
            .map(|name| parse_subject(name))
            .collect::<Result<_, _>>()
            .map_err(Error::usage)?,
        asked => asked,
    };
    let periods = if args.period.is_empty() { vec![PERIOD] } else { args.period.clone() };
    let scenarios = ScenarioArgs {
        subjects,
        periods,
        runtimes: args.runtime.clone(),
        ..ScenarioArgs::default()
    };
    let scenarios = scenarios.scenarios()?;
    if scenarios.len() > books::MAX_LOOPS / 2 {
        return Err(usage!(
            "{} probes; a monitor has at most {}",
            scenarios.len(),
            books::MAX_LOOPS / 2
        ));
    }
    for scenario in &scenarios {
        let name = scenario.subject.name();
        if name.ends_with("-delay") {
            return Err(usage!(
                "{name} moves its grid with each miss, so that its lateness only grows over days; leave it out"
            ));
        }
        subject::check_available(&name)
            .map_err(|reason| usage!("{name} is not available here: {reason}"))?;
    }
    let spinning = scenarios.iter().filter(|s| subject::spins(&s.subject.name())).count();
    if spinning as f64 > args.budget {
        let needed = spinning * 100 + 10;
        return Err(usage!(
            "{spinning} of these probes spin, which takes a whole core each at any period; leave them out, or give --budget {needed}%"
        ));
    }
    Ok(scenarios)
}

fn setup(args: &MonitorArgs, scenarios: &[Scenario]) -> exit::Result<Setup> {
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
    if args.limit.len() > MAX_LIMITS {
        return Err(usage!("{} limits; a monitor has at most {MAX_LIMITS}", args.limit.len()));
    }
    for limit in &args.limit {
        let too_few = |s: &&Scenario| {
            let of = books::Loop::Probe {
                subject: s.subject.name(),
                period_ns: 0,
                runtime: String::new(),
            };
            limit.is_of(&of)
                && args.interval.as_nanos() / s.period.as_nanos() < u128::from(limit.least_ticks())
        };
        if let Some(scenario) = scenarios.iter().find(too_few) {
            return Err(usage!(
                "--limit {} needs {} ticks, and {} has {} in {}; give a longer --interval, a shorter --period, or NAME: before the limit",
                limit.text,
                limit.least_ticks(),
                scenario.id,
                args.interval.as_nanos() / scenario.period.as_nanos(),
                units::format_exact_duration(args.interval)
            ));
        }
    }
    let name = args.host.clone().or_else(host::hostname).unwrap_or_default();
    let captured = host::capture();
    let known = |text: Option<String>| text.unwrap_or_else(|| "unknown".to_owned());
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
            ("kernel", known(captured.kernel)),
            ("clock_source", known(captured.clock_source)),
            ("slack_ns", known(captured.timer_slack_ns.map(|ns| ns.to_string()))),
        ],
        quiet: args.quiet,
    })
}

fn announce(args: &MonitorArgs, session: &Session, server: Option<&Server>) {
    let loops = format!(
        "{} and {}",
        counted(session.probes(), "probe"),
        counted(session.meters(), "meter")
    );
    let budget = format_share((args.budget * 1e6).round() as u64, 1_000_000);
    note(
        args.quiet,
        &format!(
            "{loops}, intervals of {}, at most {budget} of a core",
            format_duration(args.interval.as_secs_f64())
        ),
    );
    if let Some(log) = &args.log {
        note(args.quiet, &format!("log: {}", log.display()));
    }
    if let Some(server) = server {
        note(args.quiet, &format!("metrics: http://{}/metrics", server.address));
    }
}
