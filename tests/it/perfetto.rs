//! Tests of `osjitter report --format perfetto`.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

use crate::fixtures::fixture;
use crate::osjitter::{Osjitter, Ran};

/// The events of a trace.
struct Trace(Vec<Value>);

impl Trace {
    /// Parses a trace and checks it by the description of its format.
    #[track_caller]
    fn parse(text: &str) -> Self {
        let file: Value = serde_json::from_str(text).unwrap();
        let trace = Self(file["traceEvents"].as_array().unwrap().clone());
        let named = |kind: &str, key: &str| -> Vec<Value> {
            let events = trace.0.iter().filter(|event| event["name"] == kind);
            events.map(|event| event[key].clone()).collect()
        };
        let (processes, tracks) = (named("process_name", "pid"), named("thread_name", "tid"));
        for event in &trace.0 {
            let phase = event["ph"].as_str().unwrap();
            assert!(["M", "X", "i", "C"].contains(&phase), "{event}");
            assert!(event["name"].is_string() && processes.contains(&event["pid"]), "{event}");
            if phase != "M" {
                assert!(event["ts"].as_f64().unwrap() >= 0.0, "{event}");
            }
            if ["X", "i"].contains(&phase) {
                assert!(tracks.contains(&event["tid"]), "{event}");
            }
        }
        trace.check_nesting();
        trace
    }

    /// Slices of a track are one after the other or one within the other.
    fn check_nesting(&self) {
        let mut by_track: BTreeMap<u64, Vec<(i64, i64)>> = BTreeMap::new();
        for slice in self.0.iter().filter(|event| event["ph"] == "X") {
            let [start, length] = ["ts", "dur"].map(|key| ns(&slice[key]));
            assert!(length >= 0, "{slice}");
            by_track
                .entry(slice["tid"].as_u64().unwrap())
                .or_default()
                .push((start, start + length));
        }
        for slices in by_track.values_mut() {
            slices.sort_by_key(|&(start, end)| (start, -end));
            let mut open: Vec<i64> = Vec::new();
            for &(start, end) in slices.iter() {
                open.retain(|&outer| outer > start);
                assert!(
                    open.iter().all(|&outer| end <= outer),
                    "{start} to {end} crosses another slice"
                );
                open.push(end);
            }
        }
    }

    fn process(&self, name: &str) -> u64 {
        let is_named =
            |event: &&Value| event["name"] == "process_name" && event["args"]["name"] == name;
        self.0.iter().find(is_named).unwrap_or_else(|| panic!("no process {name}"))["pid"]
            .as_u64()
            .unwrap()
    }

    /// Returns the events of a name in a process, in order of time.
    fn events(&self, process: &str, name: &str) -> Vec<&Value> {
        let process = self.process(process);
        let mut events: Vec<&Value> = self
            .0
            .iter()
            .filter(|event| event["pid"] == process && event["name"] == name)
            .collect();
        events.sort_by_key(|event| ns(&event["ts"]));
        events
    }
}

/// Converts microseconds to nanoseconds.
fn ns(microseconds: &Value) -> i64 {
    (microseconds.as_f64().unwrap() * 1_000.0).round() as i64
}

fn export(file: &Path, args: &[&str]) -> Ran {
    Osjitter::new(["report", file.to_str().unwrap(), "--format", "perfetto"]).args(args).run()
}

#[track_caller]
fn trace(file: &Path) -> Trace {
    Trace::parse(&export(file, &[]).exits(0).stdout)
}

fn scripted_run(args: &[&str]) -> Ran {
    let script = json!({
        "scripted": { "lateness_ns": [14_000, 900_000, 420_000, -30, 16_000] },
        "scripted-b": { "lateness_ns": [1_000] },
    });
    let run =
        ["run", "--quiet", "--subject", "scripted", "--subject", "scripted-b", "--ticks", "20"];
    Osjitter::new(run)
        .args(["--round-ticks", "5", "--warmup", "0"])
        .args(args)
        .script(&script)
        .out("")
        .run()
        .exits(0)
}

#[test]
fn ticks_are_slices_until_arrival() {
    let ran = scripted_run(&[]);
    let trace = trace(&ran.path("report.json"));
    let subject = "scripted@500us/current-thread";
    let late = trace.events(subject, "tick");
    let missed = trace.events(subject, "missed tick");
    let early = trace.events(subject, "early tick");
    assert_eq!((late.len(), missed.len(), early.len()), (12, 4, 4));
    assert!(missed.iter().all(|slice| ns(&slice["dur"]) == 900_000));
    // Rounds of a script take no time, so they overlap.
    for round in 0..4 {
        let in_round = late.iter().filter(|slice| slice["args"]["round"] == round);
        let starts: Vec<i64> = in_round.map(|slice| ns(&slice["ts"])).collect();
        assert_eq!([starts[1] - starts[0], starts[2] - starts[0]], [1_000_000, 2_000_000]);
    }
    let curve = trace.events(subject, "lateness, ns");
    let values: Vec<i64> =
        curve.iter().map(|event| event["args"]["value"].as_i64().unwrap()).collect();
    // The curve returns to 0 after the last round, and where no round is measured for a while.
    assert_eq!(values.iter().filter(|value| **value != 0).count(), 20);
    assert_eq!((values.iter().max(), values.last()), (Some(&900_000), Some(&0)));
    assert_eq!(trace.events(subject, "round").len(), 4);
}

