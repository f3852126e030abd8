//! Both sides are programs of the user's own, started anew for each round.

use std::sync::Arc;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::gate::plan::Comparison;
use crate::gate::session::Session;
use crate::machine::os;
use crate::measure::child::{self, Ask, Ended, Program};
use crate::measure::round::Shared;

/// Runs pairs until the session knows enough or was interrupted.
pub fn run(programs: [&Program; 2], planned: &Comparison, shared: &Arc<Shared>, session: &mut Session<'_>) {
    let mut random = SmallRng::seed_from_u64(planned.plan.seed);
    let ask = Ask {
        period: planned.period(),
        ticks: planned.plan.round_ticks,
        warmup: planned.plan.warmup_ticks,
        limit: planned.round_limit,
    };
    for index in 0.. {
        let order = if random.random::<bool>() { [0, 1] } else { [1, 0] };
        for side in order {
            session.show(programs[side].text(), index);
            let before = os::steal_ns();
            match child::round(programs[side], ask, &shared.stop) {
                Ok(lateness_ns) => {
                    let steal_ns = os::steal_ns().zip(before).map(|(now, then)| now.saturating_sub(then));
                    session.add(side, (0..).zip(lateness_ns), steal_ns);
                }
                Err(Ended::Interrupted) => return,
                Err(Ended::Failed(why)) => session.fail(why),
            }
            if session.is_over() {
                return;
            }
        }
    }
}
