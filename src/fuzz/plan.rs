//! Plans, and reports in which one is.

use cli::exit;

use crate::fuzz::again;
use crate::fuzz::files::text;
use crate::fuzz::stage::Stages;
use crate::run::plan_file::{PlanArgs, parse, to_toml};

pub fn body(bytes: &[u8], stages: &Stages) -> exit::Result<()> {
    let arguments = PlanArgs { seed: Some(7), ..PlanArgs::default() };
    let plan = stages.of("read", || arguments.plan(&parse("plan", &text(bytes)?)?))?;
    let _ = stages
        .of("expected", || (plan.expected_duration(), plan.rounds(), plan.check_memory().is_ok()));
    let toml = stages.of("toml", || to_toml(&plan));
    let again = parse("plan", &toml).and_then(|file| PlanArgs::default().plan(&file));
    match again {
        Ok(again) => assert!(again == plan, "it is another plan when it is read again:\n{toml}"),
        Err(error) => panic!("what we print we refuse: {error}\n{toml}"),
    }
    again::json(&serde_json::to_string(&plan.to_report()).expect("plain data"));
    Ok(())
}
