//! `osjitter top`: a program that is metered, watched from outside.
#![cfg(unix)]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tickmeter::{ENV_DIRECTORY, Meter};

use crate::osjitter::Osjitter;
use crate::schema;

/// How often it ticks; without end where that is not set.
const TICKS: &str = "OSJITTER_TEST_TICKS";

/// A metered program: run by the tests below, as a process of its own. It ticks until its parent
/// has gone.
#[test]
#[ignore = "a process for the other tests"]
#[allow(clippy::disallowed_methods, reason = "it is the program that is metered")]
fn metered_program() {
    if std::env::var_os(ENV_DIRECTORY).is_none() {
        return;
    }
    let period = Duration::from_millis(2);
    let mut meters =
        ["control-loop", "control-loop"].map(|name| Meter::register(name, period).unwrap());
    println!("\nready {}", std::process::id());
    let parent = std::os::unix::process::parent_id();
    let mut deadline = Instant::now();
    let mut left: u64 = std::env::var(TICKS).map_or(u64::MAX, |ticks| ticks.parse().unwrap());
    while std::os::unix::process::parent_id() == parent {
        if left == 0 {
            std::thread::sleep(period);
            continue;
        }
        left -= 1;
        deadline += period;
        std::thread::sleep(deadline.saturating_duration_since(Instant::now()));
        meters[0].tick(deadline);
        meters[0].work_done();
    }
}

/// Ended with the test.
pub struct Metered(Child);

impl Metered {
    pub fn start(directory: &Path) -> Self {
        Self::ticking(directory, u64::MAX)
    }

    /// One that ticks so often, and then stays.
    pub fn ticking(directory: &Path, ticks: u64) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "top::metered_program", "--ignored", "--nocapture"])
            .env(ENV_DIRECTORY, directory)
            .env(TICKS, ticks.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let ready = format!("ready {}", child.id());
        let said = BufReader::new(child.stdout.take().unwrap())
            .lines()
            .map_while(Result::ok)
            .any(|line| line == ready);
        assert!(said, "the program announces itself");
        Self(child)
    }
}

impl Drop for Metered {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn top(directory: &Path, more: &[&str]) -> Osjitter {
    Osjitter::new(["top", "--once", "--window", "1s"].iter().chain(more))
        .env(ENV_DIRECTORY, directory)
}

#[test]
fn a_metered_program_is_shown_while_it_runs() {
    let home = tempfile::tempdir().unwrap();
    let directory = home.path().join("meters");
    let program = Metered::start(&directory);
    // What stands beside it is named, and stops nothing.
    std::fs::write(directory.join("1.tickmeter"), "not a meter").unwrap();
    std::fs::write(directory.join("2.tickmeter"), vec![0xff; 72_192]).unwrap();
    std::fs::create_dir(directory.join("3.tickmeter")).unwrap();
    std::os::unix::fs::symlink("/dev/zero", directory.join("4.tickmeter")).unwrap();

    let ran = top(&directory, &["--format", "json"]).run().exits(0);
    let document = schema::valid(&ran.stdout, "top.1");
    assert_eq!(document["schema"], "osjitter.top/1");
    let meters = document["meters"].as_array().unwrap();
    let names: Vec<&str> = meters.iter().map(|m| m["meter"].as_str().unwrap()).collect();
    assert_eq!(names, ["control-loop", "control-loop-2"], "{document:#}");
    for meter in meters {
        assert_eq!(
            (meter["pid"].as_u64(), meter["period_ns"].as_u64()),
            (Some(program.0.id().into()), Some(2_000_000))
        );
        assert_eq!(meter["last_60s"], Value::Null, "it was not watched for so long");
        assert_eq!(meter["total"]["early"], 0);
    }
    let (last, total) = (&meters[0]["last_1s"], &meters[0]["total"]);
    assert!(
        last["ticks"].as_u64().unwrap() > 0 && last["ticks"].as_u64() <= total["ticks"].as_u64(),
        "{document:#}"
    );
    assert!(last["lateness_ns"]["p50"].as_u64() <= last["lateness_ns"]["max"].as_u64());
    assert_eq!(meters[1]["last_1s"]["lateness_ns"]["p99"], Value::Null, "no tick, no percentile");

    let lines = top(&directory, &["--format", "jsonl", "--sort", "name"]).run().exits(0);
    let lines: Vec<Value> =
        lines.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.iter().map(|m| m["meter"].as_str().unwrap()).collect::<Vec<_>>(), names);

    let table = top(&directory, &[]).run().exits(0);
    let rows: Vec<&str> = table.stdout.lines().collect();
    assert!(rows[0].starts_with("METER ") && rows[0].contains("*P99"), "{}", table.stdout);
    assert!(rows[1].starts_with("control-loop ") && rows[1].contains(" 2ms "), "{}", table.stdout);
    assert!(rows.iter().all(|row| row.chars().count() <= 80), "{}", table.stdout);

