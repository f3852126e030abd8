//! Flight records of the monitor: keeps the last seconds before late ticks that break a limit.

mod builder;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use cli::units::format_exact_duration;
use engine::machine::os::{self, NotAvailable, Quota};
use engine::measure::late_tick_log::{AccountedTick, LateTickLog};
use engine::measure::why::hindsight::{Hindsight, LateLoop, PastConditions};
use tickmeter::read::FileId;

use self::builder::BuiltFlight;
use crate::meters::{MeterClocks, ReadMeter, late_ticks};
use crate::monitor::limits::Limit;
use crate::monitor::loop_id::LoopId;

/// Maximum number of records per interval.
const MAX_FLIGHTS: usize = 8;
/// Maximum size of the records of an interval, which are in memory until it ends.
const MAX_PENDING_BYTES: usize = 16_000_000;
/// Maximum number of late ticks of a loop that are kept.
const MAX_TICKS: usize = 256;

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
        let applying = || limits.iter().filter(|limit| limit.applies_to(loop_id));
        // A tick is missed if it is late by more than a period.
        let late_from = applying().map(|limit| limit.late_from().unwrap_or(loop_id.period()));
        let broken_from = applying().filter_map(Limit::broken_from).min();
        Some(Self { late_from: late_from.min()?, broken_from })
    }

    /// Returns whether a tick breaks a limit without others.
    fn breaks_alone(&self, lateness: Duration) -> bool {
        self.broken_from.is_some_and(|limit| lateness > limit)
    }

    /// Returns whether a tick is worth a record. If it cannot break a limit alone, it has to be
    /// later than those of the interval that were captured, so that a loop with many late ticks
    /// costs little.
    fn is_trigger(&self, lateness: Duration, highest: Duration) -> bool {
        self.breaks_alone(lateness) || (lateness > self.late_from && lateness > highest)
    }
}

/// Watches for late ticks, and keeps the time before them until the interval ends.
#[derive(Debug)]
pub struct FlightWatch {
    length: Duration,
    pub hindsight: Hindsight,
    quotas: Arc<[Quota]>,
    loops: BTreeMap<LoopId, RecentLoop>,
    /// Number of late ticks of all loops.
    late_ticks: u64,
    /// Number of the last known late tick of each meter of another program.
    seen: BTreeMap<FileId, u64>,
    trigger: Option<Trigger>,
    last_capture: Option<Instant>,
    pending: Vec<PendingFlight>,
    steal_ns: Option<u64>,
}

/// The last late ticks of a loop.
#[derive(Debug)]
struct RecentLoop {
    rule: LateRule,
    /// Threads of a probe, or processes of a meter.
    ids: Vec<u32>,
    ticks: VecDeque<AccountedTick>,
}

/// The late tick before which the time is kept.
#[derive(Clone, Debug)]
struct Trigger {
    loop_id: LoopId,
    tick: AccountedTick,
    /// Whether it breaks a limit without others.
    breaks_alone: bool,
}

impl Trigger {
    /// Returns the key by which ticks get records, the highest first: those that break a limit alone
    /// come before all others.
    fn severity(&self) -> (bool, Duration) {
        (self.breaks_alone, self.tick.lateness())
    }
}

/// A record that is written if a limit of one of its loops is broken.
#[derive(Debug)]
struct PendingFlight {
    trigger: Trigger,
    /// Loops with a late tick.
    loops: Vec<LoopId>,
    json: String,
}

impl FlightWatch {
    /// Returns the length of a flight record.
    pub fn length(&self) -> Duration {
        self.length
    }

