//! Flight records of the monitor: keeps the last seconds before late ticks that break a limit.

mod builder;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use cli::units::format_exact_duration;
use engine::machine::os::{self, NotAvailable, Quota};
use engine::measure::late_tick_log::{AccountedTick, LateTickLog};
use engine::measure::why::hindsight::{Hindsight, LateLoop, LateLoopTick, PastConditions};
use tickmeter::Snapshot;
use tickmeter::read::FileId;

use crate::monitor::accumulator::LoopId;
use crate::monitor::flight_watch::builder::FlightBuilder;
use crate::monitor::limits::Limit;

/// Maximum number of records per interval.
const MAX_FLIGHTS: usize = 8;
/// Maximum size of the records of an interval, which are in memory until it ends.
const MAX_PENDING_BYTES: usize = 16_000_000;
/// Maximum number of late ticks of a loop that are kept.
const MAX_TICKS: usize = 256;
/// Largest distance of a meter's last tick into the future that is not a step of the calendar clock.
const MAX_CLOCK_ERROR: Duration = Duration::from_millis(2);

/// Lateness from which a tick of a loop matters for its limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LateRule {
    /// Lateness from which a tick contributes to a breach.
    pub late_from: Duration,
    /// Lateness above which a single tick breaks a limit, if there is such a limit.
    pub broken_from: Option<Duration>,
}

impl LateRule {
    /// Returns the rule of a loop, or `None` if no limit applies to it.
    pub fn new(limits: &[Limit], loop_id: &LoopId) -> Option<Self> {
        let (LoopId::Probe { period_ns, .. } | LoopId::Meter { period_ns, .. }) = loop_id;
        let period = Duration::from_nanos(*period_ns);
        let applying = || limits.iter().filter(|limit| limit.applies_to(loop_id));
        // A tick is missed if it is late by more than a period.
        let late_from = applying().map(|limit| limit.late_from().unwrap_or(period)).min()?;
        Some(Self { late_from, broken_from: applying().filter_map(Limit::broken_from).min() })
    }
}

/// Counters and cost for the metrics.
#[derive(Clone, Copy, Debug)]
pub struct FlightCost {
    pub cpu_ns: u64,
    pub memory_bytes: u64,
}

/// Watches for late ticks, and keeps the time before them until the interval ends.
#[derive(Debug)]
pub struct FlightWatch {
    length: Duration,
    hindsight: Hindsight,
    quotas: Arc<[Quota]>,
    loops: BTreeMap<LoopId, RecentLoop>,
    /// Number of late ticks of all loops.
    late_ticks: u64,
    /// Number of the last known late tick of each meter of another program.
    seen: BTreeMap<FileId, u64>,
    trigger: Option<Trigger>,
    last_capture: Option<Instant>,
    pending: Vec<PendingFlight>,
    /// Largest lateness that was captured in this interval, for limits that one tick cannot break.
    highest: BTreeMap<LoopId, Duration>,
    steal_ns: Option<u64>,
    /// CPU time of recording by rings that are closed, and at the start of the interval.
    closed_cpu_ns: u64,
    interval_cpu_ns: u64,
}

/// The last late ticks of a loop.
#[derive(Debug)]
struct RecentLoop {
    rule: LateRule,
    is_own: bool,
    /// Threads of a probe, or processes of a meter.
    ids: BTreeSet<u32>,
    ticks: VecDeque<LateLoopTick>,
}

/// The late tick before which the time is kept.
#[derive(Clone, Debug)]
struct Trigger {
    loop_id: LoopId,
    tick: LateLoopTick,
}

impl Trigger {
    fn lateness(&self) -> Duration {
        self.tick.wake.saturating_duration_since(self.tick.due)
    }
}

/// A record that is written if a limit of one of its loops is broken.
#[derive(Debug)]
struct PendingFlight {
    loops: BTreeSet<LoopId>,
    lateness: Duration,
    json: String,
}

