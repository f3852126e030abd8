//! A service that has a meter, ticks for ever and knows nothing of osjitter: measured and gated by
//! that meter.

use files::gate::verdict::Verdict;

use crate::osjitter::{Osjitter, service};
use crate::schema;

/// As fast as the service ticks.
const PERIOD: [&str; 2] = ["--period", "10ms"];

#[test]
fn its_meter_writes_the_ticks_of_each_round() {
    let run =
        ["run", "--ticks", "24", "--round-ticks", "8", "--warmup", "2", "--subject", "nanosleep"];
    let ran = Osjitter::new(run).args(PERIOD).out("").args(["--"]).args([service()]).run().exits(0);
    let report = schema::valid(&ran.file("report.json"), "report.1");
    let own = &report["subjects"][0];
    assert_eq!(
        (&own["name"], &own["summary"]["ticks"], &own["summary"]["early"]),
        (&"service".into(), &24.into(), &0.into())
    );
    let rounds = own["rounds"].as_array().unwrap();
    assert_eq!(rounds.len(), 3);
    for round in rounds {
        assert_eq!(
            (round["lateness_ns"].as_array().unwrap().len(), &round["first_tick"]),
            (8, &2.into()),
            "{round}"
        );
    }
}

#[test]
fn its_meter_is_gated() {
    let service = service();
    let command = format!("'{}'", service.display());
    let gate = |args: &[&str]| {
        let sides =
            ["gate", "--baseline-cmd", &command, "--candidate-cmd", &command, "--max-pairs", "24"];
        Osjitter::new(sides).args(["--round-ticks", "5", "--warmup", "1"]).args(args).out("").run()
    };
    // Whatever the machine does to both alike.
    let alike = ["--tolerance", "p50=9000%", "--tolerance", "p90=9000%", "--floor", "1s"];
    let ran = gate(&[&PERIOD[..], &alike].concat()).exits(0);
    schema::valid(&ran.file("verdict.json"), "verdict.1");
    let verdict = <Verdict as files::file::File>::from_json(&ran.file("verdict.json")).unwrap();
    let [pair] = verdict.comparisons.as_slice() else { panic!("{}", ran.stdout) };
    assert_eq!((pair.pairs, pair.rounds.len(), verdict.partial), (24, 24, false), "{}", ran.stdout);
    // It has a period of its own, and says so.
    let other = gate(&["--period", "7ms"]).exits(4);
    let refused = schema::valid(&other.file("verdict.json"), "verdict.1")["failure"].to_string();
    assert!(refused.contains("ran at a period of 10000000 ns"), "{refused}");
}
