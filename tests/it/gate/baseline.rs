//! Tests of stored sessions: adding them, comparing a new one with them, and rejecting unsuitable
//! files.

use std::path::PathBuf;

use files::file::File as _;
use files::gate::baseline::{Baseline, Session, SessionPair};
use jitterstat::gate::decision::{Outcome, Reason};
use serde_json::json;

use super::Gate;
use crate::fixtures::recorded_report;
use crate::osjitter::{Osjitter, Ran, names_in, one_line};

const QUICK: [&str; 2] = ["--max-pairs", "24"];
const ROUNDS: [&str; 6] = ["--period", "2ms", "--round-ticks", "12", "--warmup", "3"];

/// Scripts a subject with the given lateness, and a control that is late by 10 us.
fn late_by(ns: i64) -> serde_json::Value {
    json!({"scripted": {"lateness_ns": [ns, ns + 1_000]}, "nanosleep": {"lateness_ns": [10_000]}})
}

struct Stored {
    dir: tempfile::TempDir,
}

impl Stored {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    /// Creates a file with one session of a subject that is late by 20 us.
    fn with_session() -> Self {
        let stored = Self::new();
        let _ = stored.add(20_000, &[&["--subject", "scripted"], &ROUNDS[..]].concat()).exits(0);
        stored
    }

    fn file(&self) -> PathBuf {
        self.dir.path().join("baseline.json")
    }

    fn add_command(&self, args: &[&str]) -> Osjitter {
        Osjitter::new(["gate", "baseline", "add"]).args([self.file()]).args(args)
    }

    fn add(&self, late_by_ns: i64, args: &[&str]) -> Ran {
        self.add_command(args).args(QUICK).script(&late_by(late_by_ns)).run()
    }

    fn gate(&self, late_by_ns: i64, args: &[&str]) -> Gate {
        let gate = super::gate(&QUICK).args(["--baseline"]).args([self.file()]).args(args);
        Gate::from_ran(gate.script(&late_by(late_by_ns)).run())
    }

    fn text(&self) -> String {
        std::fs::read_to_string(self.file()).unwrap()
    }

    fn read(&self) -> Baseline {
        Baseline::from_json(&self.text()).unwrap()
    }

    fn write(&self, baseline: &Baseline) {
        std::fs::write(self.file(), baseline.to_json()).unwrap();
    }
}

/// The period is that of the baseline.
#[test]
fn limited_report_has_another_period() {
    let stored = Stored::with_session();
    let mut report = recorded_report();
    report.subjects.truncate(1);
    let file = stored.dir.path().join("report.json");
    std::fs::write(&file, report.to_json()).unwrap();
    let limit = ["--limit", "p50=1s", "--report", file.to_str().unwrap()];
    let gate = stored.gate(20_000, &[&ROUNDS[..], &limit].concat()).exits(0);
    let verdict = gate.verdict();
    assert!(verdict.baseline.is_some() && verdict.limits.len() == 1);
}

#[test]
fn first_session_creates_the_file() {
    let stored = Stored::with_session();
    let first = stored.read();
    assert_eq!(
        (first.scenario.subject.as_str(), first.scenario.period_ns),
        ("scripted", 2_000_000)
    );
    assert_eq!((first.sessions.len(), first.sessions[0].pairs.len()), (1, 24));
    assert_eq!(first.sessions[0].subject_histogram.count, 24 * 12);
    for pair in &first.sessions[0].pairs {
        assert_eq!(
            (pair.subject.p50_ns, pair.subject.p90_ns, pair.subject.max_ns),
            (20_000, 21_000, 21_000)
        );
        assert_eq!(
            (pair.subject.kept, pair.subject.same_stall, pair.control.p90_ns),
            (12, 0, 10_000)
        );
    }
    let subject_first = first.sessions[0].pairs.iter().filter(|p| p.subject_first).count();
    assert!((1..24).contains(&subject_first), "the order of each pair is random");
    assert!(jsonschema::is_valid(
        &Baseline::json_schema(),
        &serde_json::from_str(&stored.text()).unwrap()
    ));
}

