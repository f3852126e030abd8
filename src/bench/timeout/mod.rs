//! `osjitter bench timeout`.

#[cfg_attr(test, allow(dead_code, reason = "the tests' allocator counts for itself"))]
#[allow(unsafe_code, reason = "an allocator that counts")]
mod allocations;
pub mod args;
#[allow(unsafe_code, reason = "a handler that steps over a trapped instruction")]
mod counter_reads;
mod deadline;
pub mod markdown;
mod measure;
pub mod picture;
mod plan;
mod subject;
mod variants;
pub mod view;

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Instant, SystemTime};

use jitterstat::bench::cost;
use jitterstat::bench::timeout::{self as model, Measured, Report};
use jitterstat::file::File as _;
use jitterstat::report::{Host, Warning};
use jitterstat::summary::distribution;

use crate::bench::timeout::args::BenchTimeoutArgs;
use crate::bench::timeout::measure::{Counted, Observer, Round};
use crate::bench::timeout::plan::{BATCHES, Cell, Combination, Options, Plan, Workload};
use crate::bench::timeout::subject::{BASELINE, Clock};
use crate::exit::{Error, ExitStatus};
use crate::machine::host;
use crate::render::formats::Format;
use crate::{files, interrupt, terminal};

/// Plans, measures, writes.
pub fn run(args: &BenchTimeoutArgs) -> Result<ExitStatus, Error> {
    if args.list {
        std::io::stdout().write_all(list().as_bytes()).map_err(Error::writing)?;
        return Ok(ExitStatus::Done);
    }
    let plan = plan::build(&Options {
        workload: args.workload.clone(),
        variant: args.variant.clone(),
        clock: args.clock.clone(),
        length: args.length.clone(),
        timers: args.timers.clone(),
        fire: args.fire.clone(),
        capacity: args.capacity,
        rounds: args.rounds,
        round_time: args.round_time.clone(),
        seed: args.seed.unwrap_or_else(|| rand::random::<u32>().into()),
    })
    .map_err(Error::usage)?;
    if args.reference && !plan.cells.iter().any(|c| view::is_like_reference(&c.workload.to_string())) {
        let like = view::LIKE_REFERENCE;
        return Err(Error::usage(format!("--reference needs the workload {like}: add --workload {like}")));
    }
    if let Some(directory) = &args.out {
        let proved = std::fs::create_dir_all(directory).and_then(|()| tempfile::NamedTempFile::new_in(directory));
        proved.map_err(|e| Error::usage(format!("cannot write to {}: {e}; nothing was run", directory.display())))?;
    }
    let seconds = plan::expected(&plan).as_secs_f64();
    let (workloads, variants) = (plan.cells.len(), plan.combinations.len());
    terminal::note(
        args.quiet,
        &format!("{workloads} workloads × {variants} variants × {} rounds: about {seconds:.0}s", plan.rounds),
    );

    let stop = Arc::new(AtomicBool::new(false));
    interrupt::stop_on_interrupt(&stop)?;

    let host = host::capture();
    let clocks = clocks(&plan);
    let started_utc = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    #[allow(clippy::disallowed_methods, reason = "the length of the bench")]
    let started = Instant::now();
    let mut record = Record::new(&plan, args.quiet);
    measure::run(&plan, &stop, &mut record).map_err(|e| Error::measure(format!("cannot measure: {e}")))?;
    record.progress.finish();
    let partial = stop.load(Ordering::Relaxed);
    let report = record.report(&plan, host, clocks, started_utc, started.elapsed().as_nanos() as u64, partial);

    let json = report.to_json();
    if let Some(directory) = &args.out {
        let write = |name: &str, text: &str| {
            let file = directory.join(name);
            files::write_atomically(&file, text.as_bytes())
                .map_err(|e| Error::measure(format!("cannot write {}: {e}", file.display())))
        };
        write("timeout.json", &json)?;
        for picture in picture::pictures(&report) {
            write(&picture.name, &picture.svg)?;
        }
        terminal::note(args.quiet, &format!("report: {}", directory.join("timeout.json").display()));
    }
    let text = match args.format {
        Format::Json => json,
        Format::Table if args.reference => view::table(&report) + &view::beside_reference(&report),
        Format::Table => view::table(&report),
    };
    std::io::stdout().write_all(text.as_bytes()).map_err(Error::writing)?;
    Ok(if partial { ExitStatus::NotMeasured } else { ExitStatus::Done })
}

/// The names, what they stand for, and what cannot be.
fn list() -> String {
    let mut text = "variants\n".to_owned();
    for entry in subject::ALL {
        text += &format!("  {:<24}{}\n", entry.name, entry.about);
        if entry.name == BASELINE {
            continue;
        }
        for clock in Clock::ALL {
            if let Some(reason) = subject::refusal(entry.name, clock) {
                text += &format!("  {:<24}not with the clock {}: {reason}\n", "", clock.name());
            }
        }
    }
    text += "workloads\n";
    for (name, about) in plan::WORKLOADS {
        text += &format!("  {name:<24}{about}\n");
    }
    text
}

fn clocks(plan: &Plan) -> Vec<model::Clock> {
    let used = |clock: Clock| plan.combinations.iter().any(|c| c.clock == clock);
    let entry = |clock: Clock, source: String, ns_per_read: f64| model::Clock {
        name: clock.name().to_owned(),
        source,
        ns_per_read,
    };
    let kernel = "std::time::Instant, the kernel's monotonic clock".to_owned();
    let mut clocks = vec![entry(Clock::Tokio, kernel, measure::ns_per_read(tokio::time::Instant::now))];
    if used(Clock::Tach) {
        clocks.push(entry(Clock::Tach, tach::source().to_string(), measure::ns_per_read(tach::Instant::now)));
    }
    #[cfg(feature = "quanta")]
    if used(Clock::Quanta) {
        clocks.push(entry(Clock::Quanta, "quanta::Instant".to_owned(), measure::ns_per_read(quanta::Instant::now)));
    }
    clocks
}

