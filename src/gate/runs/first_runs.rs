//! The runs of each side before the first pair.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use cli::exit::{Error, usage};
use engine::measure::benches::{BenchOutputError, BenchRequest};
use engine::measure::child::{ProgramFault, RunFailure};
use engine::measure::metric_spec;
use engine::measure::run_values::RunValues;
use engine::program::Program;
use jitterstat::gate::{Side, Sides};

use crate::gate::pairs::now;
use crate::gate::screen;

use super::programs::{FIRST_RUN_TIMEOUT, Programs};
use super::stop_reason::StopReason;

/// The runs before the first pair.
pub struct FirstRuns {
    /// The last run of each side, which shows the metrics that can be judged.
    pub(super) last: Sides<RunValues>,
    /// Mean duration of a run of each side.
    pub pair_time: Duration,
}

impl Programs {
    /// Runs each side before the first pair, to fill caches.
    ///
    /// # Errors
    /// Returns an error if a run fails or is interrupted: there is nothing to judge then. Also
    /// returns an error if a filter matches no benchmark.
    pub fn warm_up(&self, stop: &AtomicBool) -> Result<FirstRuns, StopReason> {
        let first_runs =
            self.first_runs(stop).map_err(|failure| self.first_run_failure(failure))?;
        self.check_filters(&first_runs, stop)?;
        Ok(first_runs)
    }

    fn first_run_failure(&self, failure: RunFailure) -> StopReason {
        match failure {
            RunFailure::TimedOut { .. } if self.is_deadline_over() => {
                StopReason::Refused(screen::long_run_error())
            }
            RunFailure::Interrupted | RunFailure::NoResources { .. } => {
                StopReason::RunFailed(failure.into())
            }
            failure => StopReason::Refused(failure.into()),
        }
    }

    /// Checks that each filter matches a benchmark of a side. A filter next to others would
    /// otherwise select nothing without a word.
    fn check_filters(&self, first_runs: &FirstRuns, stop: &AtomicBool) -> Result<(), StopReason> {
        let Some(benches) = &self.benches else { return Ok(()) };
        for filter in metric_spec::bench_filters(&self.wanted) {
            let names = first_runs.last.iter().flat_map(RunValues::bench_names);
            let is_matched = match benches.matches(filter, names) {
                Some(is_matched) => is_matched,
                None => self.run_filter(benches, filter, stop)?,
            };
            if !is_matched {
                let format = benches.format;
                return Err(usage!("--metric {format}:{filter} matches no benchmark").into());
            }
        }
        Ok(())
    }

    /// Returns whether a side has benchmarks in a run with a filter alone.
    fn run_filter(
        &self,
        benches: &BenchRequest,
        filter: &str,
        stop: &AtomicBool,
    ) -> Result<bool, StopReason> {
        let limit = self.max_run_time.unwrap_or(FIRST_RUN_TIMEOUT);
        let request = BenchRequest { filters: vec![filter.to_owned()], ..benches.clone() };
        let mut failed = None;
        for side in [Side::Base, Side::Candidate] {
            let words = request.add_arguments(&self.plain_words[side]);
            let program = self.sides[side].clone().with_words(words).map_err(Error::from)?;
            match self.run(&program, Some(&request), limit, stop) {
                Ok(_) => return Ok(true),
                Err(RunFailure::Failed {
                    fault: ProgramFault::Benches { error: BenchOutputError::NoBench(_), .. },
                    ..
                }) => {}
                // Some harnesses fail without a benchmark.
                Err(failure @ RunFailure::Failed { .. }) => failed = failed.or(Some(failure)),
                Err(failure) => return Err(self.first_run_failure(failure)),
            }
        }
        match failed {
            Some(failure) => {
                let format = benches.format;
                Err(usage!("--metric {format}:{filter} alone has no benchmark: {failure}").into())
            }
            None => Ok(false),
        }
    }

    fn first_runs(&self, stop: &AtomicBool) -> Result<FirstRuns, RunFailure> {
        let started = now();
        let limit = self.max_run_time.unwrap_or(FIRST_RUN_TIMEOUT);
        let run = |program: &Program| self.run(program, self.benches.as_ref(), limit, stop);
        for _ in 1..self.warmup_runs {
            run(&self.sides.base)?;
            run(&self.sides.candidate)?;
        }
        let base = run(&self.sides.base)?.values;
        let candidate = run(&self.sides.candidate)?.values;
        let warmup_runs = u32::try_from(self.warmup_runs).unwrap_or(u32::MAX);
        let pair_time = started.elapsed() / warmup_runs;
        Ok(FirstRuns { last: Sides { base, candidate }, pair_time })
    }
}
