//! A program of the user's, asked from outside why its ticks are late: the switches of its threads,
//! which the kernel records, are held against the times that it wrote itself.

use std::collections::{BTreeMap, HashMap};
use std::sync::PoisonError;
use std::time::Duration;

use files::report::why::{Evidence, Missing, Tier};
use files::why::external_process::{self, CpuOccupants, WatchedThread};
use files::why::pool::{ProfiledRound, ProfiledTick};
use files::why::{self, RoundConditions, Standstill, Thread, Wakeup};
use jitterstat::sample::Grid;
use jitterstat::series;

use crate::machine::os::{self, DrainedSwitches, NotAvailable, SwitchRing};
use crate::measure::program_output::ProgramRound;
use crate::measure::why::kernel::Kernel;
use crate::measure::why::witness::Witnesses;
use crate::measure::why::{MAX_PATH_NS, Profiler, RoundDiagnosis, beside, name, occupants};

/// Fewer of its ticks at times at which one of its threads ran: these are not the times.
const MIN_PLACED: f64 = 0.9;

/// Watches the next program that this thread starts.
pub struct ProgramProfiler<'a> {
    session: &'a Profiler,
    rings: Result<Vec<SwitchRing>, NotAvailable>,
    witnesses: Option<Witnesses>,
}

/// A round of the program, after its end.
#[derive(Debug)]
pub struct FinishedProgram<'a> {
    pub index: u64,
    pub grid: Grid,
    /// What it is called.
    pub name: &'a str,
    /// Series, start and length of the run. They come from one place because the times in the
    /// series are checked against the other two, and two readings of the start can be far apart on
    /// a busy machine.
    pub written: &'a ProgramRound,
    pub steal_ns: Option<u64>,
}

impl<'a> ProgramProfiler<'a> {
    pub fn begin(session: &'a Profiler, period: Duration) -> Self {
        // Before the rings: what this thread starts from there on is taken for the program's.
        let witnesses = Some(Witnesses::begin(period));
        let cpus = os::affinity().unwrap_or_else(|| vec![0]);
        let rings = cpus.into_iter().map(SwitchRing::for_started_programs).collect();
        let watching = Self { session, rings, witnesses };
        watching.record(true);
        watching
    }

    fn record(&self, on: bool) {
        self.session.record(on);
        self.session.chains.record(on);
    }

    /// Takes the lateness of every tick of the round apart, as far as it can be seen from outside.
    ///
    /// # Errors
    /// Of this round, switches were lost.
    pub fn answer(mut self, round: &FinishedProgram<'_>) -> Result<RoundDiagnosis, String> {
        self.record(false);
        let standstills =
            self.witnesses.take().and_then(|witnesses| witnesses.end(round.written.started));
        let drained: Vec<DrainedSwitches> =
            self.rings.iter_mut().flatten().map(SwitchRing::drain).collect();
        if drained.iter().any(|d| d.lost > 0) {
            return Err("the kernel's buffer was too small: switches were lost".to_owned());
        }
        Ok(self
            .explained(&drained, standstills, round)
            .unwrap_or_else(|why| RoundDiagnosis::none(round.index, &why)))
    }