/// The instances of a round share its CPU time in the report.
#[test]
fn rounds_cover_all_instances() {
    let run = "run --quiet --subject os-interval --instances 3 --period 1ms --ticks 60";
    let ran = Osjitter::new(run.split(' ')).args(["--round-ticks", "20"]).out("").run().exits(0);
    let file = ran.path("report.json");
    let report: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    let entries = report["subjects"][0]["rounds"].as_array().unwrap();
    let trace = trace(&file);
    let slices = trace.events(report["subjects"][0]["id"].as_str().unwrap(), "round");
    assert_eq!((entries.len(), slices.len()), (9, 3));
    for slice in slices {
        let instances = entries.iter().filter(|entry| entry["index"] == slice["args"]["index"]);
        let cpu_ns: Option<u64> = instances.map(|entry| entry["cpu_ns"].as_u64()).sum();
        assert_eq!(slice["args"]["CPU time, ns"].as_u64(), cpu_ns);
    }
}

#[test]
fn one_subject_can_be_selected() {
    let ran = scripted_run(&[]);
    let file = ran.path("report.json");
    let text = export(&file, &["--subject", "scripted-b"]).exits(0).stdout;
    let trace = Trace::parse(&text);
    assert_eq!(trace.events("scripted-b@500us/current-thread", "tick").len(), 20);
    assert!(!text.contains("scripted@500us"));
    export(&file, &["--subject", "other"]).refuses("no such subject");
}

#[test]
fn reports_without_ticks_are_refused() {
    let ran = scripted_run(&["--no-samples"]);
    export(&ran.path("report.json"), &[]).refuses("no samples");
    export(&fixture("cyclictest.json"), &[]).refuses("no samples");
}

#[test]
fn explained_ticks_show_their_way() {
    let results = Path::new(env!("CARGO_MANIFEST_DIR")).join("results");
    let trace = trace(&results.join("2026-11-21-xeon-kvm-2cpu-why/report.json"));
    let explained: Vec<&Value> =
        trace.0.iter().filter(|event| event["name"] == "late tick").collect();
    assert!(!explained.is_empty());
    assert!(explained.iter().all(|slice| slice["args"].as_object().unwrap().len() > 2), "causes");
}

#[test]
fn flight_records_show_threads_and_cpus() {
    let trace = trace(&fixture("flight.json"));
    let subject = "os-interval@500us/current-thread";
    let missed = trace.events(subject, "missed tick");
    assert_eq!(missed.len(), 2);
    assert_eq!(missed[0]["args"]["waited for a CPU"], 1_100_000);
    assert_eq!(missed[0]["args"]["behind"], "cc1plus 1100000 ns");
    // The oldest time of the record is the deadline of the first tick.
    let first = trace.events("nanosleep@500us", "tick")[0];
    assert_eq!((ns(&first["ts"]), ns(&first["dur"])), (0, 14_000));
    let late = trace.events(subject, "late tick")[0];
    assert_eq!((ns(&late["ts"]), &late["args"]["lateness_ns"]), (9_000_000, &json!(700_000)));
    let states = ["running", "waiting"].map(|state| {
        trace.events(subject, state).iter().map(|slice| ns(&slice["dur"])).collect::<Vec<_>>()
    });
    assert_eq!(states, [vec![10_000, 20_000], vec![1_660_000]]);
    assert_eq!(ns(&trace.events("CPUs", "cc1plus")[0]["dur"]), 1_190_000);
    assert_eq!(trace.events("CPUs", "thread 711").len(), 1, "it has ended since");
}

#[test]
fn records_after_last_tick_are_shown() {
    let mut flight: Value =
        serde_json::from_slice(&std::fs::read(fixture("flight.json")).unwrap()).unwrap();
    let round = &mut flight["rounds"][1];
    let push = |list: &mut Value, record| list.as_array_mut().unwrap().push(record);
    for (at_ns, comm) in [(100_000, "rustc"), (400_000, "ld")] {
        let record = json!({ "at_ns": at_ns, "cpu": 1, "thread": 800, "comm": comm });
        push(&mut round["given"], record);
    }
    push(
        &mut round["switches"],
        json!({ "at_ns": 600_000, "thread": 0, "cpu": 1, "kind": "waits" }),
    );
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("flight.json");
    std::fs::write(&file, flight.to_string()).unwrap();
    let trace = trace(&file);
    let length_ns = |name| ns(&trace.events("CPUs", name)[0]["dur"]);
    assert_eq!((length_ns("rustc"), length_ns("ld")), (300_000, 200_000));
}

#[test]
fn breaches_show_late_ticks_of_interval() {
    let trace = trace(&fixture("breaches.json"));
    let metered = "audio@2ms/role=player";
    let interval = trace.events(metered, "p99=2ms broken: 3.10 ms")[0];
    assert_eq!((ns(&interval["ts"]), ns(&interval["dur"])), (0, 60_000_000_000));
    let late = trace.events(metered, "missed tick")[0];
    assert_eq!((ns(&late["ts"]), ns(&late["dur"])), (9_120_356_000, 3_100_000));
    assert_eq!(late["args"]["caused by work, ns"], 1_500_000);
    assert_eq!(trace.events(metered, "tick").len(), 1);
}

#[test]
fn flight_records_and_breaches_are_tables() {
    let table = |name: &str| {
        let file = fixture(name);
        Osjitter::new(["report", file.to_str().unwrap()]).run().exits(0).stdout
    };
    let flight = table("flight.json");
    assert!(
        flight.contains("os-interval@500us/current-thread, round 3, tick 22: 700 us late"),
        "{flight}"
    );
    assert!(flight.contains("waited for a CPU 1.10 ms, the usual way 90.0 us"), "{flight}");
    let breaches = table("breaches.json");
    assert!(breaches.contains("5.00 ms waiting for a CPU"), "{breaches}");
}
