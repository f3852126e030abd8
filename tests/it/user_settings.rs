//! Tests of `osjitter doctor --prove --try`: commands of the user, which are always undone.
#![cfg(unix)]

use std::path::PathBuf;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::osjitter::{Osjitter, Ran, Running, run_long_enough};
use crate::process_control::eventually;
use crate::schema;

/// Variable in the environment of osjitter and of everything that it starts.
const MARK: &str = "HOME_OF_USER_SETTINGS";

/// A setting that is in effect while a file exists, and the log of its commands.
struct Scene(tempfile::TempDir);

impl Scene {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Returns a command that adds a line to the log and then runs a script.
    fn command(&self, line: &str, script: &str) -> String {
        format!("sh -c 'cd {}; echo {line} >> log; {script}'", self.0.path().display())
    }

    fn change(&self) -> String {
        self.command("try", "touch set")
    }

    fn undo(&self) -> String {
        // The command may run twice, if the process that ran it is killed.
        self.command("undo", "rm -f set")
    }

    fn doctor(&self, change: &str, undo: &str, max_time: &str) -> Osjitter {
        let change = format!("file={change}");
        let command = Osjitter::new(["doctor", "--prove", "--max-time", max_time, "--try"]);
        command.args([&change, "--undo", undo]).env(MARK, self.0.path())
    }

    /// A proof that lasts for minutes.
    fn proof(&self) -> Osjitter {
        let doctor = self.doctor(&self.change(), &self.undo(), "600s");
        doctor.args(["--subject", "os-interval"])
    }

    fn start(&self) -> Running {
        self.proof().start()
    }

    fn is_set(&self) -> bool {
        self.path("set").exists()
    }

    /// Waits until the setting is in effect for the second time, which is after the rehearsal.
    fn wait_for_round(&self) {
        let is_in_round = || self.log().matches("try").count() > 1 && self.is_set();
        assert!(eventually(is_in_round), "{}", self.log());
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    /// Checks that nothing is set, and that each command ran in turn with the one that undoes it.
    #[track_caller]
    fn assert_undone(&self) {
        self.assert_turns(&self.log());
    }

    #[track_caller]
    fn assert_turns(&self, log: &str) {
        assert!(!self.is_set(), "{log}");
        let changes = log.matches("try").count();
        assert_eq!(log, "try\nundo\n".repeat(changes));
    }

    /// Waits for the end of all processes after one of them was killed. Another one may repeat its
    /// undo.
    #[track_caller]
    fn assert_cleaned_up(&self) {
        #[cfg(target_os = "linux")]
        {
            use crate::process_control::processes_with_variable;
            let processes = || processes_with_variable(MARK, self.0.path());
            assert!(eventually(|| processes().is_empty()), "{:?}", processes());
        }
        assert!(eventually(|| !self.is_set()), "{}", self.log());
        let mut log = self.log();
        while log.contains("undo\nundo\n") {
            log = log.replace("undo\nundo\n", "undo\n");
        }
        self.assert_turns(&log);
    }
}

#[allow(clippy::disallowed_methods, reason = "the command measures in the meantime")]
fn pause(time: Duration) {
    std::thread::sleep(time);
}

/// Returns the lateness of the ticks of each round.
fn rounds(late_ns: u64) -> Vec<Vec<u64>> {
    (0..40).map(|i| vec![late_ns + 37 * ((i * 7) % 11), late_ns + 50 * ((i * 5) % 7)]).collect()
}

fn rows(ran: &Ran) -> Vec<Value> {
    let checkup = schema::valid(&ran.file("checkup.json"), "doctor.1");
    checkup["proof"]["subjects"][0]["rows"].as_array().unwrap().clone()
}

#[test]
fn effective_command_is_found_and_undone() {
    let scene = Scene::new();
    let script = json!({
        "scripted": { "lateness_ns": rounds(30_000), "cpu_ns_per_tick": 9_000 },
        "scripted@100us/current-thread+cpu:1+file": { "lateness_ns": rounds(12_000), "cpu_ns_per_tick": 9_000 },
    });
    let (change, undo) = (scene.change(), scene.undo());
    let command = |time: &str| {
        let args = ["--subject", "scripted", "--period", "100us", "--load", "cpu:1"];
        let idle = ["--try", "idle=true", "--undo", "true", "--format", "json"];
        let doctor = scene.doctor(&change, &undo, time).args(args).args(idle);
        doctor.script(&script).out("checkup.json")
    };
    let ran = run_long_enough(10, command, |_| true).completes_proof();
    scene.assert_undone();
    let rows = rows(&ran);
    let keys: Vec<&str> = rows.iter().map(|row| row["key"].as_str().unwrap()).collect();
    assert_eq!(keys, ["again", "file", "idle"], "no built-in settings");
    let shown = |row: &Value| row["outcome"]["differences"]["p50"]["shown"].clone();
    assert_eq!([0, 1, 2].map(|i| shown(&rows[i])), ["no-difference", "less", "no-difference"]);
    assert_eq!(rows[1]["commands"], json!({ "try": change, "undo": undo }));
    assert_eq!(rows[0]["commands"], Value::Null);
    let table = Osjitter::new(["report".into(), ran.path("checkup.json")]).run().exits(0).stdout;
    let has_advice = table.contains("file makes ticks less late: p50 -60 %");
    assert!(has_advice != table.contains("Unfit machine"), "{table}");
    assert!(table.contains("scripted each 100 us under cpu:1, "), "{table}");
}

#[test]
fn interrupted_settings_are_undone() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT] {
        let scene = Scene::new();
        let running = scene.start();
        scene.wait_for_round();
        running.signal(signal);
        running.ends().exits(4);
        scene.assert_undone();
    }
}

