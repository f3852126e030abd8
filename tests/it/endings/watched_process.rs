//! A running command, with everything that the test needs to end it and to find what it leaves.
#![allow(clippy::disallowed_methods, reason = "the test polls processes, with a limit")]

use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{CWD, Mode, OFlags};
use rustix::process::{Pid, Resource, Rlimit, Signal};

use super::ending::Ending;
use super::lengthy_commands::{LengthyCommand, StartSign};
use crate::process_control::{self, processes_with_variable, stat_fields};
use crate::pseudo_terminal::{connect_terminal, read_until};

/// Time after which a command counts as hanging.
const HANG_TIMEOUT: Duration = Duration::from_secs(300);
const POLL_INTERVAL: Duration = Duration::from_millis(4);
/// Maximum length of the output in a message.
const MAX_OUTPUT_BYTES: usize = 4_000;
/// Units of CPU time in `/proc`.
const TICKS_PER_SECOND: f64 = 100.0;
/// Environment variable with the directory of the row, which every started process inherits.
const MARKER: &str = "OSJITTER_ENDING";
const FIXTURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/report.json");
/// A program that implements the contract of measured programs, and leaves a child behind.
const PROGRAM: &str = "sleep 600 & sleep 0.03\n";
const SERIES: &str = "{ echo osjitter.series/1 period_ns=$OSJITTER_PERIOD_NS; yes 20000 | head -n $OSJITTER_TICKS; } >$OSJITTER_OUT\n";
/// A load of two processes.
const LOAD: &str = "sleep 600 & exec sleep 600\n";

/// A command that was started.
pub struct WatchedProcess {
    child: Child,
    pid: Pid,
    home: tempfile::TempDir,
    start: StartSign,
    stdin: Option<ChildStdin>,
    stdout: Option<ChildStdout>,
    stderr: Option<BufReader<ChildStderr>>,
    terminal: Option<File>,
    /// The writing end of the named pipe that the command reads.
    input: Option<File>,
}

/// The end of a command.
pub struct EndedProcess {
    /// The status; `None` if another process has waited for it.
    pub status: Option<ExitStatus>,
    /// CPU time in seconds between the ending and the end.
    pub cpu_seconds: f64,
    /// Command lines of processes that it started and that still run.
    pub remaining: Vec<String>,
    pub home: tempfile::TempDir,
}

impl WatchedProcess {
    pub fn start(command: &LengthyCommand, ending: Ending) -> Self {
        let home = create_home(command);
        let path = home.path().to_str().expect("a plain path").to_owned();
        let mut words: Vec<String> = launcher(ending).iter().map(|&word| word.to_owned()).collect();
        words.push(env!("CARGO_BIN_EXE_osjitter").to_owned());
        words.extend(command.words(ending, &path));
        let mut process = Command::new(&words[0]);
        process
            .args(&words[1..])
            .current_dir(&path)
            .env(MARKER, &path)
            // The proofs of rows that run at the same time do not exclude each other.
            .env("OSJITTER_PROOF_LOCK", &path)
            .env("TMPDIR", home.path().join("temporary"))
            .env("TICKMETER_DIR", home.path().join("meters"))
            .env("OSJITTER_SCRIPT", home.path().join("script.json"))
            .env("TERM", "xterm-256color")
            .env_remove("OSJITTER_CONFIG")
            .env_remove("RUST_BACKTRACE");
        let needs_terminal = command.needs_terminal() || ending.has_terminal();
        let terminal = needs_terminal.then(|| connect_terminal(&mut process));
        if !needs_terminal {
            redirect(&mut process, command, ending, home.path());
        }
        let mut child = process.spawn().expect("the command starts");
        // The command has the other end of the terminal only once this is dropped.
        drop(process);
        let pid = match ending {
            Ending::ParentGone => read_pid(&home.path().join("id")),
            _ => Pid::from_child(&child),
        };
        Self {
            pid,
            start: command.start,
            stdin: child.stdin.take(),
            stdout: child.stdout.take(),
            stderr: child.stderr.take().map(BufReader::new),
            terminal,
            input: None,
            child,
            home,
        }
    }

