//! The fitness of a machine: whether the numbers of a run can be trusted.
//!
//! Lateness can come from the program or from the machine. Fitness is judged from the same rounds
//! as the lateness: the spinning control is late only when it does not run, and the kernel's
//! accounts show the reason. The thresholds were chosen from recorded runs on quiet and on
//! overloaded machines; `tests/fitness.rs` verifies them with those runs.

use crate::counters::add_if_known;
use crate::report::{PERCENTILES, Percentile, Report, Round};
use crate::subjects::{self, SubjectRole};
use jitterstat::stats::Interval;
use jitterstat::stats::quantile::rank;

pub use crate::report::fitness::{Cause, Facts, Fitness, Reason, Verdict};

/// Time before the first deadline of a round at which the spinning control starts to spin.
pub const SPIN_LEAD_NS: u64 = 1_000_000;
/// Lateness from which the spinning control did not run: an interrupt takes only a few
/// microseconds.
pub const MIN_GAP_NS: i64 = 20_000;

/// A time in which the spinning control did not run. It ended when a tick was delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpinGap {
    /// Position of this tick in the round.
    pub tick: usize,
    /// Duration of the gap.
    pub lost_ns: i64,
}

/// Returns the gaps of a round of the spinning control, in order.
pub fn spin_gaps(period_ns: u64, lateness_ns: &[i64]) -> impl Iterator<Item = SpinGap> + '_ {
    let period = i64::try_from(period_ns).unwrap_or(i64::MAX);
    let previous = std::iter::once(&0).chain(lateness_ns);
    let ticks = lateness_ns.iter().zip(previous).enumerate();
    ticks.filter_map(move |(tick, (&late, &previous))| {
        // If a tick was due when its predecessor was delivered, its lateness began earlier: count
        // only the time since then.
        let lost_ns = late.min(late.saturating_sub(previous).saturating_add(period));
        (lost_ns > MIN_GAP_NS).then_some(SpinGap { tick, lost_ns })
    })
}

/// An accumulator of rounds, from which [`Facts`] are computed.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    total: CostSums,
    spin: CostSums,
    /// CPU time of the spinning control.
    spin_cpu_ns: Option<u64>,
    /// Time in which this CPU time was counted, for all of which the control spun.
    spin_window_ns: u64,
    /// Time of the spinning control from one period before the first recorded deadline to the last
    /// wake-up.
    spun_ns: u64,
    /// Time of that in which it did not run.
    lost_ns: u64,
    longest_gap_ns: i64,
    spin_ticks: u64,
    spin_late: u64,
    /// Median of each round of the sleeping control.
    medians: Vec<i64>,
}

/// Sums of the costs of rounds.
#[derive(Clone, Copy, Debug, Default)]
struct CostSums {
    window_ns: u64,
    /// Time in which the context switches were counted, of the rounds for which they are known.
    usage_window_ns: u64,
    /// Time of the rounds for which the run queue time is known, which excludes programs of the
    /// user.
    queue_window_ns: u64,
    run_queue_ns: Option<u64>,
    preempted: Option<u64>,
    stolen_ns: Option<u64>,
    throttled_ns: Option<u64>,
    suspended_ns: Option<u64>,
    khz: Option<Interval<u64>>,
}

impl CostSums {
    fn add(&mut self, round: &Round) {
        // The instances of a round share its costs, but overlap in time.
        if round.instance == 0 {
            let window_ns = round.window_ns.unwrap_or(0);
            self.window_ns = self.window_ns.saturating_add(window_ns);
            let usage_ns = round.window_of_switches_ns().unwrap_or(0);
            self.usage_window_ns = self.usage_window_ns.saturating_add(usage_ns);
            let known_ns = if round.run_queue_ns.is_some() { window_ns } else { 0 };
            self.queue_window_ns = self.queue_window_ns.saturating_add(known_ns);
        }
        add_if_known(&mut self.run_queue_ns, round.run_queue_ns);
        add_if_known(&mut self.preempted, round.switches_involuntary);
        add_if_known(&mut self.stolen_ns, round.steal_ns);
        add_if_known(&mut self.throttled_ns, round.throttled_ns);
        add_if_known(&mut self.suspended_ns, round.suspended_ns);
        if let Some(khz) = round.cpu_khz {
            let range = self.khz.unwrap_or(Interval::point(khz));
            self.khz = Some(Interval { lower: range.lower.min(khz), upper: range.upper.max(khz) });
        }
    }