/// A service manager signals all processes of a service.
#[cfg(target_os = "linux")]
#[test]
fn stopped_service_undoes_its_setting() {
    let scene = Scene::new();
    let running = scene.start();
    scene.wait_for_round();
    for process in crate::process_control::processes_with_variable(MARK, scene.0.path()) {
        // A command may have ended in the meantime.
        let _ = rustix::process::kill_process(crate::process_control::pid(process), Signal::TERM);
    }
    running.ends().exits(4);
    scene.assert_cleaned_up();
}

#[test]
fn settings_of_killed_proof_are_undone() {
    let scene = Scene::new();
    let running = scene.start();
    scene.wait_for_round();
    running.kill();
    scene.assert_cleaned_up();
}

#[test]
fn running_commands_complete_after_kill() {
    let scene = Scene::new();
    let change = scene.command("try", "touch set; sleep 0.5");
    let undo = scene.command("undo", "sleep 0.5; rm set");
    for line in ["try", "undo"] {
        let _ = std::fs::remove_file(scene.path("log"));
        let running = scene.doctor(&change, &undo, "600s").start();
        assert!(eventually(|| scene.log().contains(line)));
        running.kill();
        scene.assert_cleaned_up();
    }
}

#[test]
fn processes_in_background_are_ended() {
    let scene = Scene::new();
    // The process holds the setting. It ends with the undo, whose command does not name it.
    let change = scene.command("try", "sleep 1000 & touch set");
    let running = scene.doctor(&change, &scene.undo(), "600s").start();
    scene.wait_for_round();
    running.signal(Signal::INT);
    running.ends().exits(4);
    scene.assert_cleaned_up();
}