    /// Starts recording. Returns the watch with a message about what it records.
    ///
    /// # Errors
    ///
    /// Returns the reason if nothing can be recorded. `has_probes` tells whether the monitor has
    /// threads of its own to record.
    pub fn open(length: Duration, has_probes: bool) -> Result<(Self, String), NotAvailable> {
        os::install_stop_handler();
        let (hindsight, missing) = match Hindsight::for_all_cpus(length) {
            Ok(hindsight) => (hindsight, None),
            Err(why) => {
                let hindsight = Hindsight::for_own_threads(length)?;
                if !has_probes && hindsight.stacks().is_err() {
                    return Err(why);
                }
                (hindsight, Some(why))
            }
        };
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
            steal_ns: os::steal_ns(),
        };
        Ok((watch, message))
    }

    /// Creates the log for the late ticks of a probe.
    pub fn new_log(&self, rule: LateRule) -> LateTickLog {
        LateTickLog::new(rule.late_from, Arc::clone(&self.quotas))
    }

    /// Adds the late ticks of a meter of another program since the last call. Without records of
    /// its threads, they are ignored.
    pub fn add_meter(
        &mut self,
        ReadMeter { id, snapshot, .. }: &ReadMeter,
        clocks: &MeterClocks,
        loop_id: &LoopId,
        rule: LateRule,
    ) {
        if self.hindsight.has_all_cpus() || self.hindsight.stacks().is_ok() {
            let newest = snapshot.late.last().map_or(0, |tick| tick.number);
            let seen = self.seen.insert(*id, newest).unwrap_or(0);
            let ticks = late_ticks(snapshot, clocks, seen, self.length);
            self.add_ticks(loop_id, rule, vec![snapshot.pid], ticks);
        }
    }

    /// Forgets the meters that no longer exist, and samples the programs of the others.
    pub fn retain_meters(&mut self, existing: &[ReadMeter]) {
        let programs = existing.iter().map(|meter| meter.snapshot.pid).collect();
        self.hindsight.watch_programs(&programs);
        self.seen.retain(|id, _| existing.iter().any(|meter| meter.id == *id));
    }

    /// Adds late ticks of a loop, with the threads of the probe or the process of the meter.
    pub fn add_ticks(
        &mut self,
        loop_id: &LoopId,
        rule: LateRule,
        ids: Vec<u32>,
        ticks: Vec<AccountedTick>,
    ) {
        if ticks.is_empty() {
            return;
        }
        let captured = self.pending.iter().filter(|pending| pending.trigger.loop_id == *loop_id);
        let highest =
            captured.map(|pending| pending.trigger.tick.lateness()).max().unwrap_or_default();
        let recent = self.loops.entry(loop_id.clone()).or_insert_with(|| RecentLoop {
            rule,
            ids: Vec::new(),
            ticks: VecDeque::new(),
        });
        recent.ids.extend(ids);
        recent.ids.sort_unstable();
        recent.ids.dedup();
        for mut tick in ticks {
            // Several meters may have one loop id, so their numbers are not unique.
            self.late_ticks += 1;
            tick.number = self.late_ticks;
            recent.ticks.push_back(tick);
            if rule.is_trigger(tick.lateness(), highest) {
                let breaks_alone = rule.breaks_alone(tick.lateness());
                let trigger = Trigger { loop_id: loop_id.clone(), tick, breaks_alone };
                if self.trigger.as_ref().is_none_or(|t| trigger.severity() > t.severity()) {
                    self.trigger = Some(trigger);
                }
            }
        }
        // Next to a tick that waits for its record, the ticks before it are kept, too.
        let newest = recent.ticks.len().saturating_sub(MAX_TICKS);
        let waiting =
            recent.ticks.iter().position(|tick| is_of_trigger(self.trigger.as_ref(), tick));
        let first = waiting.map_or(newest, |n| newest.min(n.saturating_sub(MAX_TICKS / 2)));
        recent.ticks.drain(..first);
        recent.ticks.truncate(MAX_TICKS);
    }

    /// Keeps the time before the worst tick since the last call, if it matters for a limit.
    ///
    /// Two records are at least their length apart, so that they do not contain the same time.
    /// Until then, the tick waits, unless the interval ends.
    #[allow(clippy::disallowed_methods, reason = "the age of late ticks")]
    pub fn capture(&mut self, interval_ends: bool) {
        let now = Instant::now();
        let steal_ns = self.update_steal();
        let is_too_early = self.last_capture.is_some_and(|last| now - last < self.length);
        if self.trigger.is_none() || (is_too_early && !interval_ends) {
            self.forget_old_ticks(now);
            return;
        }
        let has_capacity = self.pending.len() < MAX_FLIGHTS;
        let is_worse = |trigger: &Trigger| {
            self.pending.iter().any(|pending| trigger.severity() > pending.trigger.severity())
        };
        let trigger = self.trigger.take().filter(|trigger| has_capacity || is_worse(trigger));
        let Some(trigger) = trigger else { return };
        self.last_capture = Some(now);
        self.pending.extend(self.build_pending(trigger, steal_ns));
        self.drop_excess();
    }

    /// Drops the records of the least severe ticks if there are too many, or too large ones.
    fn drop_excess(&mut self) {
        let mut bytes: usize = self.pending.iter().map(|pending| pending.json.len()).sum();
        while self.pending.len() > MAX_FLIGHTS || bytes > MAX_PENDING_BYTES {
            let least = (0..self.pending.len()).min_by_key(|&i| self.pending[i].trigger.severity());
            bytes -= least.map_or(bytes, |least| self.pending.remove(least).json.len());
        }
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
            recent.ticks.retain(|tick| {
                is_of_trigger(self.trigger.as_ref(), tick)
                    || now.saturating_duration_since(tick.wake) <= max_age
            });
        }
        self.loops.retain(|_, recent| !recent.ticks.is_empty());
    }

    fn build_pending(&self, trigger: Trigger, steal_ns: u64) -> Option<PendingFlight> {
        // The loop of the trigger comes first.
        let mut loop_ids: Vec<&LoopId> = self.loops.keys().collect();
        loop_ids.sort_by_key(|loop_id| **loop_id != trigger.loop_id);
        let mut late_loops = Vec::with_capacity(loop_ids.len());
        for loop_id in loop_ids {
            let recent = &self.loops[loop_id];
            late_loops.push((loop_id, recent.since(loop_id, trigger.tick.wake, self.length)));
        }
        let conditions = PastConditions {
            steal_ns,
            quota_period_ns: self.quotas.iter().map(|quota| quota.period_ns).max(),
        };
        let loops_only = late_loops.iter().map(|(_, late_loop)| late_loop);
        let past = self.hindsight.look_back(loops_only, trigger.tick.wake, conditions)?;
        let limit = self.loops.get(&trigger.loop_id)?.rule.late_from;
        let BuiltFlight { json, loops } = builder::build(trigger.tick, limit, &late_loops, past);
        Some(PendingFlight { trigger, loops, json })
    }

    /// Ends the interval. Returns the records with a late tick of a loop that broke a limit, in
    /// order of time.
    pub fn close_interval(&mut self, breached: &[LoopId]) -> Vec<String> {
        let mut pending = std::mem::take(&mut self.pending);
        pending.retain(|pending| pending.loops.iter().any(|loop_id| breached.contains(loop_id)));
        pending.into_iter().map(|pending| pending.json).collect()
    }
}

