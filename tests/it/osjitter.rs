//! Runs osjitter with arguments, and returns its exit code, outputs and files.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::Duration;

use files::file::File as _;
use files::report::Report;
#[cfg(unix)]
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

#[cfg(unix)]
use crate::process_control::{heed_signals, send_signal};
#[cfg(target_os = "linux")]
use crate::pseudo_terminal::connect_terminal;

/// A builder for a command line, which has a temporary directory for its files.
pub struct Osjitter {
    command: Command,
    out: OutDirectory,
}

/// A temporary directory, alone in another one: a run compares itself with those next to its own.
struct OutDirectory {
    path: PathBuf,
    parent: TempDir,
}

impl OutDirectory {
    fn new() -> Self {
        let parent = tempfile::tempdir().expect("a temporary directory");
        let path = parent.path().join("out");
        std::fs::create_dir(&path).expect("a temporary directory");
        Self { path, parent }
    }
}

/// The result of a command line.
pub struct Ran {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
    out: OutDirectory,
}

impl Osjitter {
    /// Creates `osjitter COMMAND ...` with tables of 80 columns and without other environment
    /// variables that affect its output.
    pub fn new<A: AsRef<OsStr>>(args: impl IntoIterator<Item = A>) -> Self {
        #[cfg(unix)]
        heed_signals();
        let mut command = Command::new(env!("CARGO_BIN_EXE_osjitter"));
        command
            .args(args)
            .env("COLUMNS", "80")
            .env_remove("OSJITTER_CONFIG")
            .env_remove("NO_COLOR")
            .env_remove("CLICOLOR_FORCE")
            .env_remove("OSJITTER_METER")
            .env_remove("CARGO_TARGET_DIR")
            .stdin(Stdio::null());
        let out = OutDirectory::new();
        // Tests that run at the same time are not proofs of one machine.
        command.env("OSJITTER_PROOF_LOCK", out.parent.path().file_name().expect("a name"));
        Self { command, out }
    }

