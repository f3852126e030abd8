//! Measures and gates a service by its meter. The service ticks until it is killed and has no code
//! for osjitter.

use files::gate::verdict::Verdict;

use crate::osjitter::{Osjitter, Ran, names_in};
use crate::schema;
use crate::test_programs::service;

/// Period of the service.
const PERIOD: [&str; 2] = ["--period", "10ms"];
/// On a busy machine, the service may take longer than the default to start.
const RUN_LIMIT: [&str; 2] = ["--max-start-time", "60s"];
const GATE_LIMIT: [&str; 2] = ["--max-round-time", "60s"];

#[test]
fn run_measures_a_service() {
    let run =
        ["run", "--ticks", "24", "--round-ticks", "8", "--warmup", "2", "--subject", "nanosleep"];
    let command = Osjitter::new(run).args(PERIOD).args(RUN_LIMIT);
    let ran = command.out("").args(["--"]).args([service()]).run().exits(0);
    let report = schema::valid(&ran.file("report.json"), "report.1");
    let subject = &report["subjects"][0];
    assert_eq!(
        (&subject["name"], &subject["summary"]["ticks"], &subject["summary"]["early"]),
        (&"service".into(), &24.into(), &0.into())
    );
    let rounds = subject["rounds"].as_array().unwrap();
    assert_eq!(rounds.len(), 3);
    for round in rounds {
        assert_eq!(
            (round["lateness_ns"].as_array().unwrap().len(), &round["first_tick"]),
            (8, &2.into()),
            "{round}"
        );
    }
}

/// Gates the service against itself.
fn gate(args: &[&str]) -> Ran {
    let command = format!("'{}'", service().display());
    let sides = ["gate", "--base-cmd", &command, "--candidate-cmd", &command, "--max-pairs", "24"];
    let rounds = ["--round-ticks", "5", "--warmup", "1"];
    Osjitter::new(sides).args(rounds).args(GATE_LIMIT).args(args).out("").run()
}

#[test]
fn gate_passes_a_service() {
    // The tolerance is so large that disturbances of the machine do not matter.
    let tolerance = ["--tolerance", "p50=9000%", "--tolerance", "p90=9000%", "--floor", "1s"];
    let ran = gate(&[&PERIOD[..], &tolerance].concat()).exits(0);
    schema::valid(&ran.file("verdict.json"), "verdict.1");
    let verdict = <Verdict as files::file::File>::from_json(&ran.file("verdict.json")).unwrap();
    let [pair] = verdict.comparisons.as_slice() else { panic!("{}", ran.stdout) };
    assert_eq!((pair.pairs, pair.rounds.len(), verdict.partial), (24, 24, false), "{}", ran.stdout);
}

#[test]
fn unknown_meter_is_refused() {
    let command = format!("'{}'", service().display());
    for (args, limit) in [
        (&["run", "--command", &command][..], RUN_LIMIT),
        (&["gate", "--base-cmd", &command, "--candidate-cmd", &command], GATE_LIMIT),
    ] {
        let args = [args, &PERIOD, &limit, &["--meter", "no-such-loop"]].concat();
        let ran = Osjitter::new(args).out("").run().exits(2);
        for part in ["\"no-such-loop\"", "control-loop (10ms)"] {
            assert!(ran.stderr.contains(part), "{part}: {}", ran.stderr);
        }
        assert_eq!(names_in(ran.directory()), [""; 0]);
    }
    let ran = gate(&["--period", "10ms", "--meter", "control-loop", "--floor", "1s"]).exits(0);
    assert!(ran.path("verdict.json").exists(), "{}", ran.stderr);
}

#[test]
fn gate_rejects_a_different_period() {
    let ran = gate(&["--period", "7ms"]).refuses("ran at a period of 10ms");
    assert!(!ran.path("verdict.json").exists());
}
