//! Proofs of simulated machines with settings of a user.

use clap::Parser;
use engine::machine::host;
use files::compare::{Change, ChangeFinding};
use files::report::{Round, Warning};
use jitterstat::stats::random::SplitMix64;
use serde_json::json;

use super::*;
use crate::doctor::args::DoctorArgs;
use crate::doctor::file::CONTROL_KEY;
use crate::doctor::proof_text;

#[derive(Parser)]
struct TestCommand {
    #[command(flatten)]
    doctor: DoctorArgs,
}

/// A proof with two settings of the user: `effective`, which reduces the lateness, and `idle`,
/// which changes nothing.
struct Campaign {
    plan: Plan,
    rounds: u64,
    subjects: Vec<PlannedSubject>,
}

impl Campaign {
    fn new() -> Self {
        let words = ["--prove", "--subject", "os-interval", "--max-time", "40s"];
        let pairs = ["--try", "effective=true", "--undo", "true", "--try", "idle=true", "--undo"];
        let words = [&["doctor"][..], &words, &pairs, &["true"]].concat();
        let args = TestCommand::parse_from(words).doctor.proof;
        let mut plan = ProofPlan::from_args(&args).unwrap();
        let rounds = plan.spread_rounds(args.max_time, Duration::ZERO).unwrap();
        let ProofPlan { scenarios, subjects, .. } = plan;
        let tuning = tuning::Settings::default();
        Self {
            plan: Plan { seed: 1, scenarios, tuning, samples: true, why: None },
            rounds,
            subjects,
        }
    }

    /// Simulates all rounds. Their level drifts; each one also differs by itself, and some have a
    /// stall.
    fn simulate(&self, seed: u64) -> Report {
        let mut report = self.empty_report();
        let mut random = SplitMix64::new(seed);
        let mut level = 0.0;
        for index in 0..self.rounds {
            level = 0.8 * level + 0.5 * (random.unit() - 0.5);
            for subject in &mut report.subjects {
                let effect = if subject.id.ends_with("+effective") { 0.9 } else { 1.0 };
                let median_ns = 60_000.0 * effect * f64::exp(level + 0.3 * (random.unit() - 0.5));
                let lateness_ns = self.simulate_ticks(median_ns, &mut random);
                let cpu_ns = Some((9_000_000.0 * (0.9 + 0.2 * random.unit())) as u64);
                subject.rounds.push(Round { index, lateness_ns, cpu_ns, ..Round::default() });
            }
        }
        report
    }

    fn simulate_ticks(&self, median_ns: f64, random: &mut SplitMix64) -> Vec<i64> {
        const STALL_NS: f64 = 3e6;
        let ticks = self.plan.scenarios[0].round_ticks;
        let stall = (random.unit() < 0.1).then(|| random.below(ticks - 5));
        let mut lateness_ns = Vec::new();
        for tick in 0..ticks {
            let noise = random.unit() + random.unit() - random.unit() - random.unit();
            let is_stalled = stall.is_some_and(|start| (start..start + 5).contains(&tick));
            let stall_ns = if is_stalled { STALL_NS } else { 0.0 };
            lateness_ns.push((median_ns * f64::exp(0.4 * noise) + stall_ns) as i64);
        }
        lateness_ns
    }

    /// Returns a report in which no round has been measured.
    fn empty_report(&self) -> Report {
        let subject = |scenario: &Scenario| {
            json!({
                "id": scenario.id, "name": scenario.subject.name(), "period_ns": scenario.period_ns(),
                "runtime": null, "backend": null, "status": {"state": "measured"}, "summary": null,
                "histogram": null, "rounds": [],
            })
        };
        let report = json!({
            "schema": files::report::SCHEMA, "tool": host::tool(), "started_utc": "", "duration_ns": 1,
            "partial": false, "plan": self.plan.to_report(), "host": host::capture(),
            "clock": {"source": "tsc", "rate_hz": 1e9, "rate_known_by": "test", "error_bound_ns": 1,
                      "why_not_counter": null},
            "changes": [], "warnings": [],
            "subjects": self.plan.scenarios.iter().map(subject).collect::<Vec<_>>(),
        });
        serde_json::from_value(report).unwrap()
    }

    /// Returns the rows of a simulated proof.
    fn prove(&self, seed: u64) -> Vec<Row> {
        let report = self.simulate(seed);
        let mut proof = judge(&report, &self.plan, self.rounds, self.subjects.clone());
        proof.subjects.remove(0).rows
    }
}

#[cfg(unix)]
#[test]
fn proofs_state_excluded_rounds() {
    let campaign = Campaign::new();
    let mut report = campaign.simulate(1);
    let warn = |id: &str| {
        let message = format!("3 rounds of {id} excluded: the affinity was changed from 0-1 to 1");
        Warning::new("settings-changed", message, "keep other programs from changing settings")
    };
    report.warnings = ["os-interval", "spin"].map(warn).into();
    let proof = judge(&report, &campaign.plan, campaign.rounds, campaign.subjects.clone());
    assert_eq!(proof.warnings, report.warnings);
    let text = render::document::terminal::render(&proof_text::document(&proof), 200);
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let expected = "settings-changed: 3 rounds of os-interval excluded: the affinity was changed from 0-1 to 1.";
    assert!(text.contains(expected) && text.contains("(And 1 more like it.)"), "{text}");
    let json = serde_json::to_string(&Proof { warnings: Vec::new(), ..proof }).unwrap();
    assert!(!json.contains("warnings"), "{json}");
    assert_eq!(serde_json::from_str::<Proof>(&json).unwrap().warnings, []);
}