/// Returns whether a tick is the one that waits for its record.
fn is_of_trigger(trigger: Option<&Trigger>, tick: &AccountedTick) -> bool {
    trigger.is_some_and(|trigger| trigger.tick.number == tick.number)
}

impl RecentLoop {
    /// Returns the late ticks of the recorded time and after it, with the threads that may have run
    /// them.
    fn since(&self, loop_id: &LoopId, origin: Instant, length: Duration) -> LateLoop {
        let from = origin.checked_sub(length);
        let is_recent = |tick: &&AccountedTick| from.is_none_or(|from| tick.wake >= from);
        let mut ticks: Vec<AccountedTick> = self.ticks.iter().filter(is_recent).copied().collect();
        ticks.sort_by_key(|tick| tick.wake);
        let is_own = matches!(loop_id, LoopId::Probe { .. });
        let threads = match is_own {
            true => self.ids.clone(),
            false => self
                .ids
                .iter()
                .flat_map(|&id| os::process_threads(id).unwrap_or_default())
                .collect(),
        };
        LateLoop { threads, is_own, ticks }
    }
}

/// Describes what is recorded and, if that is not everything, what would be needed for more.
fn describe_scope(
    length: Duration,
    hindsight: &Hindsight,
    missing: Option<&NotAvailable>,
) -> String {
    let length = format_exact_duration(length);
    let assumed = |is_measured| match is_measured {
        true => "",
        false => " (assumed, since it could not be measured)",
    };
    let stacks = match hindsight.stacks() {
        Ok(stacks) => {
            let (cost_ns, assumed) = (stacks.sample_ns(), assumed(stacks.is_cost_measured()));
            format!("; {cost_ns} ns per sampled stack of a metered program{assumed}")
        }
        Err(why) => format!("; the functions of metered programs are not known: {why}"),
    };
    match missing {
        None => {
            let megabytes = hindsight.memory_bytes() as f64 / 1e6;
            let cost_ns = hindsight.switch_cost_ns();
            let assumed = assumed(hindsight.is_cost_measured());
            format!(
                "flight records: the switches of all CPUs, last {length}, in {megabytes:.1} MB; {cost_ns} ns of CPU time per switch{assumed}{stacks}"
            )
        }
        Some(why) => format!(
            "flight records: only the switches of the probes and of metered programs, last {length}; other threads have no names: {why}{stacks}"
        ),
    }
}

#[cfg(test)]
mod tests;
