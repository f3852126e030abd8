//! The pairs of one comparison so far, and the looks at them.

use std::time::Duration;

use jitterstat::gate::look::{self, Look, Outcome, Reason};
use jitterstat::gate::round::{Pair, RoundValue};
use jitterstat::gate::verdict::{self, Side};
use jitterstat::summary;

use crate::gate::plan::Comparison;
use crate::terminal;

/// A comparison under way.
pub struct Session<'a> {
    planned: &'a Comparison,
    progress: terminal::Progress,
    pairs: Vec<Pair>,
    /// The round of a side whose partner is still to come.
    open: [Option<RoundValue>; 2],
    met: Met,
    last: Option<Look>,
    looks_taken: u64,
    decided: bool,
    failure: Option<String>,
}

impl<'a> Session<'a> {
    pub fn new(planned: &'a Comparison, quiet: bool) -> Self {
        Self {
            planned,
            progress: terminal::Progress::new(planned.most_pairs(), quiet),
            pairs: Vec::new(),
            open: [None; 2],
            met: Met::default(),
            last: None,
            looks_taken: 0,
            decided: false,
            failure: None,
        }
    }

    /// Decided, or unable to go on.
    pub fn is_over(&self) -> bool {
        self.decided || self.failure.is_some()
    }

    /// Names the round that runs next.
    pub fn show(&self, name: &str, index: u64) {
        self.progress.show(name, index);
    }

    /// Takes the round of a side (0 is A) as pairs of tick and lateness; looks if a look is due.
    pub fn add(&mut self, side: usize, ticks: impl IntoIterator<Item = (u64, i64)>, steal_ns: Option<u64>) {
        let planned = self.planned;
        let all = &mut self.met.lateness_ns[side];
        let ticks = ticks.into_iter().inspect(|(_, lateness)| all.push(*lateness));
        let value = RoundValue::of_ticks(ticks, planned.plan.period_ns, planned.tail(), planned.resolution_ns);
        let Some(value) = value else { return self.fail("a round delivered no tick".to_owned()) };
        self.open[side] = Some(value);
        let stolen = &mut self.met.steal_ns[side];
        *stolen = stolen.zip(steal_ns).map(|(sum, more)| sum + more);
        let [Some(a), Some(b)] = self.open else { return };
        self.open = [None; 2];
        self.pairs.push(Pair { a, b });
        self.progress.step();
        let looks = &planned.rules.looks;
        if let Some(which) = looks.iter().position(|&n| n == self.pairs.len()) {
            let last = which + 1 == looks.len();
            let look = look::look(&self.pairs, &planned.rules, last);
            (self.last, self.looks_taken) = (Some(look), which as u64 + 1);
            self.decided = last || look.outcome != Outcome::Inconclusive;
        }
    }

    /// Gives up.
    pub fn fail(&mut self, why: String) {
        self.failure = Some(why);
    }

    /// What it came to on a machine of so many CPUs, and why it could not go on if it could not.
    pub fn end(self, duration: Duration, cpus: f64) -> (verdict::Comparison, Option<String>) {
        self.progress.finish();
        let planned = self.planned;
        // Without a planned look there is no verdict, only what the pairs look like.
        let look = self.last.filter(|_| self.decided);
        let outcome = look.map_or(Outcome::Inconclusive, |l| l.outcome);
        let shown = look.or_else(|| (!self.pairs.is_empty()).then(|| look::look(&self.pairs, &planned.rules, false)));
        let mut metrics = shown.map_or_else(Vec::new, |l| verdict::metrics(&l, planned.tail()));
        let reason = match look {
            Some(look) if outcome == Outcome::Inconclusive => {
                [look.median.reason, look.tail.reason].into_iter().flatten().next()
            }
            Some(_) => None,
            None => {
                let why = if self.failure.is_some() { Reason::NotMeasured } else { Reason::Interrupted };
                metrics.iter_mut().for_each(|m| (m.verdict, m.reason) = (Outcome::Inconclusive, Some(why)));
                Some(why)
            }
        };
        let [a, b] = planned.names.clone();
        let comparison = verdict::Comparison {
            a,
            b,
            mode: planned.mode,
            duration_ns: u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX),
            verdict: outcome,
            reason,
            plan: planned.plan.clone(),
            pairs: self.pairs.len() as u64,
            looks_taken: self.looks_taken,
            metrics,
            sides: sides(&self.pairs, &self.met, &planned.plan, cpus),
            rounds: verdict::records(&self.pairs),
        };
        (comparison, self.failure)
    }
}

/// What each side met in all of its rounds.
#[derive(Clone, Debug)]
pub struct Met {
    /// Lateness of every tick.
    pub lateness_ns: [Vec<i64>; 2],
    /// What the hypervisor took, where the platform tells.
    pub steal_ns: [Option<u64>; 2],
}

impl Default for Met {
    fn default() -> Self {
        Self { lateness_ns: [Vec::new(), Vec::new()], steal_ns: [Some(0); 2] }
    }
}

/// What each side met, as the verdict tells it.
pub fn sides(pairs: &[Pair], met: &Met, plan: &verdict::GatePlan, cpus: f64) -> Vec<Side> {
    let round_ns = plan.period_ns as f64 * (plan.round_ticks + plan.warmup_ticks) as f64;
    let side = |which: usize, name: &str| {
        let of = |p: &Pair| if which == 0 { p.a } else { p.b };
        let all: usize = pairs.iter().map(|p| of(p).kept + of(p).same_stall).sum();
        let stalled: usize = pairs.iter().map(|p| of(p).same_stall).sum();
        let steal = met.steal_ns[which].filter(|_| !pairs.is_empty());
        Side {
            side: name.to_owned(),
            same_stall_share: stalled as f64 / all.max(1) as f64,
            lateness_ns: summary::distribution(&[met.lateness_ns[which].as_slice()]),
            steal_share: steal.map(|ns| ns as f64 / (round_ns * pairs.len() as f64 * cpus)),
        }
    };
    vec![side(0, "a"), side(1, "b")]
}