    fn explained(
        &self,
        drained: &[DrainedSwitches],
        standstills: Option<Vec<Standstill>>,
        round: &FinishedProgram<'_>,
    ) -> Result<RoundDiagnosis, String> {
        self.rings.as_ref().map_err(NotAvailable::to_string)?;
        let kernel =
            Kernel::new(round.written.started).ok_or("the kernel's clock cannot be read")?;
        let threads = threads(drained, &kernel);
        let ids: Vec<Option<u32>> = threads.iter().map(|thread| Some(thread.id)).collect();
        let (wakeups, why_no_chains) = match self.session.chains.wakeups(&ids, &kernel) {
            Ok(wakeups) => (Some(wakeups), None),
            Err(why) => (None, Some(why)),
        };
        let times = round.written.series.wake_ns.as_ref().ok_or_else(|| {
            format!(
                "it writes no time beside its lateness, for which {}={} asks",
                series::ENV_TIMES,
                series::TIMES_MONOTONIC
            )
        })?;
        let ticks: Vec<(i64, i64)> = times
            .iter()
            .zip(&round.written.series.lateness_ns)
            .map(|(&at_ns, late_ns)| (kernel.ns(at_ns).saturating_sub(*late_ns), kernel.ns(at_ns)))
            .collect();
        let wall = 0..=i64::try_from(round.written.wall.as_nanos()).unwrap_or(i64::MAX);
        if !ticks.iter().all(|(_, wake_ns)| wall.contains(wake_ns)) {
            return Err(
                "the times that it writes are not of CLOCK_MONOTONIC while it ran".to_owned()
            );
        }
        let (given, why_no_names) = match &self.session.cpus {
            Err(why) => (None, Some(why.to_string())),
            Ok(rings) => {
                match occupants(&mut rings.lock().unwrap_or_else(PoisonError::into_inner), &kernel)
                {
                    Some(given) => (Some(given), None),
                    None => (
                        None,
                        Some(
                            "the kernel's buffer was too small: switches of others were lost"
                                .to_owned(),
                        ),
                    ),
                }
            }
        };
        let waited_ns = round.written.series.waited_ns.as_deref();
        let seen =
            external_process::reconstruct(&ticks, waited_ns, &threads, given.as_ref(), MAX_PATH_NS);
        if (seen.placed as f64) < MIN_PLACED * ticks.len() as f64 {
            return Err(
                "none of its threads was seen to run at the times that it writes".to_owned()
            );
        }
        let mut names: HashMap<u32, String> =
            threads.iter().map(|t| (t.id, round.name.to_owned())).collect();
        names.extend(drained.iter().flat_map(|d| d.names.iter().cloned()));
        // The better tier has what is in the lesser.
        let wakeups = wakeups.filter(|_| given.is_some());
        let facts = RoundConditions {
            path_ns: seen.way_ns,
            steal_ns: round.steal_ns.unwrap_or(0),
            standstills: beside(standstills.clone().unwrap_or_default(), given.as_ref()),
            ..RoundConditions::default()
        };
        let standstill_ns = standstills.map(|_| facts.standstill_ns());
        let asked = asked(
            round.grid.first_tick,
            &facts,
            &seen,
            given.as_ref(),
            wakeups.as_deref(),
            &mut names,
        );
        let tier = match (&given, &wakeups) {
            (None, _) => Tier::A2,
            (Some(_), None) => Tier::B1,
            (Some(_), Some(_)) => Tier::B2,
        };
        let no_names = why_no_names.map(|reason| Missing {
            tier: Tier::B1,
            reason: match waited_ns {
                Some(_) => reason,
                None => format!(
                    "{reason}. Without it, or the time that the program says its thread waited, waiting for a CPU \
                                 cannot be told from what is below the thread"
                ),
            },
        });
        let missing = no_names.or(why_no_chains.map(|reason| Missing { tier: Tier::B2, reason }));
        let mut ran: Vec<usize> = seen.ticks.iter().map(|tick| tick.thread).collect();
        ran.sort_unstable();
        ran.dedup();
        let threads = ran.len() as u64;
        let evidence =
            Evidence { steal_ns: round.steal_ns, standstill_ns, threads, ..Evidence::default() };
        let known = why::MeasurableParts::default();
        let round = ProfiledRound {
            index: round.index,
            ticks: asked,
            tier: Some(tier),
            known,
            evidence,
            ..ProfiledRound::default()
        };
        let threads = ran
            .into_iter()
            .filter_map(|place| seen.threads.get(place).cloned())
            .collect::<Vec<Thread>>();
        Ok(RoundDiagnosis { round, missing, threads, occupants: given.unwrap_or_default() })
    }
}

/// Also where a program failed, so that nobody was asked for an answer: what comes next is not to
/// be recorded at its own cost.
impl Drop for ProgramProfiler<'_> {
    fn drop(&mut self) {
        self.record(false);
    }
}

/// The threads that were seen, each with its switches in order of time.
fn threads(drained: &[DrainedSwitches], kernel: &Kernel) -> Vec<WatchedThread> {
    let mut all: BTreeMap<u32, Vec<why::Switch>> = BTreeMap::new();
    for record in drained.iter().flat_map(|d| &d.switches) {
        all.entry(record.thread).or_default().push(kernel.switch(record));
    }
    let in_order = |(id, mut switches): (u32, Vec<why::Switch>)| {
        // It may have been on several CPUs, each of which has a ring.
        switches.sort_by_key(|switch| switch.at_ns);
        WatchedThread { id, switches }
    };
    all.into_iter().map(in_order).collect()
}

fn asked(
    first_tick: u64,
    facts: &RoundConditions,
    seen: &external_process::ReconstructedRound,
    given: Option<&CpuOccupants>,
    wakeups: Option<&[Vec<Wakeup>]>,
    names: &mut HashMap<u32, String>,
) -> Vec<ProfiledTick> {
    // When its runtime came back is not seen from outside: what is taken for it is no station of
    // the way.
    let unstamped = wakeups.map(|wakeups| {
        let mut threads = seen.threads.clone();
        threads
            .iter_mut()
            .flat_map(|thread| &mut thread.cycles)
            .for_each(|cycle| cycle.unpark_ns = None);
        (threads, wakeups)
    });
    let way = |of: &why::Tick, explained: &why::Breakdown| {
        let (threads, wakeups) = unstamped.as_ref()?;
        Some(why::trace_wakeup(of, threads.get(of.thread)?, wakeups.get(of.thread)?, explained))
    };
    let explained = why::explain(&seen.ticks, &seen.threads, facts);
    let tick = |((tick, of), explained): ((u64, &why::Tick), why::Breakdown)| {
        let mut behind: HashMap<String, u64> = HashMap::new();
        for queued in &explained.queued {
            let switches =
                given.and_then(|given| given.get(&queued.cpu)).map_or(&[][..], Vec::as_slice);
            for (thread, ns) in why::occupants_during(queued, switches) {
                *behind.entry(name(names, thread)).or_default() += ns;
            }
        }
        ProfiledTick {
            instance: 0,
            tick,
            deadline_ns: of.deadline_ns,
            wake_ns: of.wake_ns,
            way: way(of, &explained),
            parts: explained.parts,
            behind: behind.into_iter().collect(),
        }
    };
    (first_tick..).zip(&seen.ticks).zip(explained).map(tick).collect()
}
