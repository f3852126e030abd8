//! A command line of osjitter, built, run and looked at.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

/// A command line under construction. What it writes goes to a directory of its own, unless told
/// otherwise.
pub struct Osjitter {
    command: Command,
    out: TempDir,
}

/// What came of a command line.
pub struct Ran {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
    out: TempDir,
}

impl Osjitter {
    /// `osjitter COMMAND ...`, without what the environment might change about its output.
    pub fn new<A: AsRef<OsStr>>(args: impl IntoIterator<Item = A>) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_osjitter"));
        command
            .args(args)
            .env_remove("COLUMNS")
            .env_remove("OSJITTER_CONFIG")
            .env_remove("NO_COLOR")
            .stdin(Stdio::null());
        Self { command, out: tempfile::tempdir().expect("a temporary directory") }
    }

    pub fn args<A: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.command.args(args);
        self
    }

    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// The directory it runs in.
    pub fn directory(mut self, path: &Path) -> Self {
        self.command.current_dir(path);
        self
    }

    /// Adds `--out` with a path in its directory; `""` is the directory itself.
    pub fn out(mut self, name: &str) -> Self {
        let path =
            if name.is_empty() { self.out.path().to_owned() } else { self.out.path().join(name) };
        self.command.arg("--out").arg(path);
        self
    }

    /// What the hidden subjects play; the format stands in
    /// `lib/internal/engine/src/subject/script.rs`.
    pub fn script(self, scripts: &serde_json::Value) -> Self {
        let file = self.out.path().join("script.json");
        std::fs::write(&file, scripts.to_string()).expect("a temporary directory");
        self.env("OSJITTER_SCRIPT", file)
    }

    /// Runs it to its end.
    pub fn run(mut self) -> Ran {
        let output = self.command.output().expect("the binary runs");
        Ran {
            code: output.status.code().expect("it was not killed"),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            out: self.out,
        }
    }

    /// Runs it, and sends an interrupt as soon as a line of stderr contains `line`: by then its
    /// handler is installed.
    #[cfg(unix)]
    pub fn interrupt_at(self, line: &str) -> Ran {
        self.interrupt_after(line, Duration::ZERO)
    }

    /// Runs it, and sends an interrupt `pause` after a line of stderr that contains `line`.
    #[cfg(unix)]
    fn interrupt_after(self, line: &str, pause: Duration) -> Ran {
        let mut running = self.start();
        running.says(line);
        #[allow(clippy::disallowed_methods, reason = "it measures meanwhile")]
        std::thread::sleep(pause);
        running.signal("INT");
        running.ends()
    }

    /// Starts it, to be talked to.
    pub fn start(mut self) -> Running {
        let mut child = self
            .command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        let stderr = BufReader::new(child.stderr.take().expect("it is piped"));
        Running { child, stderr, said: String::new(), out: self.out }
    }
}

/// Runs a command line that measures for a time, and runs it again for a longer one as long as the
/// time is refused as too short or the result `is_enough` not: a busy machine fits few rounds into
/// a second.
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
            None => return ran,
        };
        if longer > MAX_SECONDS {
            return ran;
        }
        seconds = longer;
    }
}

/// Runs a command line and interrupts it after `line`, until an interrupt came late enough for
/// `has_measured`: a busy machine takes longer for its first round. The runs must be longer than
/// the longest pause.
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

/// The `--max-time` without which a command line was refused.
fn demanded_seconds(ran: &Ran) -> Option<u64> {
    let (_, demand) = ran.stderr.split_once("give --max-time ").filter(|_| ran.code == 2)?;
    demand.split_once('s')?.0.parse().ok()
}

/// The loop that keeps the contract of `run` and `gate` by code of its own.
pub fn gated_loop() -> PathBuf {
    example("gated-loop", &[])
}

/// The endless service of tickmeter's front page.
pub fn service() -> PathBuf {
    example("service", &["--package", "tickmeter", "--features", "tokio"])
}

/// An example beside the binary; cargo builds the program's own with the tests unless one target
/// alone is asked for.
fn example(name: &str, of: &[&str]) -> PathBuf {
    let binary = Path::new(env!("CARGO_BIN_EXE_osjitter"));
    let example = binary
        .with_file_name("examples")
        .join(name)
        .with_extension(std::env::consts::EXE_EXTENSION);
    if !example.exists() {
        let profile: &[&str] = if cfg!(debug_assertions) { &[] } else { &["--release"] };
        let built = Command::new(env!("CARGO"))
            .args(["build", "--example", name])
            .args(of)
            .args(profile)
            .status();
        assert!(built.unwrap().success());
    }
    example
}

/// A command line that runs.
pub struct Running {
    child: Child,
    stderr: BufReader<ChildStderr>,
    said: String,
    out: TempDir,
}

impl Running {
    /// Waits for a line of stderr that contains `part`, from the first on, and returns it.
    pub fn says(&mut self, part: &str) -> String {
        loop {
            if let Some(line) = self.said.lines().find(|line| line.contains(part)) {
                return line.to_owned();
            }
            let read = self.stderr.read_line(&mut self.said).expect("text");
            assert_ne!(read, 0, "no line with {part:?} in: {}", self.said);
        }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    #[cfg(unix)]
    pub fn signal(&self, name: &str) {
        let kill =
            Command::new("kill").args([format!("-{name}"), self.child.id().to_string()]).status();
        assert!(kill.expect("kill runs").success());
    }

    /// Ends it at once, whatever it is doing.
    pub fn kill(mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ends");
    }

    /// Waits for its end, and kills it where that does not come.
    #[cfg(unix)]
    pub fn ends_within(mut self, limit: Duration) -> Ran {
        const LOOK: Duration = Duration::from_millis(20);
        for _ in 0..limit.as_millis() / LOOK.as_millis() {
            if self.child.try_wait().expect("it can be waited for").is_some() {
                return self.ends();
            }
            #[allow(clippy::disallowed_methods, reason = "it looks again")]
            std::thread::sleep(LOOK);
        }
        self.child.kill().expect("it runs");
        panic!("it has not ended within {limit:?}: {}", self.said);
    }

    /// Waits for its end.
    pub fn ends(mut self) -> Ran {
        let mut stdout = String::new();
        self.child.stdout.take().expect("it is piped").read_to_string(&mut stdout).expect("text");
        self.stderr.read_to_string(&mut self.said).expect("text");
        let status = self.child.wait().expect("it ends");
        Ran {
            code: status.code().expect("it was not killed"),
            stdout,
            stderr: self.said,
            out: self.out,
        }
    }
}

impl Ran {
    /// Fails with what it said unless it exited with `code`.
    #[track_caller]
    pub fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, code, "stderr: {}\nstdout: {}", self.stderr, self.stdout);
        self
    }

    /// A path in its directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.out.path().join(name)
    }

    /// The directory that `--out` named.
    pub fn directory(&self) -> &Path {
        self.out.path()
    }

    /// A file that it wrote.
    #[track_caller]
    pub fn file(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name))
            .unwrap_or_else(|e| panic!("{name}: {e}; stderr: {}", self.stderr))
    }
}
