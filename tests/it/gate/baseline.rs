//! Stored sessions: adding them, judging a new one by them, and every way a file can be the wrong one.

use std::path::PathBuf;

use jitterstat::file::File as _;
use jitterstat::gate::baseline::Baseline;
use jitterstat::gate::look::{Outcome, Reason};
use jitterstat::gate::round::RoundRecord;

use super::Gate;
use crate::osjitter::{Osjitter, Ran};

/// 24 pairs of rounds of 12 ticks at 2 ms: less than two seconds.
const QUICK: [&str; 2] = ["--max-pairs", "24"];
const SCENARIO: [&str; 8] = ["--subject", "tokio-sleep", "--period", "2ms", "--round-ticks", "12", "--warmup", "3"];
/// Whatever a busy machine does to a timer is no regression.
const WIDE: [&str; 2] = ["--floor", "100ms"];

struct Stored {
    dir: tempfile::TempDir,
}

impl Stored {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    /// With one measured session.
    fn measured() -> Self {
        let stored = Self::new();
        let _ = stored.add(&[&SCENARIO[..], &QUICK, &WIDE].concat()).exits(0);
        stored
    }

    fn file(&self) -> PathBuf {
        self.dir.path().join("baseline.json")
    }

    fn adding(&self, args: &[&str]) -> Osjitter {
        Osjitter::new(["gate", "baseline", "add"]).args([self.file()]).args(args)
    }

    fn add(&self, args: &[&str]) -> Ran {
        self.adding(args).run()
    }

    /// The last session, if the machine's stalls let it be stored at all.
    fn read(&self) -> Option<Baseline> {
        let text = std::fs::read_to_string(self.file()).ok()?;
        Some(Baseline::from_json(&text).unwrap())
    }

    fn write(&self, baseline: &Baseline) {
        std::fs::write(self.file(), baseline.to_json()).unwrap();
    }

    fn gate(&self, args: &[&str]) -> Gate {
        let file = self.file();
        Gate::run(&[&["--baseline", file.to_str().unwrap()], args].concat())
    }
}

/// The baseline with its subject so many times as late.
fn scaled(baseline: &Baseline, by: f64) -> Baseline {
    let mut scaled = baseline.clone();
    let times = |record: &mut RoundRecord| {
        for ns in [&mut record.p50_ns, &mut record.p90_ns, &mut record.p95_ns, &mut record.p99_ns] {
            *ns = ((*ns).max(1) as f64 * by) as i64;
        }
    };
    scaled.sessions.iter_mut().flat_map(|s| &mut s.pairs).for_each(|p| times(&mut p.subject));
    scaled
}

#[test]
fn a_session_makes_the_file_and_the_next_one_joins_it() {
    let stored = Stored::measured();
    let Some(first) = stored.read() else { return };
    assert_eq!((first.scenario.subject.as_str(), first.scenario.period_ns), ("tokio-sleep", 2_000_000));
    assert_eq!((first.sessions.len(), first.sessions[0].pairs.len()), (1, 24));
    assert_eq!(first.sessions[0].subject_histogram.count, 24 * 12);
    assert!(first.sessions[0].pairs.iter().all(|p| p.subject.kept + p.subject.same_stall == 12));
    let both = |first: bool| first as usize;
    let subject_first: usize = first.sessions[0].pairs.iter().map(|p| both(p.subject_first)).sum();
    assert!((1..24).contains(&subject_first), "the order is drawn for each pair");
    let schema = Baseline::json_schema();
    let text = std::fs::read_to_string(stored.file()).unwrap();
    assert!(jsonschema::is_valid(&schema, &serde_json::from_str(&text).unwrap()));

    // What the file says need not be said again.
    let added = stored.add(&[&QUICK[..], &WIDE].concat()).exits(0);
    let second = stored.read().unwrap();
    if added.stderr.contains("NOT ADDED") {
        assert_eq!(second, first);
    } else {
        assert_eq!((second.sessions.len(), &second.sessions[0]), (2, &first.sessions[0]));
    }
}

#[test]
fn a_new_session_is_judged_by_the_stored_ones_and_never_moves_them() {
    let stored = Stored::measured();
    let Some(first) = stored.read() else { return };
    for (then, code, verdict) in [(1e-6, 1, Outcome::Regressed), (1e6, 0, Outcome::Improved)] {
        stored.write(&scaled(&first, then));
        let before = std::fs::read(stored.file()).unwrap();
        let gate = stored.gate(&[&SCENARIO[..], &QUICK].concat());
        let found = gate.verdict();
        let against = found.baseline.as_ref().expect("it was judged");
        if found.reason != Some(Reason::StallDominated) {
            assert_eq!((gate.ran.code, found.verdict), (code, verdict), "{}", gate.ran.stdout);
        }
        assert_eq!((against.sessions, against.pairs, against.rounds.len()), (1, 24, 24));
        assert_eq!(std::fs::read(stored.file()).unwrap(), before, "a gate changes no baseline");
        let names: Vec<&str> = against.metrics.iter().map(|m| m.name.as_str()).collect();
        assert_eq!(names, ["p50", "p90"]);
    }

    // A session that is worse does not join those that are stored, and can only begin a file of its own.
    stored.write(&scaled(&first, 1e-6));
    let before = std::fs::read(stored.file()).unwrap();
    let worse = stored.add(&QUICK);
    assert!(worse.stderr.contains("NOT ADDED"), "{}", worse.stderr);
    assert!(worse.code == 1 || worse.stderr.contains("stalls"), "{}", worse.stderr);
    assert_eq!(std::fs::read(stored.file()).unwrap(), before);
    let anew = stored.add(&[&SCENARIO[..], &QUICK, &["--replace"]].concat()).exits(0);
    if !anew.stderr.contains("NOT ADDED") {
        let now = stored.read().unwrap();
        assert_eq!(now.sessions.len(), 1);
        assert_ne!(now.sessions[0].seed, first.sessions[0].seed);
    }
}