#[test]
fn failing_commands_end_the_proof() {
    let scene = Scene::new();
    let (change, undo) = (scene.change(), scene.undo());
    let run = |change: &str, undo: &str| {
        let ran = scene.doctor(change, undo, "600s").run().exits(4);
        assert!(ran.stdout.is_empty(), "{}", ran.stdout);
        assert_eq!(ran.stderr.matches("error: ").count(), 1, "{}", ran.stderr);
        ran.stderr
    };
    let failing = scene.command("try", "touch set; echo broken; exit 3");
    let stderr = run(&failing, &undo);
    assert!(stderr.contains("nothing was measured: --try file failed: sh -c"), "{stderr}");
    assert!(stderr.contains("ended with exit status: 3; output: broken"), "{stderr}");
    scene.assert_undone();
    // The rehearsal and the first rounds succeed.
    let failing = scene.command("try", "touch set; test $(wc -l < log) -lt 9");
    let stderr = run(&failing, &undo);
    assert!(stderr.contains("error: --try file failed"), "{stderr}");
    scene.assert_undone();
    let failing = scene.command("undo", "echo stuck >&2; exit 7");
    let stderr = run(&change, &failing);
    assert!(stderr.contains("so file may still be in effect: sh -c"), "{stderr}");
    assert!(stderr.contains("exit status: 7; output: stuck"), "{stderr}");
}

/// An undo command that succeeds may still leave the setting of the proof.
#[cfg(target_os = "linux")]
#[test]
fn ineffective_undo_ends_the_proof() {
    let scene = Scene::new();
    // The parent of this command's parent is osjitter: the second field after the name.
    let renice = "set -- $(cut -d \")\" -f 2- /proc/$PPID/stat) && renice -n 10 -p $2";
    let change = scene.command("try", renice);
    let undo = scene.command("undo", "true");
    let ran = scene.doctor(&change, &undo, "600s").run().exits(4);
    let says = "error: nothing was measured: --undo of file did not restore the nice value (was ";
    assert!(ran.stdout.is_empty() && ran.stderr.contains(says), "{}", ran.stderr);
    scene.assert_undone();
}

#[test]
fn invalid_settings_exit_with_2() {
    for (args, says) in [
        (&["--try", "a=true"][..], "--try a has no --undo"),
        (&["--undo", "true"], "--try <NAME=COMMAND>"),
        (&["--try", "a=true", "--undo", "true", "--undo", "true"], "2 --undo, but 1 --try"),
        (&["--try", "true", "--undo", "true"], "expected NAME=COMMAND"),
        (&["--try", "a b=true", "--undo", "true"], "invalid name \"a b\""),
        (&["--try", "a=echo 0 > x", "--undo", "true"], "run it with sh -c"),
        (&["--try", "a=/no/such", "--undo", "true"], "there is no such program"),
        (&["--try", "again=true", "--undo", "true"], "another setting has this name"),
        (&["--load", "cpu:x"], "--load"),
    ] {
        Osjitter::new(["doctor", "--prove"]).args(args).run().refuses(says);
    }
    Osjitter::new(["doctor", "--try", "a=true", "--undo", "true"]).run().refuses("--prove");
}

#[test]
fn settings_file_names_commands() {
    use std::os::unix::fs::PermissionsExt;
    let scene = Scene::new();
    let (change, undo) = (scene.change(), scene.undo());
    let change = format!("file={change}");
    let text = format!(
        "[doctor]\nsubject = \"scripted\"\nperiod = \"100us\"\nmax-time = \"2s\"\n\
         try = [{change:?}, \"idle=true\"]\nundo = [{undo:?}, \"true\"]\n"
    );
    let file = scene.path("osjitter.toml");
    std::fs::write(&file, text).unwrap();
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o644)).unwrap();
    let script = json!({
        "scripted": { "lateness_ns": rounds(30_000), "cpu_ns_per_tick": 9_000 },
    });
    let run = |args: &[&str]| {
        let command = Osjitter::new(["doctor"]).args(args);
        let command = command.directory(scene.0.path()).env("HOME", scene.0.path());
        command.script(&script).out("checkup.json")
    };
    // Without --prove, the commands do not run.
    run(&[]).run().exits(0);
    assert_eq!(scene.log(), "");
    let command = |time: &str| run(&["--prove", "--format", "json", "--max-time", time]);
    let ran = run_long_enough(5, command, |_| true).completes_proof();
    assert_eq!(rows(&ran).len(), 3);
    scene.assert_undone();
    assert_ne!(scene.log(), "");
}

