//! Runs `osjitter top` on the loops of a metered program.
#![cfg(unix)]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

#[cfg(target_os = "linux")]
use engine::measure::why::hindsight::Hindsight;
use rustix::process::Signal;
use serde_json::Value;
use tickmeter::{ENV_DIRECTORY, Meter};

use crate::osjitter::Osjitter;
#[cfg(target_os = "linux")]
use crate::process_control::state;
use crate::process_control::{KilledOnDrop, poll_until, send_signal};
#[cfg(target_os = "linux")]
use crate::pseudo_terminal::{connect_terminal, open_terminal};
use crate::schema;

/// Environment variable with the number of ticks of the metered program; unlimited if unset.
const TICKS_VARIABLE: &str = "OSJITTER_TEST_TICKS";
/// Environment variable with the number of further meters of the program, which tick as often.
const WORKERS_VARIABLE: &str = "OSJITTER_TEST_WORKERS";

/// Environment variable with which a tick of the program is late now and then.
const LATE_VARIABLE: &str = "OSJITTER_TEST_LATE";
/// Number of ticks from one late tick to the next.
const TICKS_PER_LATE_TICK: u64 = 100;
const LATENESS: Duration = Duration::from_millis(200);

/// Uses a CPU for the time by which a tick is late.
#[inline(never)]
#[allow(clippy::disallowed_methods, reason = "the duration of a late tick")]
fn use_cpu() {
    let started = Instant::now();
    while started.elapsed() < LATENESS {
        std::hint::black_box((0..100_000_u32).fold(0, u32::wrapping_add));
    }
}

/// The metered program, which other tests run as a process. It ends when its parent has ended.
#[test]
#[ignore = "a process for the other tests"]
#[allow(clippy::disallowed_methods, reason = "this is the metered program")]
fn metered_program() {
    if std::env::var_os(ENV_DIRECTORY).is_none() {
        return;
    }
    let period = Duration::from_millis(2);
    let mut meters =
        ["control-loop", "control-loop"].map(|name| Meter::register(name, period).unwrap());
    let workers = std::env::var(WORKERS_VARIABLE).map_or(0, |workers| workers.parse().unwrap());
    let mut workers: Vec<Meter> = (0..workers)
        .map(|n: usize| Meter::register(&format!("worker-{n}"), period).unwrap())
        .collect();
    println!("\nready {}", std::process::id());
    let has_late_ticks = std::env::var_os(LATE_VARIABLE).is_some();
    if has_late_ticks {
        // If this is permitted, a late tick runs its code even next to many other programs,
        // instead of waiting for a CPU.
        _ = rustix::process::nice(-20);
    }
    let parent = std::os::unix::process::parent_id();
    let mut deadline = Instant::now();
    let mut remaining: u64 =
        std::env::var(TICKS_VARIABLE).map_or(u64::MAX, |ticks| ticks.parse().unwrap());
    while std::os::unix::process::parent_id() == parent {
        if remaining == 0 {
            std::thread::sleep(period);
            continue;
        }
        remaining -= 1;
        deadline += period;
        std::thread::sleep(deadline.saturating_duration_since(Instant::now()));
        let is_late = has_late_ticks && remaining.is_multiple_of(TICKS_PER_LATE_TICK);
        if is_late {
            use_cpu();
        }
        meters[0].tick(deadline);
        meters[0].work_done();
        if is_late {
            deadline = Instant::now();
        }
        workers.iter_mut().for_each(|meter| meter.tick(deadline));
    }
}

/// A running metered program, which ends with its test.
pub struct MeteredProgram(KilledOnDrop);

impl MeteredProgram {
    pub fn start(directory: &Path) -> Self {
        Self::start_with_ticks(directory, u64::MAX)
    }

    /// Starts a program that ticks `ticks` times, and then keeps its meters without ticking.
    pub fn start_with_ticks(directory: &Path, ticks: u64) -> Self {
        Self::start_with_workers(directory, ticks, 0)
    }