#[test]
fn pairs_without_ticks_are_counted() {
    let stored = Stored::with_session();
    let mut script = late_by(20_000);
    script["scripted"]["no_tick_in_round"] = 3.into();
    let says = "1 pair of rounds left out: a side delivered no tick";
    let gated = super::gate(&QUICK).args(["--baseline"]).args([stored.file()]);
    let gate = Gate::from_ran(gated.script(&script).run()).exits(0);
    let warned = gate.verdict().warnings.iter().any(|warning| warning.message.starts_with(says));
    assert!(warned, "{}", gate.ran.stdout);
    let added = stored.add_command(&[]).args(QUICK).script(&script).run().exits(0);
    assert!(added.stderr.contains(says), "{}", added.stderr);
}

#[test]
fn early_sessions_are_not_judged() {
    let stored = Stored::with_session();
    let gate = stored.gate(-20_000, &[]);
    let found = (gate.verdict().verdict, gate.verdict().reason);
    assert_eq!(found, (Outcome::Inconclusive, Some(Reason::EarlyTicks)), "{}", gate.ran.stdout);
    let refused = stored.add(-20_000, &[]).exits(4);
    assert!(refused.stderr.contains("ticks before its deadlines"), "{}", refused.stderr);
    let warned = gate.verdict().warnings.iter().any(|warning| warning.code == "early-ticks");
    assert!(warned, "{}", gate.ran.stdout);
}

#[test]
fn stored_settings_apply_to_later_sessions() {
    let stored = Stored::with_session();
    let first = stored.read();
    let _ = stored.add(20_100, &[]).exits(0);
    let second = stored.read();
    assert_eq!((second.sessions.len(), &second.sessions[0]), (2, &first.sessions[0]));
}

#[test]
fn real_session_is_complete() {
    let stored = Stored::new();
    // A first session is refused if stalls could mask a change of the tolerated size. None is as
    // large as this one.
    let args = ["--subject", "tokio-sleep", "--tolerance", "1e15%"];
    let _ = stored.add_command(&[&args[..], &ROUNDS, &QUICK].concat()).run().exits(0);
    let session = &stored.read().sessions[0];
    assert!(session.pairs.iter().all(|p| p.subject.kept + p.subject.same_stall == 12));
    assert_eq!((session.pairs.len(), session.control_histogram.count), (24, 24 * 12));
}

#[test]
fn gate_compares_with_stored_sessions() {
    let stored = Stored::with_session();
    let before = stored.text();
    for (now, code, verdict, reason) in [
        (20_000, 0, Outcome::Pass, None),
        (40_000, 1, Outcome::Regressed, None),
        (8_000, 0, Outcome::Improved, None),
        (22_000, 0, Outcome::Inconclusive, Some(Reason::TooNoisy)),
    ] {
        let gate = stored.gate(now, &[]).exits(code);
        let found = gate.verdict();
        assert_eq!((found.verdict, found.reason), (verdict, reason), "{now}: {}", gate.ran.stdout);
        let stdout = one_line(&gate.ran.stdout);
        assert_eq!(
            stdout.contains("stored sessions (osjitter gate baseline add"),
            reason.is_some(),
            "{stdout}"
        );
        let baseline = found.baseline.as_ref().expect("a verdict about stored sessions");
        assert_eq!((baseline.sessions, baseline.pairs, baseline.rounds.len()), (1, 24, 24));
        let names: Vec<&str> = baseline.metrics.iter().map(|m| m.name.as_str()).collect();
        assert_eq!(names, ["p50", "p90"]);
        let p50 = &baseline.metrics[0];
        assert_eq!((p50.stored_ns, p50.now_ns, p50.control_ns), (Some(20_000), now, 10_000));
        assert_eq!(stored.text(), before, "a gate does not change the file");
    }
}

#[test]
fn worse_session_is_not_added() {
    let stored = Stored::with_session();
    let before = stored.text();
    for (now, code) in [(40_000, 1), (22_000, 3)] {
        let refused = stored.add(now, &[]).exits(code);
        assert!(refused.stderr.contains("NOT ADDED"), "{}", refused.stderr);
        assert_eq!(stored.text(), before);
    }
}

#[test]
fn replace_starts_over() {
    let stored = Stored::with_session();
    let first = stored.read();
    let _ = stored
        .add(40_000, &[&["--subject", "scripted", "--replace"], &ROUNDS[..]].concat())
        .exits(0);
    let now = stored.read();
    assert_eq!(now.sessions.len(), 1);
    assert_ne!(now.sessions[0].seed, first.sessions[0].seed);
}