impl FlightWatch {
    /// Starts recording. Returns the watch with a message about what it records.
    ///
    /// # Errors
    ///
    /// Returns the reason if nothing can be recorded. `has_probes` tells whether the monitor has
    /// threads of its own to record.
    pub fn open(length: Duration, has_probes: bool) -> Result<(Self, String), String> {
        os::install_stop_handler();
        let opened = match Hindsight::for_all_cpus(length) {
            Ok(hindsight) => Ok((hindsight, None)),
            Err(why) if has_probes => {
                Hindsight::for_own_threads(length).map(|hindsight| (hindsight, Some(why)))
            }
            Err(why) => Err(why),
        };
        let (hindsight, missing) = opened.map_err(|why| why.to_string())?;
        let message = describe_scope(length, &hindsight, missing.as_ref());
        let watch = Self {
            length,
            hindsight,
            quotas: os::quotas().into(),
            loops: BTreeMap::new(),
            late_ticks: 0,
            seen: BTreeMap::new(),
            trigger: None,
            last_capture: None,
            pending: Vec::new(),
            highest: BTreeMap::new(),
            steal_ns: os::steal_ns(),
            closed_cpu_ns: 0,
            interval_cpu_ns: 0,
        };
        Ok((watch, message))
    }

    /// Creates the log for the late ticks of a probe.
    pub fn new_log(&self, rule: LateRule) -> LateTickLog {
        LateTickLog::new(rule.late_from, Arc::clone(&self.quotas))
    }

    /// Selects the threads of all probes for recording.
    pub fn watch_threads(&mut self, threads: &BTreeSet<u32>) {
        self.hindsight.watch_threads(threads);
    }

    /// Adds late ticks of a probe.
    pub fn add_probe_ticks(
        &mut self,
        loop_id: &LoopId,
        rule: LateRule,
        threads: Vec<u32>,
        ticks: Vec<AccountedTick>,
    ) {
        let ticks = ticks.into_iter().map(|tick| LateLoopTick {
            number: tick.number,
            due: tick.due,
            wake: tick.wake,
            accounts: tick.accounts,
        });
        self.add_ticks(loop_id, rule, true, threads, ticks.collect());
    }

    /// Adds the late ticks of a meter of another program since the last call. Without records of all
    /// CPUs, they are ignored.
    #[allow(clippy::disallowed_methods, reason = "converts calendar times")]
    pub fn add_meter(&mut self, id: FileId, snapshot: &Snapshot, loop_id: &LoopId, rule: LateRule) {
        if !self.hindsight.records_all_cpus() {
            return;
        }
        let newest = snapshot.late.last().map_or(0, |tick| tick.number);
        let seen = self.seen.insert(id, newest).unwrap_or(0);
        let (now, system_now) = (Instant::now(), SystemTime::now());
        let age_at = |at: Duration| {
            let came = snapshot.registered.checked_add(at)?;
            system_now
                .duration_since(came)
                .or_else(|early| {
                    let is_small = early.duration() <= MAX_CLOCK_ERROR;
                    if is_small { Ok(Duration::ZERO) } else { Err(early) }
                })
                .ok()
        };
        // If the last tick is in the future, the calendar clock was set back since registration.
        if age_at(snapshot.last_tick).is_none() {
            return;
        }
        let mut ticks = Vec::new();
        for tick in snapshot.late.iter().filter(|tick| tick.number > seen) {
            let wake = age_at(tick.at).and_then(|age| now.checked_sub(age));
            let Some(wake) = wake.filter(|&wake| now - wake <= self.length) else { continue };
            let Some(due) = wake.checked_sub(tick.lateness) else { continue };
            ticks.push(LateLoopTick { number: tick.number, due, wake, accounts: None });
        }
        self.add_ticks(loop_id, rule, false, vec![snapshot.pid], ticks);
    }

    /// Forgets the meters that no longer exist.
    pub fn retain_meters(&mut self, existing: &BTreeSet<FileId>) {
        self.seen.retain(|id, _| existing.contains(id));
    }

