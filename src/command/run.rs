//! `osjitter run`.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Instant, SystemTime};

use jitterstat::report::{Change, Plan, Scenario, Status};

use crate::cli::{Format, RunArgs};
use crate::exit::{ExitStatus, Failure};
use crate::export::directory::Directory;
use crate::measure::{self, MeasuredRound, Observer, Shared};
use crate::os::{self, Sched};
use crate::plan::{self, OneOrMany, Options, RunOptions};
use crate::record::Record;
use crate::{export, host, interrupt, output};

/// Plans, measures, writes.
pub fn run(args: &RunArgs) -> Result<ExitStatus, Failure> {
    let plan = plan(args).map_err(Failure::Usage)?;
    if args.print_plan {
        let text = plan::to_toml(&plan);
        std::io::stdout().write_all(text.as_bytes()).map_err(Failure::writing)?;
        return Ok(ExitStatus::Done);
    }
    fits_memory(&plan).map_err(Failure::Usage)?;
    let host = host::capture();
    let changes = apply(&plan).map_err(Failure::Usage)?;
    let started_utc = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let out = Directory::open(args.out.as_deref(), &started_utc).map_err(Failure::Usage)?;
    announce(&plan, args.quiet);

    let shared = Arc::new(Shared::default());
    interrupt::stop_on_interrupt(&shared)?;
    #[allow(clippy::disallowed_methods, reason = "the start of the run")]
    let started = Instant::now();
    let record = Record::new(plan.clone(), host, started_utc, started, changes);
    let rounds = plan.scenarios.iter().map(plan::rounds).sum();
    let mut collector = Collector { record, progress: output::Progress::new(rounds, args.quiet) };
    measure::run(&plan, &shared, &mut collector);
    #[allow(clippy::disallowed_methods, reason = "the end of the run")]
    let ended = Instant::now();
    collector.progress.finish();
    let partial = shared.stop.load(Ordering::Relaxed);
    let report = collector.record.report(partial, ended);

    let json = report.to_json();
    let file = out.write("report.json", &json)?;
    for picture in export::svg::pictures(&report) {
        out.write(&picture.name, &picture.svg)?;
    }
    out.write("report.html", &export::html::page(std::slice::from_ref(&report)))?;
    let text = match args.format {
        Format::Table => export::table::with_reading(&report, output::columns()),
        Format::Json => json,
    };
    let written = std::io::stdout().write_all(text.as_bytes()).map_err(Failure::writing);
    output::note(args.quiet, &format!("report: {}", file.display()));
    written?;
    let complete = report.subjects.iter().all(|s| s.status == Status::Measured);
    Ok(if complete { ExitStatus::Done } else { ExitStatus::NotMeasured })
}

fn plan(args: &RunArgs) -> Result<Plan, String> {
    let file = match &args.plan {
        None => plan::File::default(),
        Some(path) => {
            let name = path.display().to_string();
            let text = std::fs::read_to_string(path).map_err(|e| format!("cannot read the plan {name}: {e}"))?;
            plan::parse(&name, &text)?
        }
    };
    let several = |values: &[String]| (!values.is_empty()).then(|| OneOrMany::Many(values.to_vec()));
    let options = Options {
        subject: several(&args.subject),
        period: several(&args.period),
        ticks: args.ticks,
        duration: args.duration.clone(),
        round_ticks: args.round_ticks,
        warmup: args.warmup,
        runtime: several(&args.runtime),
        instances: args.instances,
    };
    let run = RunOptions {
        seed: args.seed.or_else(|| file.run.seed.is_none().then(plan::draw_seed)),
        samples: args.no_samples.then_some(false),
        cpu: args.cpu,
        sched: args.sched.clone(),
        mlock: args.mlock.then_some(true),
        timer_slack: args.timer_slack.clone(),
    };
    let plan = plan::build(&file, &options, &run)?;
    plan.sched.as_deref().map(sched).transpose()?;
    Ok(plan)
}

/// Reads `fifo:50`, `rr:10` or `other`.
fn sched(text: &str) -> Result<Sched, String> {
    const PRIORITIES: std::ops::RangeInclusive<u8> = 1..=99;
    let bad = || format!("no scheduling class {text:?}; use other, fifo:N or rr:N with a priority from 1 to 99");
    let (name, priority) = text.split_once(':').unwrap_or((text, ""));
    let priority = priority.parse().ok().filter(|p| PRIORITIES.contains(p));
    match (name, priority) {
        ("other", None) if text == "other" => Ok(Sched::Other),
        ("fifo", Some(priority)) => Ok(Sched::Fifo(priority)),
        ("rr", Some(priority)) => Ok(Sched::RoundRobin(priority)),
        _ => Err(bad()),
    }
}

