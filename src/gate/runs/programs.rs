//! The two programs of a comparison, and a run of one of them.

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use cli::exit::{self, Error, usage};
use engine::measure::benches::{BenchRequest, RunLength};
use engine::measure::child::{self, RunFailure, RunRequest, Series};
use engine::measure::metric_spec::{self, MetricSpec};
use engine::measure::run_values::RunValues;
use engine::program::Program;
use engine::scenario::RoundLength;
use files::gate::verdict::RunPlan;
use jitterstat::gate::Sides;
use jitterstat::gate::decision::ALPHA;

use crate::gate::args::WholeRunArgs;
use crate::gate::pairs::now;

/// Time limit of the first run, before the length of a run is known.
pub(super) const FIRST_RUN_TIMEOUT: Duration = Duration::from_secs(600);

/// The two programs and the requested metrics of their runs.
pub struct Programs {
    pub sides: Sides<Program>,
    /// The words of both commands as the user wrote them.
    pub(super) plain_words: Sides<Vec<String>>,
    pub names: Sides<String>,
    pub wanted: Vec<MetricSpec>,
    /// The benchmarks among the requested metrics.
    pub(super) benches: Option<BenchRequest>,
    /// Command to run before each run.
    pub prepare: Option<Program>,
    pub warmup_runs: u64,
    pub(super) min_run_time: Duration,
    /// Length that a ticking program is requested to use.
    round: RoundLength,
    pub(super) max_run_time: Option<Duration>,
    pub seed: u64,
    /// Time at which a screen ends its last run.
    pub deadline: Option<Instant>,
}

/// A run that exited with 0.
pub(super) struct CompletedRun {
    pub(super) values: RunValues,
    /// Number of processes that the command of `--prepare` left running.
    pub(super) prepare_left_over: u64,
}

impl Programs {
    /// Adds the flags for a run of this length to programs of benchmarks. `round` is the length of
    /// a run, for programs that tick.
    ///
    /// # Errors
    /// Returns an error if the metrics specify several harnesses, or a filter that a command
    /// replaces.
    pub fn new(
        sides: Sides<Program>,
        names: Sides<String>,
        args: &WholeRunArgs,
        round: RoundLength,
        length: RunLength,
        max_run_time: Option<Duration>,
        seed: u64,
    ) -> exit::Result<Self> {
        let metrics = &args.metric;
        if (1..metrics.len()).any(|n| metrics[..n].contains(&metrics[n])) {
            return Err(Error::usage("--metric names a number twice; give each once"));
        }
        let benches = metric_spec::bench_request(metrics, length)?;
        if let Some(benches) = &benches {
            check_own_filters(&sides, benches, metrics)?;
        }
        let plain_words = sides.as_ref().map(|program| program.words().to_vec());
        let sides = match &benches {
            Some(benches) => Sides {
                base: with_bench_flags(sides.base, benches)?,
                candidate: with_bench_flags(sides.candidate, benches)?,
            },
            None => sides,
        };
        Ok(Self {
            sides,
            plain_words,
            names,
            wanted: args.metric.clone(),
            benches,
            prepare: args.prepare.clone(),
            warmup_runs: args.warmup_runs,
            min_run_time: args.min_run_time,
            round,
            max_run_time,
            seed,
            deadline: None,
        })
    }

    /// Returns how long a benchmark takes in a run, if that is known before it runs.
    pub fn bench_time(&self) -> Option<RangeInclusive<Duration>> {
        self.benches.as_ref().and_then(|benches| benches.format.bench_time(benches.length))
    }

    /// Returns the plan as files contain it.
    pub fn plan(&self, cpu: Option<usize>, looks: &[usize]) -> RunPlan {
        RunPlan {
            warmup_runs: self.warmup_runs,
            prepare: self.prepare.as_ref().map(|program| program.text().to_owned()),
            seed: self.seed,
            cpu,
            alpha: ALPHA,
            looks: looks.iter().map(|&pairs| pairs as u64).collect(),
        }
    }

    /// Checks that all programs exist.
    pub fn check_exist(&self) -> exit::Result<()> {
        let mut programs = self.sides.iter().chain(&self.prepare);
        Ok(programs.try_for_each(Program::check_exists)?)
    }

    /// Runs the program of a side once, after the command of `--prepare`. `benches` are the
    /// benchmarks that its arguments select.
    pub(super) fn run(
        &self,
        program: &Program,
        benches: Option<&BenchRequest>,
        limit: Duration,
        stop: &AtomicBool,
    ) -> Result<CompletedRun, RunFailure> {
        let request = RunRequest {
            period: self.round.period,
            ticks: self.round.ticks,
            warmup: self.round.warmup_ticks,
            series: Series::Metrics,
            limit,
        };
        let mut prepare_left_over = 0;
        if let Some(prepare) = &self.prepare {
            let limit = self.until_deadline(self.max_run_time.unwrap_or(FIRST_RUN_TIMEOUT));
            let prepared = child::run(prepare, RunRequest { limit, ..request }, stop)?;
            prepare_left_over = prepared.killed_processes();
        }
        if stop.load(Ordering::Relaxed) {
            return Err(RunFailure::Interrupted);
        }
        // The preparation takes a part of the remaining time.
        let request = RunRequest { limit: self.until_deadline(limit), ..request };
        let values = RunValues::measure(program, &self.wanted, benches, request, stop)?;
        Ok(CompletedRun { values, prepare_left_over })
    }

    /// Shortens a time limit so that it ends at the deadline.
    fn until_deadline(&self, limit: Duration) -> Duration {
        let remaining = self.deadline.map(|deadline| deadline.saturating_duration_since(now()));
        remaining.map_or(limit, |remaining| limit.min(remaining))
    }

    pub(super) fn is_deadline_over(&self) -> bool {
        self.deadline.is_some_and(|deadline| deadline <= now())
    }
}

/// Checks that no command has a filter flag with which its harness ignores the requested filters.
fn check_own_filters(
    sides: &Sides<Program>,
    benches: &BenchRequest,
    metrics: &[MetricSpec],
) -> exit::Result<()> {
    let Some(filter) = metric_spec::bench_filters(metrics).first().copied() else { return Ok(()) };
    let own =
        |program: &Program| Some((benches.own_filter(program.words())?, program.text().to_owned()));
    match sides.iter().find_map(own) {
        Some((flag, program)) => Err(usage!(
            "{program}: the command has {flag}, which replaces the filter of --metric {}:{filter}; give one of them",
            benches.format
        )),
        None => Ok(()),
    }
}

/// Adds the flags for a short run that a command lacks.
fn with_bench_flags(program: Program, benches: &BenchRequest) -> exit::Result<Program> {
    let words = benches.add_arguments(program.words());
    Ok(program.with_words(words)?)
}