struct Record {
    rounds: Vec<Vec<Vec<Round>>>,
    counts: Vec<Vec<Option<Counted>>>,
    progress: terminal::Progress,
    reads_are_counted: bool,
}

/// Clock sources that the kernel's monotonic clock reads with one counter instruction, without a system call.
const COUNTER_SOURCES: [&str; 3] = ["tsc", "kvm-clock", "hyperv_clocksource_tsc_page"];

impl Record {
    fn new(plan: &Plan, quiet: bool) -> Self {
        let (cells, variants) = (plan.cells.len(), plan.combinations.len());
        let steps = (cells * variants) as u64 * (plan.rounds + 1);
        Self {
            rounds: vec![vec![Vec::new(); variants]; cells],
            counts: vec![vec![None; variants]; cells],
            progress: terminal::Progress::new(steps, quiet),
            reads_are_counted: false,
        }
    }

    fn report(
        mut self,
        plan: &Plan,
        host: Host,
        clocks: Vec<model::Clock>,
        started_utc: String,
        duration_ns: u64,
        partial: bool,
    ) -> Report {
        self.reads_are_counted = host.clock_source.as_deref().is_some_and(|s| COUNTER_SOURCES.contains(&s));
        let workloads = plan.cells.iter().enumerate().map(|(c, cell)| self.workload(plan, c, cell)).collect();
        Report {
            schema: jitterstat::bench::SCHEMA.to_owned(),
            bench: model::BENCH.to_owned(),
            tool: host::tool(),
            started_utc,
            duration_ns,
            partial,
            plan: model::Plan {
                seed: plan.seed,
                rounds: plan.rounds,
                round_time_ns: plan.round_time.as_nanos() as u64,
                batches: BATCHES,
                capacity: plan.capacity as u64,
            },
            warnings: warnings(&host),
            host,
            clocks,
            workloads,
        }
    }

    fn workload(&self, plan: &Plan, c: usize, cell: &Cell) -> model::Workload {
        let medians = |v: usize| -> Vec<f64> {
            self.rounds[c][v].iter().filter_map(|r| cost::median(&r.ns_per_message)).collect()
        };
        let baseline = medians(0);
        let fires = matches!(cell.workload, Workload::Fire(1..));
        let results = plan.combinations.iter().enumerate().map(|(v, combination)| {
            let rounds = &self.rounds[c][v];
            let batches: Vec<f64> = rounds.iter().flat_map(|r| r.ns_per_message.iter().copied()).collect();
            let lateness: Vec<&[i64]> = rounds.iter().map(|r| r.lateness_ns.as_slice()).collect();
            let medians = medians(v);
            Measured {
                variant: combination.variant.to_owned(),
                clock: if combination.variant == BASELINE { "none" } else { combination.clock.name() }.to_owned(),
                ns_per_message: cost::Costs::of(&batches),
                overhead: if v == 0 { None } else { cost::Overhead::of(&baseline, &medians) },
                counts: self.counts[c][v].as_ref().map(|n| self.counts(n)),
                fired: rounds.iter().map(|r| r.fired).sum(),
                lateness_ns: distribution(&lateness).filter(|_| fires),
                early: lateness.iter().flat_map(|l| l.iter()).filter(|&&ns| ns < 0).count() as u64,
                rounds: medians,
            }
        });
        model::Workload {
            id: cell.id(),
            name: cell.workload.to_string(),
            length_ns: cell.length.as_nanos() as u64,
            runtime: cell.runtime().to_string(),
            results: results.collect(),
        }
    }

    fn counts(&self, counted: &Counted) -> model::Counts {
        let each = |n: u64| n as f64 / counted.messages.max(1) as f64;
        model::Counts {
            messages: counted.messages,
            clock_reads: counted.counter_reads.filter(|_| self.reads_are_counted).map(each),
            timers_made: each(counted.made),
            timer_registrations: each(counted.registered),
            allocations: each(counted.allocations),
            bytes_kept: counted.bytes_kept,
        }
    }
}

impl Observer for Record {
    fn before(&mut self, cell: &Cell, combination: &Combination, round: u64) {
        self.progress.show(&format!("{} {}", cell.id(), combination.variant), round);
    }

    fn round(&mut self, cell: usize, combination: usize, round: Round) {
        self.rounds[cell][combination].push(round);
        self.progress.step();
    }

    fn counted(&mut self, cell: usize, combination: usize, counted: Counted) {
        self.counts[cell][combination] = Some(counted);
        self.progress.step();
    }
}

fn warnings(host: &Host) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let source = host.clock_source.as_deref();
    if source.is_some_and(|s| s != "tsc") {
        warnings.push(Warning {
            code: "clock-source".to_owned(),
            message: format!("the kernel's clock source is {}, not tsc", source.unwrap_or_default()),
            hint:
                "where reading the clock is dear, every variant that reads it per message looks dear; compare the cost \
                   per read"
                    .to_owned(),
        });
    }
    if let Some(quota) = host.quota_cpus {
        warnings.push(Warning {
            code: "cpu-quota".to_owned(),
            message: format!("the control group allows {quota:.2} CPUs; throttling looks like cost"),
            hint: "measure without a CPU limit".to_owned(),
        });
    }
    warnings
}
