//! Tests of the processes of a program: what they inherit, and when they end.

#[cfg(target_os = "linux")]
use std::path::Path;

#[cfg(target_os = "linux")]
use files::report::{Report, SettingDifference, SettingName};
use rustix::process::Signal;
use serde_json::json;

use super::{CORRECT_PROGRAM, Home, IS_ROUND, SETTINGS_RUNS, STARTS, has_warning, report, run};
use crate::osjitter::Osjitter;
#[cfg(target_os = "linux")]
use crate::osjitter::Ran;
#[cfg(target_os = "linux")]
use crate::process_control::processes_with_variable;
use crate::process_control::{is_alive, read_process_id};
#[cfg(target_os = "linux")]
use crate::test_programs::gated_loop;

#[test]
fn environment_matches_contract() {
    let home = Home::new();
    let script = format!(
        "echo \"$OSJITTER_SERIES $OSJITTER_PERIOD_NS $OSJITTER_TICKS $OSJITTER_WARMUP $OSJITTER_METER\" >>\"$HOME_OF_TEST/environments\"\n{CORRECT_PROGRAM}"
    );
    let _ = home.run(&script, &["--meter", "control loop"]).exits(0);
    let environments = home.text("environments");
    let startup = "ticks 1000000 1 0 control loop";
    let settings = "ticks 1000000 60 0 control loop";
    let round = "ticks 1000000 20 3 control loop";
    let starts = environments.lines().take_while(|line| *line == startup).count();
    assert!(STARTS.contains(&starts), "{environments}");
    assert_eq!(
        environments.lines().skip(starts).collect::<Vec<_>>(),
        [vec![settings; SETTINGS_RUNS], vec![round; 3]].concat()
    );
}

