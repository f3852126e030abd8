//! The functions that ran while the last late ticks of metered loops were late.

use std::collections::BTreeMap;
use std::time::Duration;

use cli::units::to_ns;
use engine::machine::os;
use engine::measure::why::hindsight::{Hindsight, LateLoop, PastConditions};
use files::report::why::LateCode;
use files::why::stacks::find_late_code;
use tickmeter::Snapshot;
use tickmeter::read::FileId;

use crate::meters::{MeterClocks, ReadMeter, late_ticks};

/// Maximum age of a tick whose function is looked for: more than the time between two polls.
const MAX_AGE: Duration = Duration::from_secs(5);

/// A late tick with the function that ran meanwhile.
#[derive(Clone, Debug, PartialEq)]
pub struct LateFunction {
    pub lateness: Duration,
    pub code: LateCode,
}

/// Samples the stacks of metered programs, and reads the samples only after late ticks.
#[derive(Debug)]
pub struct LateFunctions {
    hindsight: Hindsight,
    /// Number of the last late tick of each meter at the previous poll.
    seen: BTreeMap<FileId, u64>,
}

impl LateFunctions {
    /// Starts sampling; `None` if the kernel or a sandbox forbids it.
    pub fn open() -> Option<Self> {
        let hindsight = Hindsight::for_own_threads(MAX_AGE).ok()?;
        let is_sampling = hindsight.stacks().is_ok();
        is_sampling.then_some(Self { hindsight, seen: BTreeMap::new() })
    }

    /// Returns the functions of the last late ticks since the previous poll, and samples the
    /// programs of these meters from now on.
    pub fn record_poll(&mut self, meters: &[ReadMeter]) -> Vec<(FileId, LateFunction)> {
        let mut found = Vec::new();
        let clocks = MeterClocks::read();
        for ReadMeter { id, snapshot, .. } in meters {
            let newest = snapshot.late.last().map_or(0, |tick| tick.number);
            // Before its first poll, the program was not sampled.
            if let Some(seen) = self.seen.insert(*id, newest) {
                found.extend(self.find(snapshot, &clocks, seen).map(|function| (*id, function)));
            }
        }
        self.seen.retain(|id, _| meters.iter().any(|meter| meter.id == *id));
        self.hindsight.watch_programs(&meters.iter().map(|meter| meter.snapshot.pid).collect());
        found
    }

    /// Returns the function of the last late tick after the one with the number `seen` that has
    /// one.
    fn find(&self, snapshot: &Snapshot, clocks: &MeterClocks, seen: u64) -> Option<LateFunction> {
        let ticks = late_ticks(snapshot, clocks, seen, MAX_AGE);
        let origin = ticks.last()?.wake;
        let threads = os::process_threads(snapshot.pid).ok()?;
        let late_loop = LateLoop { threads, is_own: false, ticks };
        let loops = std::iter::once(&late_loop);
        let past = self.hindsight.look_back(loops, origin, PastConditions::default())?;
        let explained = &past.loops.first()?.ticks;
        late_loop.ticks.iter().rev().find_map(|tick| {
            let cause = explained.iter().find(|cause| cause.tick == tick.number)?;
            let lateness = tick.lateness();
            let code = find_late_code(&cause.stacks, to_ns(lateness), os::SAMPLE_INTERVAL_NS)?;
            Some(LateFunction { lateness, code })
        })
    }
}