/// Tests of the process that runs the commands, which is found by its name.
#[cfg(target_os = "linux")]
mod helper {
    use jitterstat::stats::random::SplitMix64;
    use rustix::process::kill_process;

    use super::*;
    use crate::process_control::{pid, processes_with_variable, send_signal, state};

    /// Returns the process that runs the commands, once it is started.
    fn helper(scene: &Scene) -> Option<u32> {
        let is_helper = |id: &u32| {
            let command = std::fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
            command.starts_with(b"osjitter-trials")
        };
        processes_with_variable(MARK, scene.0.path()).into_iter().find(is_helper)
    }

    /// Disturbs the helper of proofs until osjitter undoes a setting in its place: on a busy
    /// machine, a setting is no longer in effect when the signal arrives.
    #[track_caller]
    fn assert_replaced(says: &str, disturb: impl Fn(&Scene, &Running)) {
        const ATTEMPTS: usize = 20;
        let is_replaced = |_| {
            let scene = Scene::new();
            let running = scene.start();
            scene.wait_for_round();
            disturb(&scene, &running);
            let ran = running.ends().exits(4);
            scene.assert_cleaned_up();
            ran.stderr.contains(says)
        };
        assert!((0..ATTEMPTS).any(is_replaced), "no proof ended with {says:?}");
    }

    #[test]
    fn killed_helper_is_replaced_by_osjitter() {
        assert_replaced("was killed; file was undone", |scene, _| {
            send_signal(helper(scene).unwrap(), Signal::KILL);
        });
    }

    #[test]
    fn commands_of_killed_helper_complete() {
        let scene = Scene::new();
        let change = scene.command("try", "sleep 0.5; touch set; sleep 0.5");
        let undo = scene.command("undo", "rm -f set");
        let running = scene.doctor(&change, &undo, "600s").start();
        assert!(eventually(|| scene.log().contains("try")));
        send_signal(helper(&scene).unwrap(), Signal::KILL);
        running.ends().exits(4);
        scene.assert_cleaned_up();
    }

    #[test]
    fn interrupt_ends_start_of_helper() {
        let scene = Scene::new();
        let running = scene.start();
        // Without a pause, so that it is found before it replies.
        const MAX_POLLS: u32 = 1_000_000;
        let helper = (0..MAX_POLLS).find_map(|_| helper(&scene)).unwrap();
        send_signal(helper, Signal::STOP);
        running.signal(Signal::INT);
        let ran = running.ends().exits(4);
        assert!(!ran.stderr.contains("it does not start"), "{}", ran.stderr);
        scene.assert_cleaned_up();
    }

    #[test]
    fn stopped_helper_does_not_block_interrupt() {
        assert_replaced("was stopped; file was undone", |scene, running| {
            send_signal(helper(scene).unwrap(), Signal::STOP);
            running.signal(Signal::INT);
        });
    }

    #[test]
    fn stopped_helper_is_replaced() {
        assert_replaced("was stopped; file was undone", |scene, _| {
            send_signal(helper(scene).unwrap(), Signal::STOP);
        });
    }

    #[test]
    fn stopped_helper_undoes_after_kill() {
        let scene = Scene::new();
        let running = scene.start();
        scene.wait_for_round();
        send_signal(helper(&scene).unwrap(), Signal::STOP);
        running.kill();
        scene.assert_cleaned_up();
    }

    #[test]
    fn slow_undo_is_awaited_and_named() {
        let scene = Scene::new();
        let undo = scene.command("undo", "sleep 7; rm set");
        let running = scene.doctor(&scene.change(), &undo, "600s").start();
        assert!(eventually(|| scene.is_set()));
        running.signal(Signal::INT);
        let ran = running.ends().exits(4);
        assert!(ran.stderr.contains("file is still in effect"), "{}", ran.stderr);
        scene.assert_undone();
    }