    /// Waits until the launcher has become the program. Before, a signal that the test itself
    /// ignores, as in the background of a shell, would be lost.
    pub fn wait_for_program(&self) {
        let is_program =
            || std::fs::read_link(self.proc("exe")).is_ok_and(|exe| exe.ends_with("osjitter"));
        poll(is_program, || self.has_ended());
    }

    /// Waits until the program handles a signal.
    pub fn wait_for_handler(&self, signal: Signal) {
        self.wait_for_program();
        let handles = || {
            let status = std::fs::read_to_string(self.proc("status")).ok()?;
            let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:"))?;
            let mask = u64::from_str_radix(mask.trim(), 16).ok()?;
            Some(mask & (1 << (signal.as_raw() - 1)) != 0)
        };
        poll(|| handles() == Some(true), || self.has_ended());
    }

    /// Waits until the command has begun.
    ///
    /// # Errors
    ///
    /// Returns an error if the command ends before.
    pub fn wait_for_start(&mut self) -> Result<(), String> {
        let has_begun = match self.start {
            StartSign::InputOpened => self.open_input(),
            StartSign::Text(text) => self.wait_for_text(text),
        };
        if has_begun { Ok(()) } else { Err(format!("it did not begin: {}", self.output())) }
    }

    fn wait_for_text(&mut self, text: &str) -> bool {
        if let Some(terminal) = &mut self.terminal {
            return read_until(terminal, text);
        }
        if let Some(stderr) = &mut self.stderr {
            return stderr.lines().map_while(Result::ok).any(|line| line.contains(text));
        }
        poll(|| self.output().contains(text), || self.has_ended())
    }

    fn open_input(&mut self) -> bool {
        let path = self.home.path().join("input");
        // Without the flag, it would wait for a reader that may have ended.
        let open =
            || File::options().write(true).custom_flags(OFlags::NONBLOCK.bits() as i32).open(&path);
        let mut input = None;
        let is_open = poll(
            || {
                input = open().ok();
                input.is_some()
            },
            || self.has_ended(),
        );
        if let Some(input) = &input {
            rustix::fs::fcntl_setfl(input, OFlags::empty()).expect("an open file");
        }
        self.input = input;
        is_open
    }

    /// Writes the whole input and closes it.
    pub fn finish_input(&mut self) {
        if let Some(mut input) = self.input.take() {
            let report = std::fs::read_to_string(FIXTURE).expect("the fixture");
            // The reader may have ended.
            let _ = input.write_all(report.as_bytes());
        }
    }

    /// Ends the command, or changes its surroundings. A second interrupt comes after a pause.
    pub fn apply(&mut self, ending: Ending, pause: Duration) {
        match ending {
            Ending::Hangup | Ending::HangupIgnored => self.signal(Signal::HUP),
            Ending::Terminate => self.signal(Signal::TERM),
            Ending::Interrupt => self.signal(Signal::INT),
            Ending::Quit => self.signal(Signal::QUIT),
            Ending::InterruptTwice => {
                self.signal(Signal::INT);
                std::thread::sleep(pause);
                self.signal(Signal::INT);
            }
            Ending::TerminalClosed | Ending::TerminalGone => drop(self.terminal.take()),
            Ending::ParentGone => {
                self.child.kill().expect("a running shell");
                self.stdout.take();
            }
            Ending::StdinClosed => drop(self.stdin.take()),
            Ending::StdoutClosed => drop(self.stdout.take()),
            Ending::StderrClosed => drop(self.stderr.take()),
            Ending::DiskFull => self.limit(Resource::Fsize, 0),
            Ending::NoDescriptors => self.limit(Resource::Nofile, self.highest_descriptor() + 1),
            Ending::StdoutFull => {}
        }
        if matches!(ending, Ending::DiskFull | Ending::NoDescriptors) && self.input.is_none() {
            self.signal(Signal::INT);
        }
        self.drain_terminal();
    }

