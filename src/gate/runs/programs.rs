//! Two programs, run in pairs for numbers of their whole runs.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cli::exit::{self, Error, usage};
use cli::time::format_time;
use cli::units::format_exact_duration;
use engine::measure::child::{self, RunFailure, RunRequest, Series};
use engine::measure::metric::{self, MetricSpec, ProgramMetric, RunValues};
use engine::program::Program;
use engine::scenario::Scenario;
use jitterstat::gate::Sides;
use jitterstat::gate::metric::MetricRule;
use jitterstat::stats::random::SplitMix64;

use crate::gate::args::{Tolerance, WholeRunArgs};
use crate::terminal::Progress;

/// Tolerated of a number, and of a tail percentile, unless told otherwise.
const TOLERANCE: [f64; 2] = [0.05, 0.20];
/// Time limit of the first run, of which nothing is known.
const FIRST_LIMIT: Duration = Duration::from_secs(600);

/// The two sides, and what is wanted of their runs.
pub struct Programs {
    pub sides: [Program; 2],
    pub names: [String; 2],
    pub wanted: Vec<MetricSpec>,
    pub prepare: Option<Program>,
    pub warmup_runs: u64,
    min_run_time: Duration,
    /// What they are asked, should they tick.
    period: Duration,
    ticks: [u64; 2],
    limit: Option<Duration>,
    pub seed: u64,
}

/// Why there is no number.
pub enum Stop {
    /// Nothing was measured: bad usage.
    Refused(Error),
    Cut(RunFailure),
}

impl From<RunFailure> for Stop {
    fn from(why: RunFailure) -> Self {
        match why {
            RunFailure::NotStarted(what) => Self::Refused(Error::usage(what)),
            why => Self::Cut(why),
        }
    }
}

/// The values of each number, of both sides, pair by pair.
pub type Values = Vec<Vec<Sides<f64>>>;

impl Programs {
    /// `like` has the length of a round, for programs that tick.
    pub fn new(
        sides: [&Program; 2],
        names: [String; 2],
        args: &WholeRunArgs,
        like: &Scenario,
        limit: Option<Duration>,
        seed: u64,
    ) -> Self {
        Self {
            sides: sides.map(Program::clone),
            names,
            wanted: args.metric.clone(),
            prepare: args.prepare.clone(),
            warmup_runs: args.warmup_runs,
            min_run_time: args.min_run_time,
            period: like.period,
            ticks: [like.round_ticks, like.warmup_ticks],
            limit,
            seed,
        }
    }

    /// Refuses what cannot be started.
    pub fn find(&self) -> exit::Result<()> {
        self.sides
            .iter()
            .chain(&self.prepare)
            .try_for_each(Program::check_exists)
            .map_err(Error::usage)
    }

    /// The runs that are dropped: they fill the caches, and the last of each side shows what can be
    /// judged.
    pub fn warm_up(&self, stop: &AtomicBool) -> Result<[RunValues; 2], Stop> {
        let limit = self.limit.unwrap_or(FIRST_LIMIT);
        for _ in 1..self.warmup_runs {
            [0, 1].into_iter().try_for_each(|side| self.run(side, limit, stop).map(drop))?;
        }
        Ok([self.run(0, limit, stop)?, self.run(1, limit, stop)?])
    }

    fn run(
        &self,
        side: usize,
        limit: Duration,
        stop: &AtomicBool,
    ) -> Result<RunValues, RunFailure> {
        let asked = RunRequest {
            period: self.period,
            ticks: self.ticks[0],
            warmup: self.ticks[1],
            series: Series::Metrics,
            limit,
        };
        if let Some(prepare) = &self.prepare {
            child::run(
                prepare,
                RunRequest { limit: self.limit.unwrap_or(FIRST_LIMIT), ..asked },
                stop,
            )?;
        }
        if stop.load(Ordering::Relaxed) {
            return Err(RunFailure::Interrupted);
        }
        metric::run(&self.sides[side], &self.wanted, asked, stop)
    }