    fn share(&self, part_ns: Option<u64>) -> Option<f64> {
        share(part_ns, self.window_ns)
    }
}

fn share(part_ns: Option<u64>, total_ns: u64) -> Option<f64> {
    if total_ns == 0 { None } else { Some(part_ns? as f64 / total_ns as f64) }
}

impl Tally {
    /// Adds a round of a subject. `lateness_ns` is the lateness of its ticks, which a report
    /// without samples does not contain.
    pub fn add(&mut self, name: &str, period_ns: u64, round: &Round, lateness_ns: &[i64]) {
        self.total.add(round);
        match subjects::find(name).map(|subject| subject.role) {
            Some(SubjectRole::SpinningControl) => self.add_spin(period_ns, round, lateness_ns),
            Some(SubjectRole::SleepingControl) => {
                self.medians.extend(round.summary.as_ref().and_then(|s| s.lateness_ns.p50));
            }
            Some(SubjectRole::Competitor) | None => {}
        }
    }

    /// Adds the rounds of a report with samples.
    pub fn add_report(&mut self, report: &Report) {
        // A subject under load is disturbed on purpose.
        for subject in report.subjects.iter().filter(|s| s.load.is_none()) {
            for round in &subject.rounds {
                self.add(&subject.name, subject.period_ns, round, &round.lateness_ns);
            }
        }
    }

    fn add_spin(&mut self, period_ns: u64, round: &Round, lateness_ns: &[i64]) {
        let Some(&last) = lateness_ns.last() else { return };
        self.spin.add(round);
        let last_late_ns = u64::try_from(last).unwrap_or(0);
        let recorded_ns = (lateness_ns.len() as u64).saturating_mul(period_ns);
        self.spun_ns = self.spun_ns.saturating_add(recorded_ns).saturating_add(last_late_ns);
        if let Some(cpu_ns) = round.cpu_ns {
            add_if_known(&mut self.spin_cpu_ns, Some(cpu_ns));
            let window_ns = round.window_of_spin_ns(period_ns, lateness_ns);
            self.spin_window_ns = self.spin_window_ns.saturating_add(window_ns);
        }
        for gap in spin_gaps(period_ns, lateness_ns) {
            self.lost_ns = self.lost_ns.saturating_add(gap.lost_ns.unsigned_abs());
            self.longest_gap_ns = self.longest_gap_ns.max(gap.lost_ns);
        }
        let late = lateness_ns.iter().filter(|&&late| late > MIN_GAP_NS);
        self.spin_late += late.count() as u64;
        self.spin_ticks += lateness_ns.len() as u64;
    }

    /// Computes the facts, given the number of CPUs.
    #[must_use]
    pub fn facts(&self, cpus: Option<u64>) -> Facts {
        let has_spin = self.spin_ticks > 0;
        // A spinning thread is always ready, so its wait is the time that others use.
        let waiting = if has_spin { &self.spin } else { &self.total };
        let seconds = self.spin.usage_window_ns as f64 / 1e9;
        let preempted = self.spin.preempted.filter(|_| seconds > 0.0);
        let stolen_cpus = self.total.share(self.total.stolen_ns).zip(cpus);
        Facts {
            spin_core: share(self.spin_cpu_ns, self.spin_window_ns).map(|core| core.min(1.0)),
            spin_gaps: has_spin.then(|| self.lost_ns as f64 / self.spun_ns.max(1) as f64),
            spin_longest_gap_ns: has_spin.then_some(self.longest_gap_ns),
            waited: share(waiting.run_queue_ns, waiting.queue_window_ns),
            preempted_per_s: preempted.map(|n| n as f64 / seconds),
            stolen: stolen_cpus.map(|(share, cpus)| share / cpus.max(1) as f64),
            throttled: waiting.share(waiting.throttled_ns),
            suspended_ns: self.total.suspended_ns,
            spin_khz: self.spin.khz.map(Into::into),
            uneven_rounds: uneven_share(&self.medians),
        }
    }

    /// Returns the lowest percentile at which the spinning control was late.
    #[must_use]
    pub fn distrust_from(&self) -> Option<&'static str> {
        if self.spin_ticks == 0 {
            return None;
        }
        let on_time = self.spin_ticks.checked_sub(self.spin_late)?;
        let ticks = usize::try_from(self.spin_ticks).unwrap_or(usize::MAX);
        // A quantile is late if its nearest rank exceeds the number of punctual ticks.
        let is_late = |percentile: &&Percentile| rank(ticks, percentile.quantile) as u64 > on_time;
        let late = PERCENTILES.iter().find(is_late)?;
        Some(late.key)
    }
}

