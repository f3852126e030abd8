//! A run of a program and its values: measured by the system, or written by the program.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use jitterstat::series::Metric;

use crate::machine::os::{self, Instructions, TreeUsage};
use crate::measure::benches::{
    BenchFormat, BenchNumber, BenchOutput, BenchOutputError, BenchRequest, BenchResult,
    CriterionServer, CriterionTalk, KnownCause,
};
use crate::measure::child::{self, CompletedRun, ProgramFault, RunFailure, RunRequest, RunStep};
use crate::measure::metric_error::{CountUnavailable, MetricError};
use crate::measure::metric_spec::{MetricSpec, metric_names};
use crate::measure::{fresh_pages, program_output, supervisor};
use crate::program::Program;

/// Values of a run.
pub struct RunValues {
    pub wall: Duration,
    pub(super) usage: TreeUsage,
    /// Instructions, or the reason why they were not counted.
    pub(super) instructions: Result<u64, CountUnavailable>,
    pub(super) custom: Vec<Metric>,
    /// The metrics of the system whose name the program gives to one of its own.
    pub(super) shadowed: Vec<&'static str>,
    pub(super) benches: Vec<BenchResult>,
}

impl RunValues {
    /// Runs a program once and measures the metrics.
    ///
    /// # Errors
    ///
    /// Returns an error if the run fails or the program writes invalid metrics.
    pub fn measure(
        program: &Program,
        specs: &[MetricSpec],
        benches: Option<&BenchRequest>,
        request: RunRequest,
        stop: &AtomicBool,
    ) -> Result<Self, RunFailure> {
        // The counter would count it as the next program. An error is returned by the run.
        let _ = supervisor::start();
        let counter =
            specs.contains(&MetricSpec::Instructions).then(Instructions::for_next_program);
        let BenchRun { run, benches } = match benches {
            Some(benches) => run_benches(program, benches, request, stop)?,
            None => BenchRun { run: child::run(program, request, stop)?, benches: Vec::new() },
        };
        let instructions = match counter {
            None => Ok(0),
            Some(Ok(counter)) => {
                counter.count().map_err(|error| CountUnavailable::Unread(Arc::new(error)))
            }
            Some(Err(error)) => Err(CountUnavailable::Unavailable(error)),
        };
        let has_custom = specs.iter().any(|spec| matches!(spec, MetricSpec::Custom(..)));
        let output = run.output_path();
        // A missing file is not an error here. The missing metric is reported later.
        let custom = match has_custom && output.exists() {
            true => program_output::read_metrics(program, &output)?,
            false => Vec::new(),
        };
        let mut shadowed: Vec<&str> = specs.iter().filter_map(MetricSpec::system_name).collect();
        shadowed.retain(|name| program_output::declares_metric(&output, name));
        Ok(Self { wall: run.wall, usage: run.usage, instructions, custom, shadowed, benches })
    }

    /// Returns the number of processes that the program left running, and that were killed.
    pub fn killed_processes(&self) -> u64 {
        self.usage.killed_processes
    }

    /// Returns the names of the benchmarks that ran.
    pub fn bench_names(&self) -> impl Iterator<Item = &str> {
        self.benches.iter().map(|bench| bench.name.as_str())
    }

    /// Returns the names of the numbers that the benchmarks reported, some of them several times.
    pub fn bench_numbers(&self) -> impl Iterator<Item = &str> {
        let numbers = self.benches.iter().flat_map(|bench| &bench.numbers);
        numbers.map(|number| number.name.as_str())
    }

    pub(super) fn instructions(&self) -> Result<u64, MetricError> {
        match &self.instructions {
            Ok(0) => Err(MetricError::NoInstructions(CountUnavailable::Zero)),
            Ok(count) => Ok(*count),
            Err(reason) => Err(MetricError::NoInstructions(reason.clone())),
        }
    }

    /// Checks that the peak memory is that of the program: a process inherits the peak of its
    /// parent.
    pub(super) fn check_max_rss(&self) -> Result<(), MetricError> {
        let inherited_bytes = os::inherited_rss();
        match self.usage.max_rss > inherited_bytes {
            true => Ok(()),
            false => Err(MetricError::SmallMaxRss { inherited_bytes }),
        }
    }

    pub(super) fn bench_number(
        &self,
        bench: &str,
        number: &str,
    ) -> Result<&BenchNumber, MetricError> {
        let found = self.benches.iter().find(|found| found.name == bench);
        let found = found.ok_or_else(|| MetricError::MissingBench(bench.to_owned()))?;
        let mut numbers = found.numbers.iter();
        numbers.find(|found| found.name == number).ok_or_else(|| MetricError::MissingNumber {
            bench: bench.to_owned(),
            number: number.to_owned(),
        })
    }

    pub(super) fn custom(&self, name: &str) -> Result<&Metric, MetricError> {
        let found = self.custom.iter().find(|metric| metric.name == name);
        if found.is_some_and(|metric| metric.samples.count() == 0) {
            return Err(MetricError::NoValue { name: name.to_owned() });
        }
        found.ok_or_else(|| MetricError::MissingMetric {
            name: name.to_owned(),
            written: self.custom.iter().map(|metric| metric.name.clone()).collect(),
            known: metric_names(),
        })
    }
}

/// A run with its benchmarks.
struct BenchRun {
    run: CompletedRun,
    benches: Vec<BenchResult>,
}

/// Runs benchmarks once.
///
/// # Errors
///
/// Returns an error, with its cause if it is known, if the run fails, its output is not that of the
/// harness, or it has no benchmark.
fn run_benches(
    program: &Program,
    benches: &BenchRequest,
    request: RunRequest,
    stop: &AtomicBool,
) -> Result<BenchRun, RunFailure> {
    fresh_pages::renew(program)
        .map_err(|error| RunFailure::from_system(program, RunStep::Start, error))?;
    let is_criterion = benches.format == BenchFormat::Criterion;
    let server = is_criterion.then(CriterionServer::start).transpose();
    let server = server.map_err(|error| RunFailure::from_system(program, RunStep::Start, error))?;
    let run = child::run_benches(program, request, benches, server.as_ref(), stop);
    let talk = server.map(CriterionServer::stop);
    let find_cause = |written: &str| KnownCause::find(benches.format, program.words(), written);
    let with_cause = |error| ProgramFault::Benches { error, cause: find_cause("") };
    // A program whose connection was closed because of an error can fail for this reason.
    if let (Err(RunFailure::Failed { .. }), Some(Err(error))) =
        (&run, talk.as_ref().map(CriterionTalk::check))
    {
        return Err(RunFailure::new(program, with_cause(error)));
    }
    let run = run.map_err(|failure| failure.with_cause(find_cause))?;
    let output = BenchOutput { directory: run.directory(), criterion_talk: talk.as_ref() };
    let read = benches.read(&output).and_then(|read| match read.is_empty() {
        true => Err(BenchOutputError::NoBench(benches.format)),
        false => Ok(read),
    });
    let benches = read.map_err(|error| RunFailure::new(program, with_cause(error)))?;
    Ok(BenchRun { run, benches })
}