    /// Starts a program like [`start_with_ticks`](Self::start_with_ticks), with further meters.
    pub fn start_with_workers(directory: &Path, ticks: u64, workers: usize) -> Self {
        let ticks = (TICKS_VARIABLE, ticks.to_string());
        Self::start_with(directory, &[ticks, (WORKERS_VARIABLE, workers.to_string())])
    }

    fn start_with(directory: &Path, variables: &[(&str, String)]) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "top::metered_program", "--ignored", "--nocapture"])
            .env(ENV_DIRECTORY, directory)
            .envs(variables.iter().map(|(name, value)| (name, value)))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let ready = format!("ready {}", child.id());
        let is_ready = BufReader::new(child.stdout.take().unwrap())
            .lines()
            .map_while(Result::ok)
            .any(|line| line == ready);
        assert!(is_ready, "the program did not start");
        Self(KilledOnDrop(child))
    }

    pub fn id(&self) -> u32 {
        self.0.0.id()
    }
}

fn top(directory: &Path, args: &[&str]) -> Osjitter {
    Osjitter::new(["top", "--once", "--window", "1s"].iter().chain(args))
        .env(ENV_DIRECTORY, directory)
}

/// Whether the kernel and a sandbox allow samples of stacks.
#[cfg(target_os = "linux")]
fn can_sample_stacks() -> bool {
    Hindsight::for_own_threads(Duration::from_secs(1)).is_ok_and(|past| past.stacks().is_ok())
}

/// Creates files that have the ending of a meter, but are not one.
fn create_foreign_files(directory: &Path) {
    std::fs::write(directory.join("1.tickmeter"), "not a meter").unwrap();
    std::fs::write(directory.join("2.tickmeter"), vec![0xff; 72_192]).unwrap();
    std::fs::create_dir(directory.join("3.tickmeter")).unwrap();
    std::os::unix::fs::symlink("/dev/zero", directory.join("4.tickmeter")).unwrap();
}

const METERS: [&str; 2] = ["control-loop", "control-loop-2"];

fn meter_names(meters: &[Value]) -> Vec<&str> {
    meters.iter().map(|meter| meter["meter"].as_str().unwrap()).collect()
}

#[test]
fn json_lists_running_meters() {
    let home = tempfile::tempdir().unwrap();
    let directory = home.path().join("meters");
    let program = MeteredProgram::start(&directory);
    create_foreign_files(&directory);
    // On a busy machine, the program may not run for a second.
    let document = poll_until(|| {
        let ran = top(&directory, &["--format", "json"]).run().exits(0);
        let document = schema::valid(&ran.stdout, "top.1");
        (document["meters"][0]["last_1s"]["ticks"].as_u64() > Some(0)).then_some(document)
    });
    assert_eq!(document["schema"], "osjitter.top/1");
    let meters = document["meters"].as_array().unwrap();
    assert_eq!(meter_names(meters), METERS, "{document:#}");
    for meter in meters {
        assert_eq!(
            (meter["pid"].as_u64(), meter["period_ns"].as_u64()),
            (Some(program.id().into()), Some(2_000_000))
        );
        assert_eq!(meter["last_60s"], Value::Null, "it was watched for less time");
        assert_eq!(meter["total"]["early"], 0);
    }
    let (last, total) = (&meters[0]["last_1s"], &meters[0]["total"]);
    assert!(last["ticks"].as_u64() <= total["ticks"].as_u64(), "{document:#}");
    assert!(last["lateness_ns"]["p50"].as_u64() <= last["lateness_ns"]["max"].as_u64());
    assert_eq!(
        meters[1]["last_1s"]["lateness_ns"]["p99"],
        Value::Null,
        "no percentile without a tick"
    );
}