    #[test]
    fn second_interrupt_names_the_undo() {
        let scene = Scene::new();
        let undo = scene.command("undo", "sleep 9; rm set");
        let running = scene.doctor(&scene.change(), &undo, "600s").start();
        assert!(eventually(|| scene.log().contains("undo")));
        running.signal(Signal::INT);
        pause(Duration::from_millis(50));
        running.signal(Signal::INT);
        let ran = running.ends().exits(4);
        assert!(ran.stderr.contains(&undo), "{}", ran.stderr);
        scene.assert_cleaned_up();
    }

    #[test]
    fn second_proof_is_refused() {
        let scene = Scene::new();
        let other = Scene::new();
        let lock = scene.0.path().file_name().unwrap().to_owned();
        let doctor = |scene: &Scene| {
            let doctor = scene.doctor(&scene.change(), &scene.undo(), "600s");
            doctor.env("OSJITTER_PROOF_LOCK", &lock)
        };
        let running = doctor(&scene).start();
        scene.wait_for_round();
        let refused = doctor(&other).run().exits(4);
        assert!(refused.stderr.contains("another proof with --try runs"), "{}", refused.stderr);
        assert_eq!(other.log(), "");
        running.kill();
        // The lock is held until the setting is undone.
        scene.assert_cleaned_up();
        let running = doctor(&other).start();
        other.wait_for_round();
        running.signal(Signal::INT);
        running.ends().exits(4);
        other.assert_cleaned_up();
    }

    #[test]
    fn suspended_proof_has_nothing_in_effect() {
        let scene = Scene::new();
        let running = scene.proof().in_own_group().start();
        scene.wait_for_round();
        running.signal(Signal::TSTP);
        assert!(eventually(|| state(running.id()) == Some('T')));
        assert!(eventually(|| !scene.is_set()), "{}", scene.log());
        let changes = scene.log().matches("try").count();
        running.signal(Signal::CONT);
        assert!(eventually(|| scene.log().matches("try").count() > changes), "it goes on");
        running.signal(Signal::INT);
        running.ends().exits(4);
        scene.assert_cleaned_up();
    }

    #[test]
    fn stopped_proof_is_undone_and_ends() {
        let scene = Scene::new();
        let running = scene.start();
        scene.wait_for_round();
        // The round may end just before: then the next change is applied after the stop.
        running.signal(Signal::STOP);
        assert!(eventually(|| state(running.id()) == Some('T')));
        assert!(eventually(|| !scene.is_set()), "{}", scene.log());
        running.signal(Signal::CONT);
        running.signal(Signal::INT);
        running.ends().exits(4);
        scene.assert_cleaned_up();
    }

    /// Kills one of both processes at random moments.
    fn kill_at_random(kills: u64) {
        const MAX_PAUSE_MS: u64 = 2_000;
        let mut random = SplitMix64::new(43);
        for kill in 0..kills {
            let scene = Scene::new();
            let (change, undo) = (scene.change(), scene.command("undo", "rm -f set"));
            let doctor = scene.doctor(&change, &undo, "600s").args(["--subject", "os-interval"]);
            let running = doctor.start();
            pause(Duration::from_millis(random.below(MAX_PAUSE_MS)));
            let victim = if random.coin() { None } else { helper(&scene) };
            match victim {
                Some(helper) => {
                    let _ = kill_process(pid(helper), Signal::KILL);
                    let ran = running.ends();
                    assert_eq!(ran.code, 4, "kill {kill}: {}", ran.stderr);
                }
                None => running.kill(),
            }
            let processes = || processes_with_variable(MARK, scene.0.path());
            assert!(eventually(|| processes().is_empty()), "kill {kill}: {:?}", processes());
            assert!(!scene.is_set(), "kill {kill}, helper {victim:?}: {}", scene.log());
        }
    }

    #[test]
    fn kills_of_either_process_undo() {
        kill_at_random(4);
    }

    mod nightly {
        use super::*;

        #[test]
        #[ignore = "nightly: 500 kills at random moments"]
        fn many_kills_leave_nothing_on() {
            kill_at_random(500);
        }
    }
}
