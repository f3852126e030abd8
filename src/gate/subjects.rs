//! Both sides are kinds of ticker, measured in this process: in turn, or at once.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use jitterstat::gate::verdict::Mode;

use crate::gate::plan::Comparison;
use crate::gate::session::Session;
use crate::machine::tuning;
use crate::measure::duet;
use crate::measure::order::{self, Observer};
use crate::measure::round::MeasuredRound;
use crate::scenario::{Plan, Scenario};

/// A side that keeps the CPU busy for more of the period than this is in the way of the other.
const MOST_BUSY: f64 = 0.2;

/// Whether two subjects can run at once without being in each other's way; measures each alone, for a moment.
pub fn can_run_at_once(scenarios: &[Scenario; 2], planned: &Comparison, stop: &Arc<AtomicBool>) -> Result<(), String> {
    if planned.plan.cpu.is_none() {
        return Err("--duet needs both sides on one CPU, and this platform binds a thread to none".to_owned());
    }
    for scenario in scenarios {
        let share = duet::busy_share(scenario, stop).map_err(|e| format!("{}: {e}", scenario.id))?;
        let refuse = |what: String| Err(format!("{}: {what}; compare them in turn, without --duet", scenario.id));
        match share {
            None => return refuse("the platform does not tell how busy it keeps the CPU".to_owned()),
            Some(busy) if busy > MOST_BUSY => {
                let most = MOST_BUSY * 100.0;
                return refuse(format!(
                    "it keeps the CPU busy for {:.0} % of the period, and --duet allows {most:.0} %",
                    busy * 100.0
                ));
            }
            Some(_) => {}
        }
    }
    Ok(())
}

/// Runs pairs until the session knows enough or was interrupted.
pub fn run(scenarios: &[Scenario; 2], planned: &Comparison, stop: &Arc<AtomicBool>, session: &mut Session<'_>) {
    if planned.mode == Mode::Duet {
        let mut pairs = Pairs { planned, session };
        return duet::run(scenarios, planned.most_pairs(), planned.plan.seed, stop, &mut pairs);
    }
    let plan = Plan {
        seed: planned.plan.seed,
        samples: false,
        tuning: tuning::Settings { cpu: planned.plan.cpu, ..tuning::Settings::default() },
        scenarios: scenarios.to_vec(),
    };
    order::run(&plan, stop, &mut Pairs { planned, session }, |_, _| ());
}

struct Pairs<'a, 'b> {
    planned: &'a Comparison,
    session: &'a mut Session<'b>,
}

impl Observer for Pairs<'_, '_> {
    fn before(&mut self, scenario: &Scenario, index: u64) {
        self.session.show(&scenario.id, index);
    }

    fn after(&mut self, scenario: &Scenario, result: &Result<MeasuredRound, String>) {
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
