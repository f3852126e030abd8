//! `osjitter bench dispatch`.

pub mod args;
pub mod markdown;
mod measure;
pub mod picture;
mod plan;
mod subject;
pub mod view;

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Instant, SystemTime};

use jitterstat::bench::cost::{Costs, Overhead, median};
use jitterstat::bench::dispatch::{self as model, Measured, NotMeasured, Report};
use jitterstat::file::File as _;
use jitterstat::report::{Host, Tool, Warning};

use crate::bench::dispatch::args::{BenchDispatchArgs, DispatchFormat};
use crate::bench::dispatch::measure::{Observer, Round};
use crate::bench::dispatch::plan::{BATCHES, Operation, Options, Plan, Side};
use crate::exit::{Error, ExitStatus};
use crate::files::Directory;
use crate::machine::host;
use crate::{interrupt, terminal};

/// Plans, measures, writes.
pub fn run(args: &BenchDispatchArgs) -> Result<ExitStatus, Error> {
    if args.list {
        std::io::stdout().write_all(list().as_bytes()).map_err(Error::writing)?;
        return Ok(ExitStatus::Done);
    }
    let plan = plan::build(&Options {
        operation: args.operation.clone(),
        rounds: args.rounds,
        round_time: args.round_time.clone(),
        quick: args.quick,
        seed: args.seed.unwrap_or_else(crate::scenario::draw_seed),
    })
    .map_err(Error::usage)?;
    let directory = match &args.out {
        Some(path) => Some(Directory::open(Some(path), "").map_err(Error::usage)?),
        None => None,
    };
    let seconds = plan::expected(&plan).as_secs_f64().ceil();
    terminal::note(
        args.quiet,
        &format!("{} operations on 2 runtimes × {} rounds: about {seconds}s", plan.operations.len(), plan.rounds),
    );
    let stop = Arc::new(AtomicBool::new(false));
    interrupt::stop_on_interrupt(&stop)?;

    let host = host::capture();
    let started_utc = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    #[allow(clippy::disallowed_methods, reason = "the length of the bench")]
    let started = Instant::now();
    let mut record = Record::new(&plan, args.quiet);
    let rate_hz = measure::run(&plan, &stop, &mut record);
    record.progress.finish();
    let rate_hz = rate_hz.map_err(|e| Error::measure(format!("cannot measure: {e}")))?;
    let partial = stop.load(Ordering::Relaxed);
    let report = Report {
        schema: jitterstat::bench::SCHEMA.to_owned(),
        bench: model::BENCH.to_owned(),
        tool: Tool {
            name: "osjitter".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            commit: Some(env!("OSJITTER_COMMIT").to_owned()).filter(|c| !c.is_empty()),
        },
        started_utc,
        duration_ns: started.elapsed().as_nanos() as u64,
        partial,
        plan: model::Plan {
            seed: plan.seed,
            rounds: plan.rounds,
            round_time_ns: plan.round_time.as_nanos() as u64,
            batches: BATCHES,
        },
        clock: model::Clock {
            source: tach::source().to_string(),
            rate_hz,
            ns_per_read: measure::counts_per_read() * 1e9 / rate_hz,
        },
        warnings: warnings(&host),
        host,
        operations: plan.operations.iter().map(|&operation| record.operation(operation, rate_hz)).collect(),
    };

    let json = report.to_json();
    if let Some(directory) = &directory {
        let file = directory.write("dispatch.json", &json)?;
        directory.write("dispatch.md", &markdown::markdown(&report))?;
        directory.write("dispatch.svg", &picture::picture(&report).svg)?;
        terminal::note(args.quiet, &format!("report: {}", file.display()));
    }
    let text = match args.format {
        DispatchFormat::Json => json,
        DispatchFormat::Table => view::table(&report),
        DispatchFormat::Markdown => markdown::markdown(&report),
        DispatchFormat::Svg => picture::picture(&report).svg,
    };
    std::io::stdout().write_all(text.as_bytes()).map_err(Error::writing)?;
    Ok(if partial { ExitStatus::NotMeasured } else { ExitStatus::Done })
}