    pub fn args<A: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.command.args(args);
        self
    }

    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Sets a file as standard input.
    pub fn input(mut self, file: &Path) -> Self {
        self.command.stdin(std::fs::File::open(file).expect("a file"));
        self
    }

    /// Removes the limit on the width of tables, as in a pipe.
    pub fn without_width(mut self) -> Self {
        self.command.env_remove("COLUMNS");
        self
    }

    /// Sets the working directory.
    pub fn directory(mut self, path: &Path) -> Self {
        self.command.current_dir(path);
        self
    }

    /// Adds `--out` with a path in the temporary directory; `""` is that directory itself.
    pub fn out(mut self, name: &str) -> Self {
        let path = if name.is_empty() { self.out.path.clone() } else { self.out.path.join(name) };
        self.command.arg("--out").arg(path);
        self
    }

    /// Sets the scripts of the hidden subjects, in the format of
    /// `lib/internal/engine/src/subject/script.rs`.
    pub fn script(self, scripts: &Value) -> Self {
        let file = self.out.path.join("script.json");
        std::fs::write(&file, scripts.to_string()).expect("a temporary directory");
        self.env("OSJITTER_SCRIPT", file)
    }

    /// Puts the process into a group of its own, as a shell with job control does: others ignore a
    /// stop by the terminal.
    #[cfg(unix)]
    pub fn in_own_group(mut self) -> Self {
        use std::os::unix::process::CommandExt as _;
        self.command.process_group(0);
        self
    }

    /// Has a shell script run the command line, which is `"$0" "$@"` in it.
    #[cfg(unix)]
    pub fn in_shell(self, script: &str) -> Self {
        let mut shell = Command::new("sh");
        shell.args(["-c", script]);
        self.started_by(shell)
    }

    /// Has another program run the command line, which is added to its arguments.
    #[cfg(unix)]
    pub fn started_by(mut self, mut launcher: Command) -> Self {
        launcher.arg(self.command.get_program()).args(self.command.get_args());
        for (name, value) in self.command.get_envs() {
            match value {
                Some(value) => launcher.env(name, value),
                None => launcher.env_remove(name),
            };
        }
        if let Some(directory) = self.command.get_current_dir() {
            launcher.current_dir(directory);
        }
        launcher.stdin(Stdio::null());
        self.command = launcher;
        self
    }

    /// Runs the command until it exits.
    pub fn run(mut self) -> Ran {
        let output = self.command.output().expect("the binary runs");
        Ran {
            code: output.status.code().expect("an exit code"),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            out: self.out,
        }
    }

    /// Runs the command, and interrupts it as soon as a line of stderr contains `line`: its signal
    /// handler is installed by then.
    #[cfg(unix)]
    pub fn interrupt_at(self, line: &str) -> Ran {
        self.interrupt_after(line, Duration::ZERO)
    }

    /// Runs the command, and interrupts it `pause` after a line of stderr that contains `line`.
    #[cfg(unix)]
    fn interrupt_after(self, line: &str, pause: Duration) -> Ran {
        let mut running = self.start();
        running.says(line);
        #[allow(clippy::disallowed_methods, reason = "the command measures during the pause")]
        std::thread::sleep(pause);
        running.signal(Signal::INT);
        running.ends()
    }

    /// Starts the command in a session with a new terminal, which is its standard error, but not
    /// its standard input. Also returns the other end of the terminal.
    #[cfg(target_os = "linux")]
    pub fn start_on_terminal(self) -> (Running, std::fs::File) {
        let mut session = Command::new("setsid");
        session.args(["--ctty", "sh", "-c", r#"exec "$@" </dev/null 2>/dev/tty"#, "sh"]);
        let mut osjitter = self.started_by(session);
        let terminal = connect_terminal(&mut osjitter.command);
        (osjitter.start(), terminal)
    }

    /// Starts the command without waiting for its end.
    pub fn start(mut self) -> Running {
        let mut child = self
            .command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        let stderr = BufReader::new(child.stderr.take().expect("stderr is piped"));
        Running { child, stderr, read_stderr: String::new(), out: self.out }
    }
}

/// Runs a command line that measures for a given time, and repeats it with a longer time until it
/// is accepted and the result `is_enough`: a busy machine fits few rounds into a second.
pub fn run_long_enough(
    first_seconds: u64,
    command: impl Fn(&str) -> Osjitter,
    is_enough: impl Fn(&Ran) -> bool,
) -> Ran {
    const MAX_SECONDS: u64 = 300;
    let mut seconds = first_seconds;
    loop {
        let ran = command(&format!("{seconds}s")).run();
        let longer = match demanded_seconds(&ran) {
            Some(demanded) => 2 * demanded,
            None if ran.code == 0 && !is_enough(&ran) => 4 * seconds,
            None if ran.stderr.contains("allow more with --max-time") => 4 * seconds,
            None => return ran,
        };
        if longer > MAX_SECONDS {
            return ran;
        }
        seconds = longer;
    }
}

/// Runs a command line and interrupts it after `line`, with longer and longer pauses until it
/// `has_measured`: a busy machine needs longer for its first round. An uninterrupted run must last
/// longer than the longest pause.
#[cfg(unix)]
pub fn interrupt_while_measuring(
    command: impl Fn() -> Osjitter,
    line: &str,
    has_measured: impl Fn(&Ran) -> bool,
) -> Ran {
    const PAUSES_MS: [u64; 4] = [300, 2_000, 10_000, 50_000];
    for pause in PAUSES_MS {
        let ran = command().interrupt_after(line, Duration::from_millis(pause));
        if has_measured(&ran) {
            return ran;
        }
    }
    panic!("nothing was measured within {} ms", PAUSES_MS[3]);
}

/// Returns the minimum `--max-time` that the error message of a command line names.
fn demanded_seconds(ran: &Ran) -> Option<u64> {
    let (_, demand) = ran.stderr.split_once("give --max-time ").filter(|_| ran.code == 2)?;
    demand.split_once('s')?.0.parse().ok()
}

/// A running command line.
pub struct Running {
    child: Child,
    stderr: BufReader<ChildStderr>,
    /// The part of stderr that was read so far.
    read_stderr: String,
    out: OutDirectory,
}

impl Running {
    /// Waits for a line of stderr that contains `part`, and returns the first one.
    pub fn says(&mut self, part: &str) -> String {
        loop {
            if let Some(line) = self.read_stderr.lines().find(|line| line.contains(part)) {
                return line.to_owned();
            }
            let read = self.stderr.read_line(&mut self.read_stderr).expect("text");
            assert_ne!(read, 0, "no line with {part:?} in: {}", self.read_stderr);
        }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    #[cfg(unix)]
    pub fn signal(&self, signal: Signal) {
        send_signal(self.id(), signal);
    }

    /// Closes the pipe of its standard output, as a reader does that ends.
    #[cfg(unix)]
    pub fn close_stdout(&mut self) {
        self.child.stdout = None;
    }

    /// Kills the command with SIGKILL.
    pub fn kill(mut self) {
        self.child.kill().expect("a running command");
        self.child.wait().expect("an exit status");
    }

    /// Waits for the end of the command; kills it and panics if it does not end in time.
    #[cfg(unix)]
    pub fn ends_within(mut self, limit: Duration) -> Ran {
        const POLL_INTERVAL: Duration = Duration::from_millis(20);
        for _ in 0..limit.as_millis() / POLL_INTERVAL.as_millis() {
            if self.child.try_wait().expect("a child").is_some() {
                return self.ends();
            }
            #[allow(clippy::disallowed_methods, reason = "the pause between two polls")]
            std::thread::sleep(POLL_INTERVAL);
        }
        self.child.kill().expect("a running command");
        panic!("the command did not end within {limit:?}: {}", self.read_stderr);
    }

    /// Waits for the end of the command.
    pub fn ends(mut self) -> Ran {
        let mut stdout = String::new();
        if let Some(mut pipe) = self.child.stdout.take() {
            pipe.read_to_string(&mut stdout).expect("text");
        }
        self.stderr.read_to_string(&mut self.read_stderr).expect("text");
        let status = self.child.wait().expect("an exit status");
        Ran {
            code: status.code().expect("an exit code"),
            stdout,
            stderr: self.read_stderr,
            out: self.out,
        }
    }
}

impl Ran {
    /// Panics with the outputs unless the exit code is `code`.
    #[track_caller]
    pub fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, code, "stderr: {}\nstdout: {}", self.stderr, self.stdout);
        self
    }

    /// Panics with the outputs unless a proof is complete: it also has no answer on a busy machine.
    #[track_caller]
    pub fn completes_proof(self) -> Self {
        let code = if self.stderr.contains("No answer: the machine was unfit") { 4 } else { 0 };
        self.exits(code)
    }

    /// Panics with the outputs unless the command line was refused with a message and without a
    /// result.
    #[track_caller]
    pub fn refuses(self, says: &str) -> Self {
        let refused = self.exits(2);
        assert!(refused.stderr.contains(says), "no {says:?} in stderr: {}", refused.stderr);
        assert_eq!(refused.stdout, "", "stderr: {}", refused.stderr);
        refused
    }

    /// Returns a path in the temporary directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.out.path.join(name)
    }

    /// Returns the temporary directory.
    pub fn directory(&self) -> &Path {
        &self.out.path
    }

    /// Returns the content of a file in the temporary directory.
    #[track_caller]
    pub fn file(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name))
            .unwrap_or_else(|e| panic!("{name}: {e}; stderr: {}", self.stderr))
    }

    /// Returns the report in the temporary directory.
    #[track_caller]
    pub fn report(&self) -> Report {
        Report::from_json(&self.file("report.json")).expect("a report")
    }

    /// Returns a JSON file in the temporary directory.
    #[track_caller]
    pub fn json(&self, name: &str) -> Value {
        serde_json::from_str(&self.file(name)).expect("JSON")
    }
}

/// Joins the words of a text in one line, so that it does not matter where lines are wrapped.
pub fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the names of the files in a directory, in order.
pub fn names_in(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).expect("a directory");
    let name = |entry: std::io::Result<std::fs::DirEntry>| {
        entry.expect("an entry").file_name().into_string().expect("UTF-8")
    };
    let mut names: Vec<String> = entries.map(name).collect();
    names.sort();
    names
}