    /// What is judged, by a run of each side; refused where a side does not show it, or they show
    /// different things.
    pub fn numbers(&self, first: &[RunValues; 2]) -> exit::Result<Vec<ProgramMetric>> {
        let of = |side: usize| {
            let name = self.sides[side].text();
            metric::resolve_metrics(&self.wanted, &first[side])
                .map_err(|what| usage!("{name}: {what}; nothing was judged"))
        };
        let [a, b] = [of(0)?, of(1)?];
        let said = |n: &ProgramMetric| (n.name.clone(), n.unit.clone(), n.higher_is_better);
        if let Some((a, b)) = a.iter().zip(&b).find(|(a, b)| said(a) != said(b)) {
            return Err(usage!(
                "the sides write different metrics: {} in {} and {} in {}",
                a.name,
                a.unit,
                b.name,
                b.unit
            ));
        }
        if let Some(twice) = (1..a.len()).find(|&i| a[..i].contains(&a[i])) {
            return Err(usage!("--metric asks twice for {}", a[twice].name));
        }
        let shortest = first[0].wall.min(first[1].wall);
        if self.wanted.iter().any(MetricSpec::includes_startup) && shortest < self.min_run_time {
            return Err(usage!(
                "a run takes {}, and starting the process is much of that; give it more to do, or a shorter \
                 --min-run-time than {}",
                format_time(i64::try_from(shortest.as_nanos()).unwrap_or(i64::MAX)),
                format_exact_duration(self.min_run_time)
            ));
        }
        Ok(b)
    }

    /// Runs pairs, in an order drawn for each, while `goes_on` by what there is; that is kept
    /// whatever ends them.
    pub fn pairs(
        &self,
        first: &[RunValues; 2],
        numbers: &[ProgramMetric],
        stop: &AtomicBool,
        progress: &Progress,
        mut goes_on: impl FnMut(&Values) -> bool,
    ) -> (Values, Result<(), RunFailure>) {
        let limit = self.limit.unwrap_or(child::hang_timeout(first[0].wall.max(first[1].wall)));
        let mut random = SplitMix64::new(self.seed);
        let mut values: Values = vec![Vec::new(); numbers.len()];
        let mut pairs = 0;
        while goes_on(&values) {
            let one = |side: usize| {
                progress.show(&self.names[side], pairs);
                self.run(side, limit, stop).and_then(|run| self.read(side, numbers, &run))
            };
            let both = if random.coin() {
                one(0).and_then(|a| Ok([a, one(1)?]))
            } else {
                one(1).and_then(|b| Ok([one(0)?, b]))
            };
            match both {
                Ok([a, b]) => values
                    .iter_mut()
                    .zip(a.into_iter().zip(b))
                    .for_each(|(values, (base, candidate))| values.push(Sides { base, candidate })),
                Err(why) => return (values, Err(why)),
            }
            pairs += 1;
            progress.step();
        }
        (values, Ok(()))
    }

    /// The numbers of a run.
    fn read(
        &self,
        side: usize,
        numbers: &[ProgramMetric],
        run: &RunValues,
    ) -> Result<Vec<f64>, RunFailure> {
        let values: Result<Vec<f64>, String> =
            numbers.iter().map(|number| number.value(run)).collect();
        values.map_err(|what| RunFailure::Failed(format!("{}: {what}", self.sides[side].text())))
    }
}

/// By what a number is judged, with the tolerances that were asked for.
pub fn rule(number: &ProgramMetric, tolerances: &[Tolerance], floor_ns: f64) -> MetricRule {
    let is_tail =
        ["p90", "p95", "p99"].iter().any(|tail| number.name.ends_with(&format!(":{tail}")));
    let asked = tolerances.iter().rev().find(|tolerance| is_for(tolerance, &number.name));
    MetricRule {
        higher_is_better: number.higher_is_better,
        tolerance: asked.map_or(TOLERANCE[usize::from(is_tail)], |tolerance| tolerance.rise),
        floor: if number.unit == "ns" && !number.higher_is_better { floor_ns } else { 0.0 },
    }
}

/// Refuses a tolerance of something else, or a fall by more than there is; `option` is where it was
/// given.
pub fn check_tolerances(
    option: &str,
    tolerances: &[Tolerance],
    numbers: &[ProgramMetric],
) -> exit::Result<()> {
    if let Some(unknown) =
        tolerances.iter().find(|t| !numbers.iter().any(|number| is_for(t, &number.name)))
    {
        let names: Vec<&str> = numbers.iter().map(|number| number.name.as_str()).collect();
        return Err(usage!(
            "{option} names {}, which is not judged; choose from {}",
            unknown.name,
            names.join(", ")
        ));
    }
    let falls = |t: &&Tolerance| numbers.iter().any(|n| n.higher_is_better && is_for(t, &n.name));
    match tolerances.iter().filter(|t| t.rise >= 1.0).find(falls) {
        Some(t) => {
            Err(usage!("more of {} is better: it cannot fall by {:.0}%", t.name, t.rise * 100.0))
        }
        None => Ok(()),
    }
}

/// By its whole name, or by that of the metric for all its percentiles; without a name it is for
/// all.
pub fn is_for(tolerance: &Tolerance, name: &str) -> bool {
    let rest = name.strip_prefix(&tolerance.name);
    tolerance.name.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
}