/// The names, what they stand for, and who has no such thing.
fn list() -> String {
    let mut text = String::new();
    for operation in Operation::ALL {
        text += &format!("{:<18}{}\n", operation.name(), operation.about());
        for side in Side::ALL {
            if let Some(why) = side.lacks(operation) {
                text += &format!("{:<18}not on {}: {why}\n", "", side.name());
            }
        }
    }
    text
}

struct Record {
    rounds: Vec<(Operation, Side, Vec<Round>)>,
    progress: terminal::Progress,
}

impl Record {
    fn new(plan: &Plan, quiet: bool) -> Self {
        let rounds: Vec<_> = plan::cells(plan).map(|(operation, side)| (operation, side, Vec::new())).collect();
        let steps = rounds.len() as u64 * plan.rounds;
        Self { rounds, progress: terminal::Progress::new(steps, quiet) }
    }

    fn operation(&self, operation: Operation, rate_hz: f64) -> model::Operation {
        let ns_per_count = 1e9 / rate_hz;
        let of = |side: Side| self.rounds.iter().find(|(o, s, _)| (*o, *s) == (operation, side)).map(|(.., r)| r);
        let medians = |rounds: &[Round]| -> Vec<f64> {
            rounds.iter().filter_map(|round| median(round)).map(|counts| counts * ns_per_count).collect()
        };
        let tokio = of(Side::Tokio).map(|rounds| medians(rounds));
        let measured = |side: Side| {
            let rounds = of(side)?;
            let counts: Vec<f64> = rounds.iter().flatten().copied().collect();
            let ns: Vec<f64> = counts.iter().map(|counts| counts * ns_per_count).collect();
            let medians = medians(rounds);
            let others = tokio.as_deref().filter(|_| side != Side::Tokio);
            Some(Measured {
                runtime: side.name().to_owned(),
                ns: Costs::of(&ns)?,
                cycles: (tach::source() == tach::Source::Tsc).then(|| Costs::of(&counts)).flatten(),
                to_tokio: others.and_then(|tokio| Overhead::of(tokio, &medians)),
                rounds: medians,
            })
        };
        let lacks = |side: Side| {
            let why = side.lacks(operation).map(str::to_owned)?;
            Some(NotMeasured { runtime: side.name().to_owned(), why })
        };
        model::Operation {
            name: operation.name().to_owned(),
            about: operation.about().to_owned(),
            by_event: operation.by_event(),
            results: Side::ALL.into_iter().filter_map(measured).collect(),
            not_measured: Side::ALL.into_iter().filter_map(lacks).collect(),
        }
    }
}

impl Observer for Record {
    fn before(&mut self, operation: Operation, side: Side, round: u64) {
        self.progress.show(&format!("{} {}", operation.name(), side.name()), round);
    }

    fn round(&mut self, operation: Operation, side: Side, round: Round) {
        if let Some((.., rounds)) = self.rounds.iter_mut().find(|(o, s, _)| (*o, *s) == (operation, side)) {
            rounds.push(round);
        }
        self.progress.step();
    }
}

fn warnings(host: &Host) -> Vec<Warning> {
    let mut warnings = Vec::new();
    if let Some(why) = tach::why_not_counter() {
        warnings.push(Warning {
            code: "os-clock".to_owned(),
            message: format!("stamps are read from the operating system's clock: {why}"),
            hint: "what is measured event by event holds tens of nanoseconds more, and there are no cycles".to_owned(),
        });
    }
    if let Some(quota) = host.quota_cpus {
        warnings.push(Warning {
            code: "cpu-quota".to_owned(),
            message: format!("the control group allows {quota:.2} CPUs; throttling looks like cost"),
            hint: "measure without a CPU limit".to_owned(),
        });
    }
    if std::thread::available_parallelism().is_ok_and(|n| n.get() < 2) {
        warnings.push(Warning {
            code: "one-cpu".to_owned(),
            message: "there is one CPU for the two threads of what crosses threads".to_owned(),
            hint: "those figures are the scheduler's; measure with two CPUs".to_owned(),
        });
    }
    warnings
}