    fn signal(&self, signal: Signal) {
        // It fails if the command has ended.
        let _ = rustix::process::kill_process(self.pid, signal);
    }

    fn limit(&self, resource: Resource, limit: u64) {
        let limit = Rlimit { current: Some(limit), maximum: Some(limit) };
        let _ = rustix::process::prlimit(Some(self.pid), resource, limit);
    }

    fn highest_descriptor(&self) -> u64 {
        let entries = std::fs::read_dir(self.proc("fd")).into_iter().flatten().flatten();
        let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        numbers.max().unwrap_or(2)
    }

    /// Reads the output to a terminal that stays open, so that the command does not wait for it.
    fn drain_terminal(&mut self) {
        if let Some(mut terminal) = self.terminal.take() {
            std::thread::spawn(move || std::io::copy(&mut terminal, &mut std::io::sink()));
        }
    }

    /// Waits for the end of the command and of everything that it started.
    ///
    /// # Errors
    ///
    /// Returns an error if the command hangs.
    pub fn wait(mut self, cpu_before: f64) -> Result<EndedProcess, String> {
        let mut cpu = cpu_before;
        let has_ended = poll(
            || {
                cpu = self.cpu_seconds().unwrap_or(cpu);
                self.has_ended()
            },
            || false,
        );
        let cpu_seconds = cpu - cpu_before;
        if !has_ended {
            let output = self.output();
            return Err(format!("it hangs after {cpu_seconds:.2} s of CPU time: {output}"));
        }
        let is_child = self.pid == Pid::from_child(&self.child);
        let status = self.child.wait().expect("a child");
        let mut remaining = Vec::new();
        poll(
            || {
                remaining = marked_processes(self.home.path());
                remaining.is_empty()
            },
            || false,
        );
        kill_marked(self.home.path());
        let home = std::mem::replace(&mut self.home, tempfile::tempdir().expect("a directory"));
        Ok(EndedProcess { status: is_child.then_some(status), cpu_seconds, remaining, home })
    }

    /// Returns the CPU time of the process, even after its end.
    pub fn cpu_seconds(&self) -> Option<f64> {
        let fields = stat_fields(&self.proc(""))?;
        let ticks = |index: usize| fields.get(index)?.parse::<f64>().ok();
        Some((ticks(11)? + ticks(12)?) / TICKS_PER_SECOND)
    }

    /// Whether the process has ended. It may not have been waited for.
    fn has_ended(&self) -> bool {
        stat_fields(&self.proc("")).is_none_or(|fields| matches!(fields[0].as_str(), "Z" | "X"))
    }

    fn proc(&self, name: &str) -> PathBuf {
        Path::new("/proc").join(self.pid.as_raw_nonzero().to_string()).join(name)
    }

    /// Returns the output that went to files.
    fn output(&self) -> String {
        output(self.home.path())
    }
}

impl Drop for WatchedProcess {
    fn drop(&mut self) {
        kill_marked(self.home.path());
        let _ = self.child.kill().and_then(|()| self.child.wait());
    }
}

/// Returns the end of the output of a command that went to files in its directory.
pub fn output(home: &Path) -> String {
    let read = |name: &str| std::fs::read(home.join(name)).unwrap_or_default();
    let bytes = [read("stdout"), read("stderr")].concat();
    let start = bytes.len().saturating_sub(MAX_OUTPUT_BYTES);
    String::from_utf8_lossy(&bytes[start..]).into_owned()
}

/// Resets the signals that the test itself may ignore, for example under `nohup`.
const RESET: &str = "--default-signal=HUP,INT,QUIT,TERM";