/// The machine stalls for 12 ms in every round, which hides the tail of the subject.
#[test]
fn stalled_first_session_is_not_added() {
    let stalled = |late_by: i64| -> Vec<i64> {
        (0..12).map(|k| if (3..9).contains(&k) { (9 - k) * 2_000_000 } else { late_by }).collect()
    };
    let [subject, control] =
        [20_000, 10_000].map(|late_by| json!({"lateness_ns": stalled(late_by)}));
    let script = json!({"scripted": subject, "nanosleep": control});
    let args = [&["--subject", "scripted"], &ROUNDS[..], &QUICK].concat();
    for (stored, more) in [(Stored::new(), None), (Stored::with_session(), Some("--replace"))] {
        let before = std::fs::read(stored.file()).ok();
        let refused = stored.add_command(&args).args(more).script(&script).run().exits(3);
        let why = "baseline.json: stalls of the machine are so long that they could hide a change";
        assert!(refused.stderr.contains("NOT ADDED to "), "{}", refused.stderr);
        assert!(refused.stderr.contains(why), "{}", refused.stderr);
        assert!(refused.stdout.contains("p50"), "{}", refused.stdout);
        assert!(refused.stdout.contains("inconclusive"), "{}", refused.stdout);
        assert_eq!(std::fs::read(stored.file()).ok(), before);
        let files = names_in(stored.dir.path());
        assert_eq!(files.len(), usize::from(before.is_some()), "{files:?} remain");
    }
}

#[test]
fn file_keeps_ten_sessions() {
    let stored = Stored::with_session();
    let mut file = stored.read();
    let session = file.sessions[0].clone();
    file.sessions = (1..=10).map(|seed| Session { seed, ..session.clone() }).collect();
    stored.write(&file);
    let added = stored.add(20_000, &["--seed", "424242"]).exits(0);
    let seeds: Vec<u64> = stored.read().sessions.iter().map(|s| s.seed).collect();
    assert_eq!((seeds.len(), seeds[9]), (10, 424_242));
    assert!(!seeds.contains(&1), "{}", added.stderr);
    assert!(added.stderr.contains("the oldest 1 dropped"), "{}", added.stderr);
}

/// A full file cannot gain a session that narrows the interval.
#[test]
fn full_file_advises_more_pairs() {
    let stored = Stored::with_session();
    let mut file = stored.read();
    let first = file.sessions[0].clone();
    let mut twice_as_late = first.clone();
    for SessionPair { subject, .. } in &mut twice_as_late.pairs {
        for ns in [&mut subject.p50_ns, &mut subject.p90_ns, &mut subject.max_ns] {
            *ns *= 2;
        }
    }
    let alternating = [first, twice_as_late].into_iter().cycle().zip(0..10);
    file.sessions = alternating.map(|(session, seed)| Session { seed, ..session }).collect();
    stored.write(&file);
    let gate = stored.gate(28_000, &[]).exits(0);
    assert_eq!(gate.verdict().reason, Some(Reason::TooNoisy), "{}", gate.ran.stdout);
    let stdout = one_line(&gate.ran.stdout);
    assert!(stdout.contains("(--max-pairs) can narrow it"), "{stdout}");
}

#[test]
fn concurrent_sessions_are_all_added() {
    for stored in [Stored::new(), Stored::with_session()] {
        let before = if stored.file().exists() { 1 } else { 0 };
        let args = [&["--subject", "scripted"], &ROUNDS[..]].concat();
        std::thread::scope(|scope| {
            let adding: Vec<_> =
                (0..4).map(|_| scope.spawn(|| stored.add(20_000, &args).code)).collect();
            let codes: Vec<i32> = adding.into_iter().map(|add| add.join().unwrap()).collect();
            assert_eq!(codes, [0; 4]);
        });
        assert_eq!(stored.read().sessions.len(), before + 4);
        assert_eq!(names_in(stored.dir.path()), ["baseline.json"]);
    }
}

/// A link in another directory leads to the same sessions.
#[cfg(unix)]
#[test]
fn sessions_through_links_are_kept() {
    const LINKS: usize = 3;
    let stored = Stored::with_session();
    let homes: Vec<Stored> = (0..LINKS).map(|_| Stored::new()).collect();
    for home in &homes {
        std::os::unix::fs::symlink(stored.file(), home.file()).unwrap();
    }
    let paths = || homes.iter().chain([&stored]);
    std::thread::scope(|scope| {
        let adding: Vec<_> =
            paths().map(|path| scope.spawn(|| path.add(20_000, &ROUNDS).code)).collect();
        let codes: Vec<i32> = adding.into_iter().map(|add| add.join().unwrap()).collect();
        assert_eq!(codes, [0; LINKS + 1]);
    });
    assert_eq!(stored.read().sessions.len(), 1 + LINKS + 1);
    assert!(homes.iter().all(|home| home.file().is_symlink()));
}