/// Returns the share of values that are more than twice or less than half the median of the three
/// previous ones, and also of the three next ones. A single outlier is uneven, a step is not.
fn uneven_share(medians: &[i64]) -> Option<f64> {
    const REACH: usize = 3;
    if medians.len() <= 2 * REACH {
        return None;
    }
    let mut uneven = 0;
    for (i, &value) in medians.iter().enumerate() {
        let (before, after) = (&medians[i.saturating_sub(REACH)..i], &medians[i + 1..]);
        let after = &after[..after.len().min(REACH)];
        uneven += u32::from(is_unlike(value, before) && is_unlike(value, after));
    }
    Some(f64::from(uneven) / medians.len() as f64)
}

/// Whether a value is more than twice or less than half the median of others, or there are none:
/// the first and the last value have only one side.
fn is_unlike(value: i64, others: &[i64]) -> bool {
    let mut others = others.to_vec();
    others.sort_unstable();
    let Some(&typical) = others.get(others.len() / 2) else { return true };
    value > typical.saturating_mul(2) || value.saturating_mul(2) < typical
}

impl Fitness {
    /// Judges a run by its tally. `None` if neither the platform nor a control provides data for a
    /// judgement.
    #[must_use]
    pub fn from_tally(tally: &Tally, cpus: Option<u64>) -> Option<Self> {
        let facts = tally.facts(cpus);
        let measured =
            facts.spin_core.is_some() || facts.spin_gaps.is_some() || facts.waited.is_some();
        if measured { Some(Self::from_facts(facts, tally.distrust_from(), cpus)) } else { None }
    }

    /// Judges a run by facts that were computed earlier.
    #[must_use]
    pub fn from_facts(facts: Facts, distrust_from: Option<&str>, cpus: Option<u64>) -> Self {
        let mut reasons: Vec<Reason> =
            THRESHOLDS.iter().filter_map(|threshold| threshold.judge(&facts, cpus)).collect();
        // The sort is stable: equal verdicts keep the order of the causes.
        reasons.sort_by_key(|r| std::cmp::Reverse(r.verdict));
        let verdict = reasons.first().map_or(Verdict::Quiet, |r| r.verdict);
        Self { verdict, distrust_from: distrust_from.map(str::to_owned), reasons, facts }
    }

    /// Returns the index in [`PERCENTILES`] of the lowest percentile that reflects the machine
    /// rather than the subjects; `None` if all percentiles are trusted.
    #[must_use]
    pub fn first_distrusted(&self) -> Option<usize> {
        let key = self.distrust_from.as_deref()?;
        PERCENTILES.iter().position(|percentile| percentile.key == key)
    }

    /// Judges a report with samples by its rounds, like [`Fitness::from_tally`].
    #[must_use]
    pub fn from_report(report: &Report) -> Option<Self> {
        let mut tally = Tally::default();
        tally.add_report(report);
        Self::from_tally(&tally, report.host.cpus_online)
    }
}

/// The thresholds of all causes.
///
/// The thresholds of [`Cause::Slowed`] are not based on recorded runs, because the available
/// machines do not report frequencies. A CPU that is heated by its neighbours varies by less than
/// 10 %.
const THRESHOLDS: [Threshold; 8] = [
    Threshold { cause: Cause::Suspended, noisy: 10e6, unfit: 10e6 },
    Threshold { cause: Cause::Quota, noisy: 0.001, unfit: 0.02 },
    Threshold { cause: Cause::Busy, noisy: 0.01, unfit: 0.10 },
    Threshold { cause: Cause::Steal, noisy: 0.01, unfit: 0.10 },
    Threshold { cause: Cause::Slowed, noisy: 0.10, unfit: 0.50 },
    Threshold { cause: Cause::Stopped, noisy: 0.01, unfit: 0.05 },
    Threshold { cause: Cause::Pauses, noisy: 0.002, unfit: 0.05 },
    Threshold { cause: Cause::Uneven, noisy: 0.20, unfit: 0.50 },
];

/// The amounts from which a cause makes a run noisy and unfit.
struct Threshold {
    cause: Cause,
    noisy: f64,
    unfit: f64,
}

