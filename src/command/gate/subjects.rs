//! Both sides are kinds of ticker, measured in this process.

use std::sync::Arc;

use jitterstat::report::{Plan, Scenario};

use super::plan::Comparison;
use super::session::Session;
use crate::measure::{self, MeasuredRound, Observer, Shared};

/// Runs pairs until the session knows enough or was interrupted.
pub fn run(scenarios: &[Scenario; 2], planned: &Comparison, shared: &Arc<Shared>, session: &mut Session<'_>) {
    let plan = Plan {
        seed: planned.plan.seed,
        samples: false,
        cpu: planned.plan.cpu,
        sched: None,
        mlock: false,
        timer_slack_ns: None,
        scenarios: scenarios.to_vec(),
    };
    measure::run(&plan, shared, &mut Pairs { planned, session });
}

struct Pairs<'a, 'b> {
    planned: &'a Comparison,
    session: &'a mut Session<'b>,
}

impl Observer for Pairs<'_, '_> {
    fn before(&mut self, scenario: &Scenario, index: u64) {
        self.session.show(&scenario.id, index);
    }

    fn after(&mut self, scenario: &Scenario, result: Result<MeasuredRound, String>) {
        match result {
            Err(reason) => self.session.fail(format!("{}: {reason}", scenario.id)),
            // An interrupted round is no round.
            Ok(round) if round.stopped => {}
            Ok(round) => {
                let side = usize::from(scenario.id != self.planned.names[0]);
                self.session.add(side, round.instances[0].samples.pairs(), round.cost.steal_ns);
            }
        }
    }

    fn knows_enough(&self) -> bool {
        self.session.is_over()
    }
}