#[test]
fn unsuitable_file_is_rejected() {
    let stored = Stored::with_session();
    let good = stored.read();
    let text = good.to_json();
    let foreign = on_another_machine(&good);
    let mut old = good.clone();
    old.scenario.stalls = None;
    let mut doubled = good.clone();
    doubled.sessions.push(good.sessions[0].clone());
    let mut many = good.clone();
    many.sessions = vec![good.sessions[0].clone(); 11];
    let cases: [(String, &[&str], &[&str]); 12] = [
        (doubled.to_json(), &[], &["sessions[1]", "comes twice"]),
        (many.to_json(), &[], &["sessions", "11 of them"]),
        (text[..text.len() - 100].to_owned(), &[], &["cut off"]),
        (String::new(), &[], &["cut off"]),
        ("{\"schema\": \"osjitter.report/1\"}".to_owned(), &[], &["osjitter.report/1"]),
        (text.replace("osjitter.baseline/1", "osjitter.baseline/9"), &[], &["osjitter.baseline/9"]),
        (text.replace("\"period_ns\":2000000", "\"period_ns\":0"), &[], &["expected 1us to 1h"]),
        (text.clone(), &["--period", "1ms"], &["period: 2ms against 1ms"]),
        (text.clone(), &["--subject", "nanosleep"], &["subject: scripted against nanosleep"]),
        (text.clone(), &["--round-ticks", "13"], &["ticks of a round: 12 against 13"]),
        (
            old.to_json(),
            &[],
            &["older osjitter", "stalls: late-1 against gap-1", "--subject scripted --replace"],
        ),
        (foreign.to_json(), &[], &["kernel: 2.4.0 against", "CPUs online: 4096 against"]),
    ];
    for (text, args, says) in cases {
        std::fs::write(stored.file(), &text).unwrap();
        let gate = stored.gate(20_000, args);
        assert!(gate.verdict.is_none());
        for ran in [gate.ran, stored.add(20_000, args)] {
            let ran = ran.exits(2);
            assert!(says.iter().all(|s| ran.stderr.contains(s)), "{}", ran.stderr);
        }
        assert_eq!(stored.text(), text, "a rejected file is not changed");
    }
}

fn on_another_machine(baseline: &Baseline) -> Baseline {
    let mut foreign = baseline.clone();
    foreign.environment.kernel = Some("2.4.0".into());
    foreign.environment.cpus_online = Some(4096);
    foreign
}

#[test]
fn force_accepts_another_machine() {
    let stored = Stored::with_session();
    stored.write(&on_another_machine(&stored.read()));
    let forced = stored.gate(20_000, &["--force"]).exits(0);
    let warning = forced
        .verdict()
        .warnings
        .iter()
        .find(|w| w.code == "environment-differs")
        .expect("a warning");
    assert!(warning.message.contains("2.4.0") && forced.ran.stdout.contains("2.4.0"));
}

#[test]
fn bad_usage_is_rejected() {
    let stored = Stored::new();
    let file = stored.file();
    let file = file.to_str().unwrap();
    for (args, says) in [
        (&["--baseline", file, "--subject", "spin"][..], "baseline add"),
        (&["baseline", "add", file], "--subject"),
        (&["baseline", "add", "no/such/place.json", "--subject", "spin"], "cannot write"),
        (&["baseline", "add", file, "--subject", "spin", "--max-rounds", "3"], "24"),
        (
            &["baseline", "add", file, "--subject", "spin", "--period", "1ms", "--period", "2ms"],
            "once",
        ),
    ] {
        Osjitter::new(["gate"]).args(args).run().refuses(says);
    }
    assert!(!stored.file().exists());
}

#[cfg(unix)]
#[test]
fn interrupted_session_is_not_added() {
    let stored = Stored::new();
    let adding = stored.add_command(&["--subject", "nanosleep", "--period", "1ms"]);
    let _ = adding.interrupt_at("a session of nanosleep@1ms: ").exits(4);
    assert!(!stored.file().exists());
}