#[cfg(target_os = "linux")]
#[test]
fn program_inherits_cpu_and_class() {
    let field = |text: &str, name: &str| {
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .unwrap_or_else(|| panic!("{name}: {text}"));
        line.trim_start_matches(':').trim().to_owned()
    };
    let measured = std::fs::read_to_string("/proc/self/status").unwrap();
    let cpu = field(&measured, "Cpus_allowed_list").split(['-', ',']).next().unwrap().to_owned();
    let slack = std::fs::read_to_string("/proc/self/timerslack_ns").unwrap();
    let script = format!(
        "{IS_ROUND} && {{ grep Cpus_allowed_list /proc/$$/status; cut -d' ' -f41 /proc/$$/stat; cat /proc/$$/timerslack_ns; }} \
         >>\"$HOME_OF_TEST/seen\"\n{CORRECT_PROGRAM}"
    );
    let home = Home::new();
    let ran = home.run(&script, &["--cpu", &cpu]).exits(0);
    let seen = home.text("seen");
    assert_eq!(seen, format!("Cpus_allowed_list:\t{cpu}\n0\n{slack}").repeat(3));
    assert_eq!(report(&ran)["plan"]["cpu"], cpu.parse::<u64>().unwrap());
    // Only if this process has the privilege.
    let home = Home::new();
    let ran = home.run(&script, &["--sched", "rr:1"]);
    if ran.code == 0 {
        let seen = home.text("seen");
        assert!(seen.lines().skip(1).step_by(3).all(|policy| policy == "2"), "{seen}");
    } else {
        assert!(ran.code == 2 && ran.stderr.contains("cannot run as rr:1"), "{}", ran.stderr);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn unlocked_program_is_stated() {
    let warns = |ran: &Ran| has_warning(&report(ran), "mlock-program");
    assert!(!warns(&Home::new().run(CORRECT_PROGRAM, &[]).exits(0)));
    let ran = Home::new().run(CORRECT_PROGRAM, &["--mlock"]);
    // Only if this process may lock its memory.
    match ran.code {
        0 => assert!(warns(&ran), "{}", ran.stdout),
        _ => assert!(ran.code == 2 && ran.stderr.contains("cannot lock"), "{}", ran.stderr),
    }
}

/// Runs a program with options until its settings are known: on a busy machine, they may not be
/// read during its short run.
#[cfg(target_os = "linux")]
fn run_until_settings_known(options: &[&str], program: &Path) -> Report {
    const ATTEMPTS: usize = 10;
    let mut reports = (0..ATTEMPTS).map(|_| {
        let run = ["run", "--period", "1ms", "--ticks", "60", "--max-start-time", "60s"];
        let command = Osjitter::new(run).args(options).out("").args(["--"]).args([program]);
        command.run().exits(0).report()
    });
    let has_settings = |report: &Report| report.subjects.iter().all(|s| s.settings.is_some());
    reports.find(has_settings).expect("settings")
}

#[cfg(target_os = "linux")]
#[test]
fn programs_have_settings_of_plan() {
    let cpu = *engine::machine::os::affinity().unwrap().last().unwrap();
    let options = ["--subject", "os-interval", "--timer-slack", "777us", "--cpu", &cpu.to_string()];
    let report = run_until_settings_known(&options, &gated_loop());
    let program = report.subjects.iter().find(|s| s.name != "os-interval").unwrap();
    let settings = program.settings.as_ref().unwrap();
    assert_eq!(settings.initial_timer_slack_ns, Some(777_000));
    for thread in &settings.threads {
        assert_eq!(thread.affinity.as_deref(), Some(&[cpu][..]));
        // Reading the timer slack of another process needs a capability.
        assert!(thread.timer_slack_ns.is_none_or(|ns| ns == 777_000), "{thread:?}");
    }
    let is_affinity = |d: &SettingDifference| d.setting == SettingName::Affinity;
    assert!(!settings.differences.iter().any(is_affinity), "{settings:?}");
}

/// A start takes a second, so three rounds take at least three.
#[test]
fn estimates_include_starts() {
    let home = Home::new();
    let command = home.script(&format!("sleep 1\n{CORRECT_PROGRAM}"));
    let ran = run(&command, &[]).run().exits(0);
    let line = ran.stderr.lines().find(|line| line.contains("subjects ×")).expect("an estimate");
    assert!(seconds_after(line, "about ") >= 3, "{line}");
    let gate = ["gate", "--base-cmd", &command, "--candidate-cmd", &command, "--max-pairs", "24"];
    let mut gate =
        Osjitter::new(gate).args(["--period", "1ms", "--round-ticks", "5"]).out("").start();
    let line = gate.says("to the first look");
    gate.signal(Signal::INT);
    let _ = gate.ends().exits(4);
    assert!(seconds_after(&line, "gate: ") >= 48, "{line}");
}

/// Returns the seconds of an estimate such as `about 3s` or `about 2 min`.
fn seconds_after(line: &str, before: &str) -> u64 {
    let (_, time) = line.split_once(before).unwrap_or_else(|| panic!("{line}"));
    let digits: String = time.chars().take_while(char::is_ascii_digit).collect();
    let number: u64 = digits.parse().unwrap_or_else(|_| panic!("{line}"));
    if time[digits.len()..].starts_with(" min") { number * 60 } else { number }
}

#[test]
fn program_processes_end_with_round() {
    let home = Home::new();
    // A child that stays, one that is forked twice, and on Linux one in its measured session.
    let away = if cfg!(target_os = "linux") { "setsid sleep 600 &" } else { "" };
    let script = format!(
        r#"ids=$HOME_OF_TEST/ids alive=$HOME_OF_TEST/alive
for id in $(cat "$ids" 2>/dev/null); do kill -0 "$id" 2>/dev/null && echo "$id" >>"$alive"; done
exec 2>&-
sleep 600 & echo $! >>"$ids"
( sleep 600 & echo $! >>"$ids" )
{away}
{CORRECT_PROGRAM}"#
    );
    let ran = home.run(&script, &[]).exits(0);
    assert_eq!(report(&ran)["subjects"][0]["summary"]["ticks"], 60);
    assert!(!home.path("alive").exists(), "processes ran on into the next round");
    assert!(has_warning(&report(&ran), "left-over-processes"));
    let ids = home.text("ids");
    let runs = ids.lines().count() / 2;
    let starts = runs - 3 - SETTINGS_RUNS;
    assert!(STARTS.contains(&starts) && ids.lines().count() == 2 * runs, "{ids}");
    assert!(ids.lines().all(|id| !is_alive(id.parse().unwrap())), "{ids}");
    #[cfg(target_os = "linux")]
    assert!(processes_with_variable("HOME_OF_TEST", home.0.path()).is_empty());
}

#[test]
fn interrupt_ends_program_and_keeps_rounds() {
    let home = Home::new();
    let script = format!(
        "{IS_ROUND} && [ -e \"$HOME_OF_TEST/first\" ] && {{ echo $$ >\"$HOME_OF_TEST/id\"; kill -INT $PPID; exec sleep 600; }}\n\
         {IS_ROUND} && : >\"$HOME_OF_TEST/first\"\n{CORRECT_PROGRAM}"
    );
    let ran = home.run(&script, &[]).exits(4);
    let report = report(&ran);
    let measured = &report["subjects"][0];
    assert_eq!(
        (&report["partial"], &measured["status"]["state"]),
        (&json!(true), &json!("partial"))
    );
    assert_eq!(measured["summary"]["ticks"], 20);
    assert!(!is_alive(read_process_id(&home.path("id"))));
}
