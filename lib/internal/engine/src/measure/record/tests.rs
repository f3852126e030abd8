use std::time::Duration;

use super::*;
use crate::machine::tuning;
use crate::measure::cost::Cost;
use crate::measure::excluded_rounds::SETTINGS_CHANGED;
use crate::measure::why::{RoundDiagnosis, Unavailable};
use crate::scenario::{Length, ProfileOptions, ScenarioArgs, parse_subject};

#[test]
fn excluded_diagnoses_complete_no_run() {
    let args = ScenarioArgs {
        subjects: vec![parse_subject("os-interval").unwrap()],
        length: Some(Length::Rounds(2)),
        ..ScenarioArgs::default()
    };
    let plan = Plan {
        seed: 1,
        scenarios: vec![args.single_scenario().unwrap()],
        tuning: tuning::Settings::default(),
        samples: true,
        why: Some(ProfileOptions::default()),
    };
    let conditions = Conditions {
        host: Host::default(),
        changes: Vec::new(),
        started_utc: String::new(),
        starts: StartupCosts::default(),
    };
    let mut builder = ReportBuilder::new(&plan, conditions, None);
    let round = |diagnosis, setting_changes| MeasuredRound {
        index: 0,
        slot: 0,
        phase: Duration::ZERO,
        instances: Vec::new(),
        cost: Cost::default(),
        backend: None,
        clock: None,
        stopped: false,
        diagnosis,
        setting_changes,
    };
    let [what, from, to] = ["nice value", "0", "1"].map(str::to_owned);
    let unavailable = RoundDiagnosis::unavailable(0, &Unavailable::NoThreads);
    // The first of two rounds, its profiled round, then an interrupt.
    builder.add(0, Ok(round(None, Vec::new())));
    builder.add(0, Ok(round(Some(unavailable), vec![Change { what, from, to }])));
    let report = builder.finish(&[None], true);
    let subject = &report.subjects[0];
    assert_eq!((&subject.status, subject.excluded.len()), (&Status::Partial, 0));
    let warning = report.warnings.iter().find(|warning| warning.code == SETTINGS_CHANGED);
    let change = "excluded: the nice value was changed from 0 to 1";
    assert_eq!(warning.unwrap().message, format!("1 profiled round of {} {change}", subject.id));
}