#[cfg(unix)]
#[test]
fn unfit_machine_has_no_advice() {
    use files::fitness::{Facts, Fitness};
    let campaign = Campaign::new();
    let report = campaign.simulate(1);
    let mut proof = judge(&report, &campaign.plan, campaign.rounds, campaign.subjects.clone());
    let mut show = |waited| {
        let facts =
            Facts { spin_core: Some(1.0 - waited), waited: Some(waited), ..Facts::default() };
        proof.fitness = Some(Fitness::from_facts(facts, None, Some(2)));
        let mut document = proof_text::verdict(&proof);
        document.append(proof_text::document(&proof));
        render::document::terminal::render(&document, 200)
    };
    let (quiet, unfit) = (show(0.0001), show(0.5));
    assert!(proof_text::no_answer(&proof).is_some(), "an error");
    assert!(quiet.starts_with("Quiet machine: "), "{quiet}");
    assert!(quiet.contains("effective makes ticks less late: "), "{quiet}");
    assert!(unfit.starts_with("No answer: the machine was unfit."), "{unfit}");
    assert!(unfit.contains("Unfit machine: ") && !unfit.contains("less late: "), "{unfit}");
}

#[cfg(unix)]
#[test]
fn unmeasured_control_leaves_no_answer() {
    let campaign = Campaign::new();
    let report = campaign.simulate(1);
    let mut proof = judge(&report, &campaign.plan, campaign.rounds, campaign.subjects.clone());
    assert_eq!(proof_text::no_answer(&proof), None);
    let rows = &mut proof.subjects[0].rows;
    let control = rows.iter_mut().find(|row| row.key == CONTROL_KEY).unwrap();
    control.outcome = Outcome::Failed { reason: "excluded".into() };
    let mut text = |partial| {
        proof.partial = partial;
        let text = render::document::terminal::render(&proof_text::document(&proof), 200);
        (proof_text::no_answer(&proof), text.contains("less late: "))
    };
    let answer = "No answer: the control was not measured.";
    assert_eq!(text(false), (Some(answer.to_owned()), false));
    assert_eq!(text(true).0, None, "it was interrupted");
}

#[cfg(unix)]
#[test]
fn time_limit_keeps_minimum_rounds() {
    let scenario = &Campaign::new().plan.scenarios[0];
    let switch = SettingSwitch::new(HashMap::new(), &Arc::default()).unwrap();
    let mut observer = ProofObserver::new(switch, Progress::new(1, true), Duration::ZERO);
    for index in 0..MIN_COMPARED_PAIRS as u64 {
        observer.before_round(scenario, index);
        assert!(!observer.should_stop(), "round {index}");
    }
    observer.before_round(scenario, MIN_COMPARED_PAIRS as u64);
    assert!(observer.should_stop() && observer.is_cut.get());
    observer.max_time = Duration::MAX;
    assert!(!observer.should_stop() && !observer.is_cut.get());
}

/// The time can end within a round and between two.
#[cfg(unix)]
#[test]
fn only_complete_rounds_are_counted() {
    let campaign = Campaign::new();
    let mut report = campaign.simulate(1);
    assert_eq!(count_complete_rounds(&report), Some(campaign.rounds));
    report.subjects[1].rounds.pop();
    assert_eq!(count_complete_rounds(&report), Some(campaign.rounds - 1));
    report.subjects[1].status = Status::Failed { reason: "it crashed".to_owned() };
    assert_eq!(count_complete_rounds(&report), Some(campaign.rounds));
}

/// Returns the changes that a row shows.
fn shown_changes(row: &Row) -> Vec<&Change> {
    let Outcome::Measured { differences, .. } = &row.outcome else { panic!("{row:?}") };
    let changes = [&differences.p50, &differences.p99, &differences.cpu].into_iter().flatten();
    let is_shown =
        |change: &&Change| matches!(change.shown, ChangeFinding::Less | ChangeFinding::More);
    changes.filter(is_shown).collect()
}

#[cfg(unix)]
#[test]
fn simulated_campaigns_find_effective_settings() {
    const CAMPAIGNS: u64 = 100;
    let campaign = Campaign::new();
    let (mut found, mut false_lines) = (0, 0);
    for seed in 0..CAMPAIGNS {
        let rows = campaign.prove(seed);
        let keys: Vec<&str> = rows.iter().map(|row| row.key.as_str()).collect();
        assert_eq!(keys, ["again", "effective", "idle"]);
        let Outcome::Measured { differences, .. } = &rows[1].outcome else { panic!("{rows:?}") };
        let is_less = |change: &Option<Change>| {
            change.as_ref().is_some_and(|change| change.shown == ChangeFinding::Less)
        };
        found += u64::from(is_less(&differences.p50));
        let effective = shown_changes(&rows[1]);
        let is_false = |change: &&&Change| change.shown == ChangeFinding::More;
        false_lines += effective.iter().filter(is_false).count();
        false_lines += shown_changes(&rows[0]).len() + shown_changes(&rows[2]).len();
    }
    assert!(found >= 95 && false_lines <= 5, "{found} found, {false_lines} false lines");
}
