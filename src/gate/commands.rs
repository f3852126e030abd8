//! Both sides are programs of the user's own, started anew for each round.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use jitterstat::stats::random::SplitMix64;

use crate::gate::plan::Comparison;
use crate::gate::session::Session;
use crate::machine::os;
use crate::measure::child::{self, NotMeasured, Program, ProgramRound};

/// Runs pairs until the session knows enough or was interrupted.
pub fn run(programs: [&Program; 2], planned: &Comparison, stop: &Arc<AtomicBool>, session: &mut Session<'_>) {
    let mut random = SplitMix64::new(planned.plan.seed);
    let round = ProgramRound {
        period: planned.period(),
        ticks: planned.plan.round_ticks,
        warmup: planned.plan.warmup_ticks,
        limit: planned.round_limit,
    };
    for index in 0.. {
        let order = if random.coin() { [0, 1] } else { [1, 0] };
        for side in order {
            session.show(programs[side].text(), index);
            let before = os::steal_ns();
            match child::measure(programs[side], round, stop) {
                Ok(lateness_ns) => {
                    let steal_ns = os::steal_ns().zip(before).map(|(now, then)| now.saturating_sub(then));
                    session.add(side, (0..).zip(lateness_ns), steal_ns);
                }
                Err(NotMeasured::Interrupted) => return,
                Err(NotMeasured::Failed(why)) => session.fail(why),
            }
            if session.is_over() {
                return;
            }
        }
    }
}