    fn add_ticks(
        &mut self,
        loop_id: &LoopId,
        rule: LateRule,
        is_own: bool,
        ids: Vec<u32>,
        ticks: Vec<LateLoopTick>,
    ) {
        if ticks.is_empty() {
            return;
        }
        let recent = self.loops.entry(loop_id.clone()).or_insert_with(|| RecentLoop {
            rule,
            is_own,
            ids: BTreeSet::new(),
            ticks: VecDeque::new(),
        });
        recent.ids.extend(ids);
        for mut tick in ticks {
            // Several meters may have one loop id, so their numbers are not unique.
            self.late_ticks += 1;
            tick.number = self.late_ticks;
            recent.ticks.push_back(tick);
            let candidate = Trigger { loop_id: loop_id.clone(), tick };
            let highest = self.highest.get(loop_id).copied().unwrap_or_default();
            let is_later =
                self.trigger.as_ref().is_none_or(|t| candidate.lateness() > t.lateness());
            if is_later && rule.is_trigger(candidate.lateness(), highest) {
                self.trigger = Some(candidate);
            }
        }
        let excess = recent.ticks.len().saturating_sub(MAX_TICKS);
        recent.ticks.drain(..excess);
    }

    /// Keeps the time before the latest tick since the last call, if it matters for a limit.
    ///
    /// Two records are at least their length apart, so that they do not contain the same time. Until
    /// then, the tick waits, unless the interval ends.
    #[allow(clippy::disallowed_methods, reason = "the age of late ticks")]
    pub fn capture(&mut self, interval_ends: bool) {
        let now = Instant::now();
        let steal_ns = self.update_steal();
        let is_too_early = self.last_capture.is_some_and(|last| now - last < self.length);
        if self.trigger.is_none() || (is_too_early && !interval_ends) {
            self.forget_old_ticks(now);
            return;
        }
        let Some(trigger) = self.trigger.take().filter(|trigger| self.has_room(trigger)) else {
            return;
        };
        self.last_capture = Some(now);
        self.highest.insert(trigger.loop_id.clone(), trigger.lateness());
        if let Some(pending) = self.build_pending(&trigger, steal_ns) {
            self.pending.push(pending);
        }
        let pending_bytes = |pending: &[PendingFlight]| -> usize {
            pending.iter().map(|pending| pending.json.len()).sum()
        };
        while pending_bytes(&self.pending) > MAX_PENDING_BYTES {
            self.drop_least_late(Duration::MAX);
        }
    }

    /// Drops the record with the least late tick, if that is below a lateness. Returns whether there
    /// was one.
    fn drop_least_late(&mut self, below: Duration) -> bool {
        let least = (0..self.pending.len()).min_by_key(|&i| self.pending[i].lateness);
        let least = least.filter(|&i| self.pending[i].lateness < below);
        least.map(|i| self.pending.remove(i)).is_some()
    }

    /// Returns the time that the hypervisor took since the last call.
    fn update_steal(&mut self) -> u64 {
        let now = os::steal_ns();
        let before = std::mem::replace(&mut self.steal_ns, now);
        now.zip(before).map_or(0, |(now, before)| now.saturating_sub(before))
    }

    /// Forgets ticks that no later record will contain.
    fn forget_old_ticks(&mut self, now: Instant) {
        let max_age = self.length.saturating_mul(2);
        for recent in self.loops.values_mut() {
            let is_old = |tick: &LateLoopTick| now.saturating_duration_since(tick.wake) > max_age;
            while recent.ticks.front().is_some_and(is_old) {
                recent.ticks.pop_front();
            }
        }
        self.loops.retain(|_, recent| !recent.ticks.is_empty());
    }

    /// Returns whether a further record can be kept. Drops the one with the least late tick if the
    /// new one is later.
    fn has_room(&mut self, trigger: &Trigger) -> bool {
        self.pending.len() < MAX_FLIGHTS || self.drop_least_late(trigger.lateness())
    }