impl Threshold {
    /// The reason that the facts give; `None` if the cause was not measured or is below both
    /// limits.
    fn judge(&self, facts: &Facts, cpus: Option<u64>) -> Option<Reason> {
        let value = facts.amount(self.cause, cpus)?;
        let verdict = if value >= self.unfit {
            Verdict::Unfit
        } else if value >= self.noisy {
            Verdict::Noisy
        } else {
            return None;
        };
        Some(Reason { cause: self.cause, verdict, value, limits: [self.noisy, self.unfit] })
    }
}

impl Facts {
    /// Returns the amount of a cause; `None` if it was not measured.
    fn amount(&self, cause: Cause, cpus: Option<u64>) -> Option<f64> {
        // Relative to one core.
        let stolen = self.stolen.unwrap_or(0.0) * cpus.unwrap_or(1) as f64;
        // A throttled thread also counts as waiting.
        let held = self.waited.unwrap_or(0.0).max(self.throttled.unwrap_or(0.0)) + stolen;
        let not_run = || Some(1.0 - self.spin_core?);
        match cause {
            Cause::Suspended => self.suspended_ns.map(|ns| ns as f64),
            Cause::Quota => self.throttled,
            Cause::Busy => self.waited.map(|waited| waited - self.throttled.unwrap_or(0.0)),
            Cause::Steal => self.stolen,
            Cause::Slowed => self.spin_khz.map(|[low, high]| 1.0 - low as f64 / high.max(1) as f64),
            Cause::Stopped => Some(not_run()?.min(self.spin_gaps?) - held),
            Cause::Pauses => Some(self.spin_gaps? - not_run()?.max(held)),
            Cause::Uneven => self.uneven_rounds,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD_NS: u64 = 1_000_000;
    const TICKS: u64 = 1_000;

    /// The fitness after a second of the spinning control with the costs of `round`.
    fn judge_spin(lateness_ns: &[i64], round: Round) -> Fitness {
        let mut tally = Tally::default();
        let second = PERIOD_NS * TICKS;
        let cpu_ns = round.cpu_ns.or(Some(second));
        tally.add(
            "spin",
            PERIOD_NS,
            &Round { window_ns: Some(second), cpu_ns, ..round },
            lateness_ns,
        );
        Fitness::from_tally(&tally, Some(2)).unwrap()
    }

    fn on_time() -> Vec<i64> {
        vec![50; TICKS as usize]
    }

    /// Every `n`-th tick is late by `late_ns`.
    fn late_every(n: usize, late_ns: i64) -> Vec<i64> {
        (0..TICKS as usize).map(|i| if i % n == 0 { late_ns } else { 50 }).collect()
    }

    #[test]
    fn preemptions_belong_to_known_rounds() {
        let mut tally = Tally::default();
        for switches_involuntary in [Some(10), None] {
            let window_ns = Some(PERIOD_NS * TICKS);
            let round = Round { window_ns, switches_involuntary, ..Round::default() };
            tally.add("spin", PERIOD_NS, &round, &on_time());
        }
        assert_eq!(tally.facts(Some(2)).preempted_per_s, Some(10.0));
    }

    fn causes(fitness: &Fitness) -> Vec<Cause> {
        fitness.reasons.iter().map(|r| r.cause).collect()
    }

    #[test]
    fn undisturbed_spin_is_quiet() {
        let fitness =
            judge_spin(&on_time(), Round { run_queue_ns: Some(40_000), ..Round::default() });
        assert_eq!((fitness.verdict, fitness.distrust_from.as_deref()), (Verdict::Quiet, None));
        assert!(fitness.facts.spin_core.is_some_and(|share| share > 0.99), "{:?}", fitness.facts);
        assert_eq!(
            (fitness.facts.spin_gaps, fitness.facts.spin_longest_gap_ns),
            (Some(0.0), Some(0))
        );
    }

    #[test]
    fn lost_cpu_time_has_a_cause() {
        // Half of the time is lost: to a wait, to a quota, to neither, or while CPU time still
        // counts.
        let half = Some(500_000_000);
        let lost = late_every(10, 5_000_000);
        let elsewhere = Round { cpu_ns: half, ..Round::default() };
        let busy = Round { run_queue_ns: half, ..elsewhere.clone() };
        assert_eq!(causes(&judge_spin(&lost, busy.clone())), [Cause::Busy]);
        assert_eq!(
            causes(&judge_spin(&lost, Round { throttled_ns: half, ..busy })),
            [Cause::Quota]
        );
        assert_eq!(causes(&judge_spin(&lost, elsewhere)), [Cause::Stopped]);
        assert_eq!(causes(&judge_spin(&lost, Round::default())), [Cause::Pauses]);
        let steal = Round { steal_ns: half, ..Round::default() };
        assert_eq!(causes(&judge_spin(&lost, steal)), [Cause::Steal]);
        let suspended =
            judge_spin(&on_time(), Round { suspended_ns: Some(20_000_000), ..Round::default() });
        assert_eq!(
            (suspended.verdict, causes(&suspended)),
            (Verdict::Unfit, vec![Cause::Suspended])
        );
    }

    #[test]
    fn slowed_cpu_is_detected() {
        let causes_at = |frequencies: &[u64]| {
            let mut tally = Tally::default();
            for &khz in frequencies {
                let second = Some(PERIOD_NS * TICKS);
                let round = Round {
                    window_ns: second,
                    cpu_ns: second,
                    cpu_khz: Some(khz),
                    ..Round::default()
                };
                tally.add("spin", PERIOD_NS, &round, &on_time());
                // The CPU of a sleeping thread may have any frequency.
                tally.add(
                    "nanosleep",
                    PERIOD_NS,
                    &Round { cpu_khz: Some(800_000), ..round },
                    &on_time(),
                );
            }
            causes(&Fitness::from_tally(&tally, Some(2)).unwrap())
        };
        assert_eq!(causes_at(&[3_000_000, 2_900_000, 2_950_000]), []);
        assert_eq!(causes_at(&[3_000_000, 2_000_000]), [Cause::Slowed]);
    }

    #[test]
    fn late_control_percentiles_are_distrusted() {
        let from = |n, late| judge_spin(&late_every(n, late), Round::default()).distrust_from;
        assert_eq!(from(1, 30_000).as_deref(), Some("p50"));
        assert_eq!(from(5, 30_000).as_deref(), Some("p90"));
        assert_eq!(from(20, 30_000).as_deref(), Some("p99"));
        assert_eq!(from(500, 30_000).as_deref(), Some("p99_9"));
        assert_eq!(from(1, 19_000), None, "as late as an interrupt makes it");
    }

    #[test]
    fn gaps_count_once() {
        let mut ticks = on_time();
        ticks[10..13].copy_from_slice(&[2_500_050, 1_500_050, 500_050]);
        let facts = judge_spin(&ticks, Round::default()).facts;
        assert_eq!(facts.spin_longest_gap_ns, Some(2_500_050));
        assert!((facts.spin_gaps.unwrap() - 0.0025).abs() < 1e-4, "{facts:?}");
    }

    #[test]
    fn gaps_end_with_their_ticks() {
        let mut ticks = on_time();
        ticks[10..13].copy_from_slice(&[2_500_050, 1_500_050, 500_050]);
        ticks[20] = MIN_GAP_NS;
        ticks[30] = MIN_GAP_NS + 1;
        let gaps: Vec<SpinGap> = spin_gaps(PERIOD_NS, &ticks).collect();
        let expected = [
            SpinGap { tick: 10, lost_ns: 2_500_050 },
            SpinGap { tick: 30, lost_ns: MIN_GAP_NS + 1 },
        ];
        assert_eq!(gaps, expected);
    }

    #[test]
    fn run_queue_time_replaces_control() {
        let mut tally = Tally::default();
        let round = Round { window_ns: Some(1_000), run_queue_ns: Some(200), ..Round::default() };
        tally.add("os-interval", PERIOD_NS, &round, &[9_000]);
        let fitness = Fitness::from_tally(&tally, None).unwrap();
        assert_eq!((fitness.verdict, causes(&fitness)), (Verdict::Unfit, vec![Cause::Busy]));
        assert_eq!((fitness.facts.spin_core, fitness.distrust_from), (None, None));
        assert_eq!(Fitness::from_tally(&Tally::default(), Some(2)), None, "nothing was measured");
    }

    #[test]
    fn outlier_rounds_are_uneven() {
        assert_eq!(uneven_share(&[9; 6]), None, "too few to have neighbours");
        assert_eq!(uneven_share(&[9; 20]), Some(0.0));
        let mut outlier = [9; 20];
        outlier[7] = 19;
        assert_eq!(uneven_share(&outlier), Some(0.05));
        // A machine that becomes slower permanently is not uneven.
        let step: Vec<i64> = (0..20).map(|i| if i < 10 { 9 } else { 30 }).collect();
        assert_eq!(uneven_share(&step), Some(0.0));
    }
}