/// More ticks than memory holds are refused before anything runs.
fn fits_memory(plan: &Plan) -> Result<(), String> {
    let ticks = plan.scenarios.iter().try_fold(0_u64, |sum, s| sum.checked_add(s.ticks.checked_mul(s.instances)?));
    let need = ticks.and_then(|t| t.checked_mul(plan::BYTES_PER_TICK));
    let have = os::available_memory();
    match (need, have) {
        (Some(need), Some(have)) if need <= have => Ok(()),
        (Some(need), None) if isize::try_from(need).is_ok() => Ok(()),
        _ => Err(format!(
            "the samples need {}, and {} is available; ask for fewer ticks or fewer subjects",
            need.map_or("more memory than there can be".into(), gibibytes),
            have.map_or("an unknown amount".into(), gibibytes),
        )),
    }
}

fn gibibytes(bytes: u64) -> String {
    format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30))
}

/// Changes what the plan asks to be changed, and says what it was.
fn apply(plan: &Plan) -> Result<Vec<Change>, String> {
    let mut changes = Vec::new();
    let mut changed = |what: &str, from: String, to: String| changes.push(Change { what: what.to_owned(), from, to });
    let unknown = || "unknown".to_owned();
    if let Some(cpu) = plan.cpu {
        let allowed = os::affinity();
        if allowed.as_ref().is_some_and(|a| !a.contains(&cpu)) {
            let list: Vec<String> = allowed.unwrap_or_default().iter().map(usize::to_string).collect();
            return Err(format!("CPU {cpu} is not there or not allowed; this process may use {}", list.join(", ")));
        }
        os::bind(cpu).map_err(|e| format!("cannot bind to CPU {cpu}: {e}; nothing was run"))?;
        let from = allowed.map_or_else(unknown, |a| format!("{a:?}"));
        changed("CPU affinity of the measuring thread", from, format!("[{cpu}]"));
    }
    if let Some(slack_ns) = plan.timer_slack_ns {
        let from = os::timer_slack_ns().map_or_else(unknown, |ns| format!("{ns} ns"));
        os::set_timer_slack_ns(slack_ns).map_err(|e| format!("cannot set the timer slack: {e}; nothing was run"))?;
        changed("timer slack of the measuring thread", from, format!("{slack_ns} ns"));
    }
    if plan.mlock {
        // A limit that the pages of today fit may have no room for the stack of one more thread.
        let with_room = os::lock_memory().and_then(|()| std::thread::Builder::new().spawn(|| ()));
        with_room.map_err(|e| {
            format!("cannot lock memory: {e}; it needs CAP_IPC_LOCK or a larger ulimit -l; nothing was run")
        })?;
        changed("memory of the process", "pageable".to_owned(), "locked".to_owned());
    }
    if let Some(class) = &plan.sched {
        let from = os::sched().unwrap_or_else(unknown);
        os::set_sched(sched(class)?)
            .map_err(|e| format!("cannot run as {class}: {e}; it needs {}; nothing was run", os::SCHED_NEEDS))?;
        changed("scheduling class of the measuring thread", from, class.clone());
    }
    let sleeps = plan.scenarios.iter().any(|s| s.subject == "nanosleep");
    if let Some(slack_ns) = os::timer_slack_ns().filter(|_| sleeps) {
        let what = "timer slack of the measuring thread, during rounds of nanosleep";
        changed(what, format!("{slack_ns} ns"), "1 ns".to_owned());
    }
    Ok(changes)
}

fn announce(plan: &Plan, quiet: bool) {
    let seconds = plan::expected(plan).as_secs_f64();
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
    output::note(quiet, &format!("{n} {subjects} × {each}: {time}"));
}

struct Collector {
    record: Record,
    progress: output::Progress,
}

impl Observer for Collector {
    fn before(&mut self, scenario: &Scenario, index: u64) {
        self.progress.show(&scenario.id, index);
    }

    fn after(&mut self, scenario: &Scenario, result: Result<MeasuredRound, String>) {
        if let Err(reason) = &result {
            self.progress.say(&format!("{}: not measured: {reason}", scenario.id));
        }
        self.record.add(scenario, result);
        self.progress.step();
    }
}