#[cfg(target_os = "linux")]
#[test]
fn late_functions_are_named() {
    const ATTEMPTS: usize = 30;
    let home = tempfile::tempdir().unwrap();
    let _program = MeteredProgram::start_with(home.path(), &[(LATE_VARIABLE, "1".to_owned())]);
    // A machine without a free CPU may leave few samples of a late tick.
    let attempts = if can_sample_stacks() { ATTEMPTS } else { 1 };
    let named = (0..attempts).find_map(|_| {
        let ran = top(home.path(), &["--format", "json"]).run().exits(0);
        let document = schema::valid(&ran.stdout, "top.1");
        document["meters"][0]["late_function"]["function"].as_str().map(str::to_owned)
    });
    match named {
        Some(function) => assert!(function.ends_with("top::use_cpu"), "{function}"),
        None => assert_eq!(attempts, 1, "no function is named"),
    }
}

#[test]
fn jsonl_has_a_line_per_meter() {
    let home = tempfile::tempdir().unwrap();
    let directory = home.path().join("meters");
    let _program = MeteredProgram::start(&directory);
    let lines = top(&directory, &["--format", "jsonl", "--sort", "name"]).run().exits(0);
    let lines: Vec<Value> =
        lines.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(meter_names(&lines), METERS);
}

#[test]
fn table_fits_eighty_columns() {
    let home = tempfile::tempdir().unwrap();
    let directory = home.path().join("meters");
    let _program = MeteredProgram::start(&directory);
    let table = top(&directory, &[]).run().exits(0);
    let rows: Vec<&str> = table.stdout.lines().collect();
    assert!(rows[0].starts_with("METER ") && rows[0].contains("*P99"), "{}", table.stdout);
    assert!(rows[1].starts_with("control-loop ") && rows[1].contains(" 2ms "), "{}", table.stdout);
    assert!(rows.iter().all(|row| row.chars().count() <= 80), "{}", table.stdout);
}

#[test]
fn files_of_killed_programs_are_removed() {
    let home = tempfile::tempdir().unwrap();
    let directory = home.path().join("meters");
    let program = MeteredProgram::start(&directory);
    create_foreign_files(&directory);
    drop(program);
    let ran = top(&directory, &["--format", "json"]).run().exits(0);
    assert_eq!(
        serde_json::from_str::<Value>(&ran.stdout).unwrap()["meters"],
        Value::Array(Vec::new())
    );
    assert!(directory.join("1.tickmeter").exists(), "{}", ran.stderr);
    assert!(ran.stderr.contains("docs/src/watching.md"), "{}", ran.stderr);
}

#[cfg(target_os = "linux")]
#[test]
fn unreadable_directory_is_no_answer() {
    let home = tempfile::tempdir().unwrap();
    let directory = home.path().join("meters");
    let program = MeteredProgram::start(&directory);
    // Standard streams take three of the descriptors, and inherited ones none.
    let limit = r#"ulimit -n 5; exec "$0" "$@" 3>&- 4>&-"#;
    let ran = top(&directory, &["--format", "json"]).in_shell(limit).run().exits(4);
    assert!(ran.stderr.contains("meters are left out"), "{}", ran.stderr);
    assert!(!ran.stderr.contains("no metered loop is running"), "{}", ran.stderr);
    assert_eq!(serde_json::from_str::<Value>(&ran.stdout).unwrap()["left_out"], 1);
    drop(program);
}