/// Returns the words before a command. All of them but the shell become the command by `exec`.
fn launcher(ending: Ending) -> Vec<&'static str> {
    match ending {
        Ending::ParentGone => {
            let script = r#""$@" & echo $! >id.new && mv id.new id; wait"#;
            vec!["sh", "-c", script, "sh", "env", RESET]
        }
        Ending::TerminalClosed => vec!["setsid", "--ctty", "env", RESET],
        Ending::HangupIgnored => vec!["env", RESET, "--ignore-signal=HUP"],
        _ => vec!["env", RESET],
    }
}

fn create_home(command: &LengthyCommand) -> tempfile::TempDir {
    let home = tempfile::Builder::new().prefix("ending-").tempdir().expect("a directory");
    let write = |name: &str, text: &str| {
        std::fs::write(home.path().join(name), text).expect("a file");
    };
    std::fs::create_dir(home.path().join("temporary")).expect("a directory");
    write("program", &format!("{PROGRAM}{SERIES}"));
    write("quick", SERIES);
    write("load", LOAD);
    write("script.json", r#"{"scripted": {"lateness_ns": [150000], "cpu_ns_per_tick": 10000}}"#);
    if command.reads_input() {
        // Another run than that in the pipe: its rounds have other costs.
        let report = std::fs::read_to_string(FIXTURE).expect("the fixture");
        write("first.json", &report.replace("\"cpu_ns\":", "\"cpu_ns\":1"));
        let input = home.path().join("input");
        rustix::fs::mkfifoat(CWD, &input, Mode::RUSR | Mode::WUSR).expect("a named pipe");
    }
    home
}

/// Connects the streams of a command to files or pipes.
fn redirect(process: &mut Command, command: &LengthyCommand, ending: Ending, home: &Path) {
    let file = |name: &str| File::create(home.join(name)).expect("a file");
    let keeps_stdin = command.name == "stress" || ending == Ending::StdinClosed;
    process.stdin(if keeps_stdin { Stdio::piped() } else { Stdio::null() });
    process.stdout(match ending {
        Ending::StdoutClosed | Ending::ParentGone => Stdio::piped(),
        Ending::StdoutFull => {
            File::options().write(true).open("/dev/full").expect("a device").into()
        }
        _ => file("stdout").into(),
    });
    process.stderr(match ending {
        Ending::StderrClosed => Stdio::piped(),
        _ => file("stderr").into(),
    });
}

/// Reads the id of a process from a file that a shell writes.
fn read_pid(file: &Path) -> Pid {
    let read = || std::fs::read_to_string(file).ok()?.trim().parse().ok().and_then(Pid::from_raw);
    poll(|| read().is_some(), || false);
    read().expect("the id of a process")
}

/// Polls until a condition holds. Returns false if the other one holds before, or after a time.
fn poll(mut is_done: impl FnMut() -> bool, mut is_over: impl FnMut() -> bool) -> bool {
    let started = Instant::now();
    loop {
        // The first condition may hold for a process that has ended.
        let was_over = is_over();
        if is_done() {
            return true;
        }
        if was_over || started.elapsed() > HANG_TIMEOUT {
            return false;
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Lists the processes that have the directory of a row in their environment.
fn marked_processes(home: &Path) -> Vec<String> {
    let marked = marked_ids(home);
    let describe = |id: &Pid| {
        let id = id.as_raw_nonzero();
        let words = std::fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        format!("{id}: {}", String::from_utf8_lossy(&words).replace('\0', " "))
    };
    marked.iter().map(describe).collect()
}

fn marked_ids(home: &Path) -> Vec<Pid> {
    processes_with_variable(MARKER, home).into_iter().map(process_control::pid).collect()
}

/// Kills what a failed row has left.
fn kill_marked(home: &Path) {
    for id in marked_ids(home) {
        let _ = rustix::process::kill_process(id, Signal::KILL);
    }
}