#[test]
fn a_file_keeps_the_last_ten_sessions() {
    let stored = Stored::measured();
    let Some(mut file) = stored.read() else { return };
    file.sessions = vec![file.sessions[0].clone(); 10];
    file.sessions[0].seed = 1;
    stored.write(&file);
    let added = stored.add(&[&QUICK[..], &WIDE, &["--seed", "424242"]].concat()).exits(0);
    if !added.stderr.contains("NOT ADDED") {
        let seeds: Vec<u64> = stored.read().unwrap().sessions.iter().map(|s| s.seed).collect();
        assert_eq!((seeds.len(), seeds[9]), (10, 424_242));
        assert!(!seeds.contains(&1) && added.stderr.contains("the oldest 1 dropped"), "{}", added.stderr);
    }
}

#[test]
fn a_wrong_file_is_named_before_anything_is_measured() {
    let stored = Stored::measured();
    let Some(good) = stored.read() else { return };
    let text = good.to_json();
    let mut foreign = good.clone();
    foreign.environment.kernel = Some("2.4.0".into());
    foreign.environment.cpus_online = Some(4096);
    let cases: [(String, &[&str], &[&str]); 8] = [
        (text[..text.len() - 100].to_owned(), &[], &["cut off"]),
        (String::new(), &[], &["cut off"]),
        ("{\"schema\": \"osjitter.report/1\"}".to_owned(), &[], &["osjitter.report/1"]),
        (text.replace("osjitter.baseline/1", "osjitter.baseline/9"), &[], &["osjitter.baseline/9"]),
        (text.clone(), &["--period", "1ms"], &["period: 2000000 ns against 1000000 ns"]),
        (text.clone(), &["--subject", "nanosleep"], &["subject: tokio-sleep against nanosleep"]),
        (text.clone(), &["--round-ticks", "13"], &["ticks of a round: 12 against 13"]),
        (foreign.to_json(), &[], &["kernel: 2.4.0 against", "CPUs online: 4096 against"]),
    ];
    for (text, args, says) in cases {
        std::fs::write(stored.file(), &text).unwrap();
        let gate = stored.gate(args);
        let added = stored.add(args);
        assert!(gate.verdict.is_none());
        for ran in [gate.ran, added] {
            let ran = ran.exits(2);
            assert!(says.iter().all(|s| ran.stderr.contains(s)), "{}", ran.stderr);
        }
        assert_eq!(std::fs::read_to_string(stored.file()).unwrap(), text, "a file that is refused is left alone");
    }

    stored.write(&foreign);
    let forced = stored.gate(&[&QUICK[..], &WIDE, &["--force"]].concat()).exits(0);
    let verdict = forced.verdict();
    let warning = verdict.warnings.iter().find(|w| w.code == "environment-differs").expect("it says so");
    assert!(warning.message.contains("2.4.0") && forced.ran.stdout.contains("2.4.0"));
}

#[test]
fn bad_usage_is_named() {
    let stored = Stored::new();
    let file = stored.file();
    let file = file.to_str().unwrap();
    for (args, says) in [
        (&["--baseline", file, "--subject", "spin"][..], "baseline add"),
        (&["baseline", "add", file], "--subject"),
        (&["baseline", "add", "no/such/place.json", "--subject", "spin"], "cannot write"),
        (&["baseline", "add", file, "--subject", "spin", "--max-rounds", "3"], "24"),
        (&["baseline", "add", file, "--subject", "spin", "--period", "1ms", "--period", "2ms"], "once"),
    ] {
        let refused = Osjitter::new(["gate"]).args(args).run().exits(2);
        assert!(refused.stderr.contains(says), "{args:?}: {}", refused.stderr);
    }
    assert!(stored.read().is_none());
}

#[cfg(unix)]
#[test]
fn an_interrupt_adds_nothing() {
    let stored = Stored::new();
    let adding = stored.adding(&["--subject", "nanosleep", "--period", "1ms"]);
    let _ = adding.interrupt_at("a session of nanosleep@1ms: ").exits(4);
    assert!(stored.read().is_none());
}