#[test]
fn invalid_meter_files_are_reported() {
    let home = tempfile::tempdir().unwrap();
    let program = MeteredProgram::start(home.path());
    let live = tickmeter::read::list(home.path()).unwrap();
    // The second loop's file has a later layout version; the name of the first has control codes.
    let write = |at: u64, bytes: &[u8]| {
        use std::os::unix::fs::FileExt;
        let file = &live[usize::from(at == 8)];
        let changeable = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(file, changeable).unwrap();
        let file = std::fs::File::options().write(true).open(file).unwrap();
        file.write_all_at(bytes, at).unwrap();
    };
    write(8, &9_u64.to_ne_bytes());
    write(17 * 8, b"\x1b[2Jrol-");
    std::fs::write(home.path().join("x\u{1b}[2J.tickmeter"), "").unwrap();
    let ran = top(home.path(), &[]).run().exits(0);
    assert!(ran.stderr.contains("layout version 9"), "{}", ran.stderr);
    assert!(ran.stderr.contains("is not a meter's file"), "{}", ran.stderr);
    assert!(ran.stdout.contains("\u{fffd}[2Jrol-loop"), "{}", ran.stdout);
    assert!(!(ran.stderr + &ran.stdout).contains('\u{1b}'));
    drop(program);
}

#[test]
fn errors_without_meters_or_terminal_help() {
    let home = tempfile::tempdir().unwrap();
    let missing = home.path().join("none");
    let ran = top(&missing, &[]).run().exits(0);
    assert_eq!(ran.stdout, "");
    assert!(ran.stderr.contains("no metered loop"), "{}", ran.stderr);
    Osjitter::new(["top"]).env(ENV_DIRECTORY, &missing).run().refuses("--once");
    Osjitter::new(["top", "--format", "json"]).run().exits(2);
}

#[test]
fn unreadable_directories_stop_nothing() {
    use std::os::unix::fs::{PermissionsExt as _, chown};
    const OTHER_USER: u32 = 54_321;
    let home = tempfile::tempdir().unwrap();
    let directory = home.path().join("tickmeter");
    std::fs::create_dir(&directory).unwrap();
    let set_mode = |mode| {
        std::fs::set_permissions(&directory, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    // As if it belonged to another user; only root can give it away.
    if chown(&directory, Some(OTHER_USER), None).is_err() {
        set_mode(0o000);
    }
    let ran = Osjitter::new(["top", "--once", "--window", "1s"])
        .env(ENV_DIRECTORY, "")
        .env("XDG_RUNTIME_DIR", home.path())
        .run()
        .exits(0);
    set_mode(0o700);
    let directory = directory.to_str().unwrap();
    let is_reported = |line: &str| line.starts_with(directory) && line.contains("left out");
    assert_eq!(ran.stderr.lines().filter(|line| is_reported(line)).count(), 1, "{}", ran.stderr);
}

/// A running `top` on a pseudoterminal, which is not the controlling terminal of the process.
#[cfg(target_os = "linux")]
struct LiveTop {
    terminal: std::fs::File,
    child: KilledOnDrop,
    output: Vec<u8>,
    /// Length of the output before the last part that was waited for.
    seen: usize,
    modes_before: TerminalModes,
}

/// Input, output and local modes of a terminal.
#[cfg(target_os = "linux")]
type TerminalModes = [u32; 3];

#[cfg(target_os = "linux")]
impl LiveTop {
    fn start(directory: &Path) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_osjitter"));
        command.arg("top").env(ENV_DIRECTORY, directory).env("TERM", "xterm-256color");
        let terminal = connect_terminal(&mut command);
        let modes_before = terminal_modes(&terminal);
        let child = KilledOnDrop(command.spawn().unwrap());
        let mut top = Self { terminal, child, output: Vec::new(), seen: 0, modes_before };
        top.shows("q quit");
        assert_ne!(top.modes(), top.modes_before, "the terminal is in raw mode");
        top
    }

    fn modes(&self) -> TerminalModes {
        terminal_modes(&self.terminal)
    }

    /// Reads a part of the output. Fails once the last writer has closed the terminal.
    fn read(&mut self) -> bool {
        use std::io::Read as _;
        let mut part = [0; 4_096];
        let length = self.terminal.read(&mut part).unwrap_or(0);
        self.output.extend_from_slice(&part[..length]);
        length > 0
    }

    /// Waits until the output contains a text after the last one.
    fn shows(&mut self, text: &str) {
        loop {
            let shown = String::from_utf8_lossy(&self.output[self.seen..]).into_owned();
            if shown.contains(text) {
                self.seen = self.output.len();
                return;
            }
            assert!(self.read(), "no {text:?} in {shown:?}");
        }
    }

    fn press(&mut self, keys: &[u8]) {
        use std::io::Write as _;
        self.terminal.write_all(keys).unwrap();
    }

    fn signal(&self, signal: Signal) {
        send_signal(self.child.0.id(), signal);
    }

    /// Waits until the process is stopped.
    fn wait_until_stopped(&self) {
        poll_until(|| (state(self.child.0.id()) == Some('T')).then_some(()));
    }

    /// Waits for the end, checks that the mode of the terminal is restored, and returns the output.
    fn ends(mut self) -> String {
        while self.read() {}
        assert_eq!(self.child.0.wait().unwrap().code(), Some(0));
        assert_eq!(self.modes(), self.modes_before, "the mode is restored");
        String::from_utf8_lossy(&self.output).into_owned()
    }

    /// Closes the terminal, and returns the exit code.
    fn close_terminal(self) -> Option<i32> {
        let Self { terminal, mut child, .. } = self;
        drop(terminal);
        poll_until(|| child.0.try_wait().unwrap()).code()
    }
}

#[cfg(target_os = "linux")]
fn terminal_modes(terminal: &std::fs::File) -> TerminalModes {
    let modes = rustix::termios::tcgetattr(terminal).unwrap();
    [modes.input_modes.bits(), modes.output_modes.bits(), modes.local_modes.bits()]
}

#[cfg(target_os = "linux")]
#[test]
fn dumb_terminal_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let (_terminal, other) = open_terminal();
    let mut command = Command::new(env!("CARGO_BIN_EXE_osjitter"));
    command.arg("top").env(ENV_DIRECTORY, home.path()).env("TERM", "dumb").stdout(other);
    let refused = command.stderr(Stdio::piped()).spawn().unwrap().wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&refused.stderr);
    assert!(refused.status.code() == Some(2) && stderr.contains("--once"), "{stderr}");
}