    drop(program);
    // What a process that was killed leaves behind is swept, and what is no meter stays.
    let over = top(&directory, &["--format", "json"]).run().exits(0);
    assert_eq!(
        serde_json::from_str::<Value>(&over.stdout).unwrap()["meters"],
        Value::Array(Vec::new())
    );
    assert!(
        directory.join("1.tickmeter").exists() && over.stderr.contains("docs/src/watching.md"),
        "it says what to do: {}",
        over.stderr
    );
}

#[test]
fn files_that_are_hostile_are_named() {
    let home = tempfile::tempdir().unwrap();
    let program = Metered::start(home.path());
    let live = tickmeter::read::list(home.path()).unwrap();
    // A later version writes the second loop's file; the other has a name that commands terminals.
    let write = |at: u64, bytes: &[u8]| {
        use std::os::unix::fs::FileExt;
        let file = |n: usize| std::fs::File::options().write(true).open(&live[n]).unwrap();
        file(usize::from(at == 8)).write_all_at(bytes, at).unwrap();
    };
    write(8, &9_u64.to_ne_bytes());
    write(17 * 8, b"\x1b[2Jrol-");
    std::fs::write(home.path().join("x\u{1b}[2J.tickmeter"), "").unwrap();
    let ran = top(home.path(), &[]).run().exits(0);
    assert!(
        ran.stderr.contains("layout version 9") && ran.stderr.contains("is not a meter's file"),
        "{}",
        ran.stderr
    );
    assert!(ran.stdout.contains("\u{fffd}[2Jrol-loop"), "{}", ran.stdout);
    assert!(!(ran.stderr + &ran.stdout).contains('\u{1b}'));
    drop(program);
}

#[test]
fn without_a_meter_or_a_terminal_it_says_what_to_do() {
    let home = tempfile::tempdir().unwrap();
    let missing = home.path().join("none");
    let ran = top(&missing, &[]).run().exits(0);
    assert_eq!(ran.stdout, "");
    assert!(ran.stderr.contains("no metered loop"), "{}", ran.stderr);
    let ran = Osjitter::new(["top"]).env(ENV_DIRECTORY, &missing).run().exits(2);
    assert!(ran.stderr.contains("--once"), "{}", ran.stderr);
    Osjitter::new(["top", "--format", "json"]).run().exits(2);
}

/// On a terminal of our own making: what was drawn until the keys had ended it, and whether the
/// terminal is as it was.
#[cfg(target_os = "linux")]
fn live(directory: &Path, keys: &[u8]) -> String {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    use rustix::termios::{Winsize, tcgetattr, tcsetwinsize};
    use std::io::{Read as _, Write as _};
    use std::os::unix::ffi::OsStrExt as _;

    let main = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&main).unwrap();
    unlockpt(&main).unwrap();
    let name = ptsname(&main, Vec::new()).unwrap();
    let path = std::ffi::OsStr::from_bytes(name.as_bytes());
    let other = std::fs::File::options().read(true).write(true).open(path).unwrap();
    tcsetwinsize(&other, Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
    let modes = || {
        let modes = tcgetattr(&main).unwrap();
        (modes.input_modes, modes.output_modes, modes.local_modes)
    };
    let before = modes();
    let mut child = Command::new(env!("CARGO_BIN_EXE_osjitter"))
        .arg("top")
        .env(ENV_DIRECTORY, directory)
        .env("TERM", "xterm-256color")
        .stdin(other.try_clone().unwrap())
        .stdout(other.try_clone().unwrap())
        .stderr(other)
        .spawn()
        .unwrap();
    let mut terminal = std::fs::File::from(main.try_clone().unwrap());
    let (mut seen, mut asked) = (Vec::new(), false);
    let mut part = [0; 4_096];
    // The end of the last writer is an error here.
    while let Ok(n @ 1..) = terminal.read(&mut part) {
        seen.extend_from_slice(&part[..n]);
        if !asked && String::from_utf8_lossy(&seen).contains("q quit") {
            asked = true;
            assert_ne!(modes(), before, "keys are read one by one");
            terminal.write_all(keys).unwrap();
        }
    }
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(modes(), before, "the terminal is as it was");
    String::from_utf8_lossy(&seen).into_owned()
}

#[test]
#[cfg(target_os = "linux")]
fn the_live_view_ends_clean() {
    let home = tempfile::tempdir().unwrap();
    let program = Metered::start(home.path());
    for keys in [&b"q"[..], b"\x03", b"s1q"] {
        let seen = live(home.path(), keys);
        let [entered, left] =
            ["\u{1b}[?1049h", "\u{1b}[?1049l"].map(|code| seen.rfind(code).unwrap());
        assert!(
            entered < left && seen[left - 40..].contains("\u{1b}[?25h"),
            "the cursor is back: {seen:?}"
        );
        assert!(seen[entered..left].contains("control-loop-2"), "{seen:?}");
    }
    drop(program);
}
