//! Target for plans, and for reports that contain one.

use cli::exit;

use crate::fuzz::files::text;
use crate::fuzz::round_trip;
use crate::fuzz::step_costs::StepCosts;
use crate::run::plan_args::{PlanArgs, RunKeys};
use crate::run::plan_file::{parse, to_toml};

pub fn body(bytes: &[u8], costs: &StepCosts) -> exit::Result<()> {
    let run = RunKeys { seed: Some(7), ..RunKeys::default() };
    let arguments = PlanArgs { run, ..PlanArgs::default() };
    let plan = costs.measure("read", || arguments.to_plan(&parse("plan", &text(bytes)?)?))?;
    let _ = costs.measure("expected", || {
        (plan.expected_duration(), plan.rounds(), plan.check_memory("less").is_ok())
    });
    let toml = costs.measure("toml", || to_toml(&plan));
    let again = parse("plan", &toml).and_then(|file| PlanArgs::default().to_plan(&file));
    match again {
        Ok(again) => assert!(again == plan, "the plan differs when it is read again:\n{toml}"),
        Err(error) => panic!("what we print must be readable: {error}\n{toml}"),
    }
    round_trip::parse_json(&serde_json::to_string(&plan.to_report()).expect("plain data"));
    Ok(())
}