#[test]
#[cfg(target_os = "linux")]
fn live_view_restores_the_terminal() {
    let home = tempfile::tempdir().unwrap();
    let program = MeteredProgram::start(home.path());
    for keys in [&b"q"[..], b"\x03", b"s1q", b"\x1b"] {
        let mut top = LiveTop::start(home.path());
        top.press(keys);
        let output = top.ends();
        let start = output.rfind("\u{1b}[?1049h").unwrap();
        let end = output.rfind("\u{1b}[?1049l").unwrap();
        let is_cursor_visible = output[end - 40..].contains("\u{1b}[?25h");
        assert!(start < end && is_cursor_visible, "{output:?}");
        assert!(output[start..end].contains("control-loop-2"), "{output:?}");
    }
    drop(program);
}

#[test]
#[cfg(target_os = "linux")]
fn live_view_ends_with_its_terminal() {
    let home = tempfile::tempdir().unwrap();
    assert_eq!(LiveTop::start(home.path()).close_terminal(), Some(0));
}

#[test]
#[cfg(target_os = "linux")]
fn stopped_view_restores_the_terminal() {
    let home = tempfile::tempdir().unwrap();
    let stop_requests: [fn(&mut LiveTop); 2] =
        [|top| top.press(b"\x1a"), |top| top.signal(Signal::TSTP)];
    for request_stop in stop_requests {
        let mut top = LiveTop::start(home.path());
        request_stop(&mut top);
        top.shows("\u{1b}[?1049l");
        top.wait_until_stopped();
        assert_eq!(top.modes(), top.modes_before, "the mode is restored");
        top.signal(Signal::CONT);
        top.shows("\u{1b}[?1049h");
        top.shows("q quit");
        assert_ne!(top.modes(), top.modes_before, "the terminal is in raw mode again");
        top.press(b"q");
        top.ends();
    }
}