    fn build_pending(&self, trigger: &Trigger, steal_ns: u64) -> Option<PendingFlight> {
        // The loop of the trigger comes first.
        let mut loops: Vec<(&LoopId, &RecentLoop)> = self.loops.iter().collect();
        loops.sort_by_key(|(loop_id, _)| **loop_id != trigger.loop_id);
        let late_loops: Vec<LateLoop> =
            loops.iter().map(|(_, recent)| recent.since(trigger.tick.wake, self.length)).collect();
        let conditions = PastConditions {
            steal_ns,
            quota_period_ns: self.quotas.iter().map(|quota| quota.period_ns).max(),
        };
        let past = self.hindsight.look_back(&late_loops, trigger.tick.wake, conditions)?;
        let mut builder = FlightBuilder::new(trigger.loop_id.name(), trigger.tick, past);
        for ((loop_id, _), late_loop) in loops.iter().zip(&late_loops) {
            builder.add_loop(loop_id, late_loop);
        }
        let rule = self.loops.get(&trigger.loop_id)?.rule;
        let breaking = loops.iter().zip(&late_loops).filter(|(_, late)| !late.ticks.is_empty());
        Some(PendingFlight {
            loops: breaking.map(|((loop_id, _), _)| (*loop_id).clone()).collect(),
            lateness: trigger.lateness(),
            json: builder.finish(rule.late_from),
        })
    }

    /// Ends the interval. Returns the records with a late tick of a loop that broke a limit, in order
    /// of time.
    pub fn close_interval(&mut self, breached: &BTreeSet<LoopId>) -> Vec<String> {
        self.highest.clear();
        let mut flights = Vec::new();
        for pending in std::mem::take(&mut self.pending) {
            if !pending.loops.is_disjoint(breached) {
                flights.push(pending.json);
            }
        }
        flights
    }

    /// Returns the CPU time that recording has cost since the last call.
    pub fn take_interval_cpu_ns(&mut self) -> u64 {
        let now_ns = self.cost().cpu_ns;
        now_ns.saturating_sub(std::mem::replace(&mut self.interval_cpu_ns, now_ns))
    }

    /// Returns the cost of recording since the start.
    pub fn cost(&self) -> FlightCost {
        FlightCost {
            cpu_ns: self.closed_cpu_ns.saturating_add(self.hindsight.cpu_ns()),
            memory_bytes: self.hindsight.memory_bytes(),
        }
    }

    /// Records only the threads of the probes from now on. Returns whether this costs less.
    pub fn reduce_scope(&mut self) -> bool {
        if !self.hindsight.records_all_cpus() {
            return false;
        }
        let Ok(reduced) = Hindsight::for_own_threads(self.length) else { return false };
        self.closed_cpu_ns = self.cost().cpu_ns;
        self.hindsight = reduced;
        true
    }
}

impl LateRule {
    /// Returns whether a tick is worth a record. If it cannot break a limit alone, it has to be later
    /// than those of the interval that were captured, so that a loop with many late ticks costs
    /// little.
    fn is_trigger(&self, lateness: Duration, highest: Duration) -> bool {
        let breaks_alone = self.broken_from.is_some_and(|limit| lateness > limit);
        breaks_alone || (lateness > self.late_from && lateness > highest)
    }
}

impl RecentLoop {
    /// Returns the late ticks of the recorded time and after it, with the threads that may have run
    /// them.
    fn since(&self, origin: Instant, length: Duration) -> LateLoop {
        let from = origin.checked_sub(length);
        let is_recent = |tick: &&LateLoopTick| from.is_none_or(|from| tick.wake >= from);
        let mut ticks: Vec<LateLoopTick> = self.ticks.iter().filter(is_recent).copied().collect();
        ticks.sort_by_key(|tick| tick.wake);
        let threads = match self.is_own {
            true => self.ids.iter().copied().collect(),
            false => self.ids.iter().flat_map(|&id| os::process_threads(id)).collect(),
        };
        LateLoop { threads, is_own: self.is_own, ticks }
    }
}

/// Describes what is recorded and, if that is not everything, what would be needed for more.
fn describe_scope(
    length: Duration,
    hindsight: &Hindsight,
    missing: Option<&NotAvailable>,
) -> String {
    let length = format_exact_duration(length);
    match missing {
        None => {
            let megabytes = hindsight.memory_bytes() as f64 / 1e6;
            let cost_ns = hindsight.switch_cost_ns();
            format!(
                "flight records: the switches of all CPUs, last {length}, in {megabytes:.1} MB; {cost_ns} ns of CPU time per switch"
            )
        }
        Some(why) => format!(
            "flight records: only the switches of the probes, last {length}; other threads have no names and metered programs no records: {why}"
        ),
    }
}

#[cfg(test)]
mod tests;
