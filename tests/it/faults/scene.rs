//! The command lines that run while a fault occurs, each in a temporary directory.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::table::{Fault, FaultRow, Moment};
use super::tools::Tools;

/// Time after which a command counts as hanging; far more than any row needs on a busy machine.
const SCENE_TIMEOUT: Duration = Duration::from_secs(300);
/// Files in the output directory of scenes with earlier files.
pub const EARLIER_FILES: [(&str, &str); 4] = [
    ("report.json", "the report of before"),
    ("report.html", "the page of before"),
    ("percentiles.svg", "the picture of before"),
    ("notes.txt", "mine"),
];
const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures");
/// A program that implements the contract of measured programs; each tick is late by 20 us.
const SCRIPT: &str = "{ echo osjitter.series/1 period_ns=$OSJITTER_PERIOD_NS; yes 20000 | head -n $OSJITTER_TICKS; } >$OSJITTER_OUT";

/// A command line. `{home}` is replaced with its directory, `{program}` with a call of [`SCRIPT`].
#[derive(Debug)]
pub struct Scene {
    pub name: &'static str,
    pub args: &'static [&'static str],
    /// The subjects of the expected report; empty if the command has another result.
    pub subjects: &'static [&'static str],
    /// Whether the output directory already exists and contains [`EARLIER_FILES`].
    pub has_earlier_files: bool,
    /// Paths and texts of further files in the directory.
    pub inputs: &'static [(&'static str, &'static str)],
}

/// The result of a command line.
pub struct SceneOutcome {
    /// The exit code; `None` if the command hung and was killed.
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
    /// Number of calls with a fault, if the fault is one of system calls.
    pub faulted_calls: Option<u64>,
    home: tempfile::TempDir,
}

impl SceneOutcome {
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    pub fn out(&self) -> PathBuf {
        self.home.path().join("out")
    }

    /// Returns the files that are neither inputs nor expected results.
    pub fn leftover_files(&self) -> Vec<PathBuf> {
        const EXPECTED: [&str; 12] = [
            "out", "out.html", "out.bins.csv", "out.intervals.csv", "osjitter.toml", "logs",
            "baseline.json", "temporary", "stdout", "stderr", "tally", "program",
        ];
        let (home, temporary, out) = (self.home(), self.home().join("temporary"), self.out());
        let unexpected = names(home).into_iter().filter(|name| !EXPECTED.contains(&name.as_str()));
        let hidden = names(&out).into_iter().filter(|name| name.starts_with('.'));
        let mut files: Vec<PathBuf> = unexpected.map(|name| home.join(name)).collect();
        files.extend(names(&temporary).into_iter().map(|name| temporary.join(name)));
        files.extend(hidden.map(|name| out.join(name)));
        files
    }
}

/// Returns the sorted names of the files in a directory; none if it does not exist.
pub fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.map(|e| e.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

impl Scene {
    pub fn index(&self) -> usize {
        Self::ALL.iter().position(|scene| std::ptr::eq(*scene, self)).expect("a scene of ALL")
    }

    /// Counts a system call in a run without a fault.
    pub fn count_calls(&self, tools: &Tools, call: &str) -> u64 {
        let home = self.create_home();
        let spec = format!("{call}=count");
        let code = self.wait(self.injection(tools, home.path(), &[spec]), home.path());
        let text = std::fs::read_to_string(home.path().join("tally")).unwrap_or_default();
        let count = text.split_whitespace().next().and_then(|n| n.parse().ok());
        let stderr = std::fs::read_to_string(home.path().join("stderr")).unwrap_or_default();
        count.unwrap_or_else(|| {
            panic!("{} was not counted in {}: {code:?} {stderr}", call, self.name)
        })
    }

    /// Runs the command with the fault of a row; `calls` returns the counted number of a call.
    ///
    /// On a busy machine there may be fewer calls than were counted. If the fault did not occur for
    /// this reason, the run is repeated with an earlier call.
    pub fn run(&self, tools: &Tools, row: &FaultRow, calls: &dyn Fn(&str) -> u64) -> SceneOutcome {
        for shift in 0..3 {
            let outcome = self.run_once(tools, row, &|call| calls(call) >> shift);
            if outcome.faulted_calls != Some(0) || outcome.code.is_none() {
                return outcome;
            }
        }
        self.run_once(tools, row, calls)
    }

    /// Runs the command once, like [`run`](Self::run).
    pub fn run_once(
        &self,
        tools: &Tools,
        row: &FaultRow,
        calls: &dyn Fn(&str) -> u64,
    ) -> SceneOutcome {
        let home = self.create_home();
        let command = match row.fault {
            Fault::Call { call, action } => {
                let spec = match row.at {
                    Moment::Start => format!("{call}={action}:1:1"),
                    Moment::Middle => {
                        format!("{call}={action}:{}:1", calls(call).div_ceil(2).max(1))
                    }
                    Moment::End => format!("{call}={action}:{}:1", last_call(calls(call))),
                    Moment::From(first) => format!("{call}={action}:{first}:{}", i64::MAX),
                    Moment::Always => format!("{call}={action}:1:{}", i64::MAX),
                    Moment::Half => format!("{call}={action}:1:{}:2", i64::MAX),
                };
                self.injection(tools, home.path(), &[spec])
            }
            Fault::Limit(limit) => {
                let mut command = Command::new("sh");
                command
                    .args(["-c", &format!("{limit}; exec \"$0\" \"$@\"")])
                    .args(self.command_line(home.path()));
                command
            }
            Fault::Clock(jump) => {
                let mut command = Command::new("env");
                command.arg(format!("CLOCK_JUMP={jump}"));
                command
                    .arg(format!("LD_PRELOAD={}", tools.path("clock.so").display()))
                    .args(self.command_line(home.path()));
                command
            }
            Fault::TimeNamespace(offset) => {
                let mut command = Command::new("unshare");
                command
                    .args(["--time", "--fork", "--monotonic", offset, "--boottime", offset, "--"])
                    .args(self.command_line(home.path()));
                command
            }
        };
        let code = self.wait(command, home.path());
        let read = |name: &str| {
            let bytes = std::fs::read(home.path().join(name)).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        let faulted_calls = matches!(row.fault, Fault::Call { .. }).then(|| {
            read("tally").split_whitespace().nth(1).and_then(|n| n.parse().ok()).unwrap_or(0)
        });
        SceneOutcome { code, stdout: read("stdout"), stderr: read("stderr"), faulted_calls, home }
    }

    fn create_home(&self) -> tempfile::TempDir {
        // The prefix differs from that of temporary files, which some rows match by name.
        let home =
            tempfile::Builder::new().prefix("scene-").tempdir().expect("a temporary directory");
        let create = |name: &str| std::fs::create_dir(home.path().join(name)).expect("a directory");
        create("temporary");
        std::fs::write(home.path().join("program"), SCRIPT).expect("a file");
        for (path, text) in self.inputs {
            let path = home.path().join(path);
            std::fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
            std::fs::write(path, text).expect("a file");
        }
        if self.has_earlier_files {
            create("out");
            for (name, text) in EARLIER_FILES {
                std::fs::write(home.path().join("out").join(name), text).expect("a file");
            }
        }
        home
    }

    /// Returns the program and its arguments.
    fn command_line(&self, home: &Path) -> Vec<String> {
        let home = home.to_str().expect("a plain path");
        let expand = |arg: &str| {
            arg.replace("{program}", "sh {home}/program")
                .replace("{home}", home)
                .replace("{fixture}", FIXTURES)
        };
        let osjitter = env!("CARGO_BIN_EXE_osjitter").to_owned();
        std::iter::once(osjitter).chain(self.args.iter().map(|arg| expand(arg))).collect()
    }

    fn injection(&self, tools: &Tools, home: &Path, specs: &[String]) -> Command {
        let mut command = Command::new(tools.path("inject"));
        command.arg(home.join("tally")).args(specs).arg("--").args(self.command_line(home));
        command
    }

    /// Runs a command and returns its exit code; kills it and returns `None` if it hangs.
    #[allow(clippy::disallowed_methods, reason = "a watchdog")]
    fn wait(&self, mut command: Command, home: &Path) -> Option<i32> {
        use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
        let file = |name: &str| File::create(home.join(name)).expect("a file");
        command
            .current_dir(home)
            .env("TMPDIR", home.join("temporary"))
            .env("TICKMETER_DIR", home.join("temporary"))
            .env_remove("RUST_BACKTRACE")
            .stdin(Stdio::null())
            .stdout(file("stdout"))
            .stderr(file("stderr"))
            .process_group(0);
        let mut child = command.spawn().expect("a child");
        let start = Instant::now();
        loop {
            if let Some(status) = child.try_wait().expect("a child") {
                return Some(status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)));
            }
            if start.elapsed() > SCENE_TIMEOUT {
                // This also ends the command of `inject`.
                let _ = child.kill().and_then(|()| child.wait());
                return None;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Returns the index of the last call. If there are many calls, returns that of a late one, because
/// their number varies between runs.
fn last_call(calls: u64) -> u64 {
    if calls < 20 { calls.max(1) } else { calls - calls / 4 }
}

/// Ticks of every subject of a report.
pub const TICKS: u64 = 50;

/// A scene with the command `run`, subjects, and further arguments.
macro_rules! run {
    ($name:literal, [$($subject:literal),*] $(, $more:literal)*) => {
        Scene {
            name: $name,
            args: &["run", "--quiet", "--seed", "1", "--ticks", "50", "--period", "1ms", "--out", "{home}/out",
                $("--subject", $subject,)* $($more,)*],
            subjects: &[$($subject),*],
            has_earlier_files: false,
            inputs: &[],
        }
    };
}

/// A scene with another command, which writes no report.
macro_rules! other {
    ($name:literal, $($arg:literal),+) => {
        Scene {
            name: $name,
            args: &[$($arg),+],
            subjects: &[],
            has_earlier_files: false,
            inputs: &[],
        }
    };
}

/// All timers on tokio and both controls.
pub static TIMERS: Scene =
    run!("timers", ["os-interval", "periodic-interval", "tokio-interval", "nanosleep", "spin"]);
/// Subjects that spin, share a timer, or have a separate runtime.
pub static SPECIAL: Scene = run!(
    "special",
    ["os-interval-precise", "os-interval-group", "busypoll-interval", "tokio-timeout", "spin"]
);
pub static WORKERS: Scene = run!("workers", ["os-interval", "spin"], "--runtime", "multi-thread:2");
pub static CONTROL: Scene = run!("control", ["spin"]);
pub static PICTURES: Scene = run!("pictures", ["spin"], "--svg");
/// Writes into a directory with an earlier report.
pub static AGAIN: Scene =
    Scene { has_earlier_files: true, name: "again", ..run!("control", ["spin"], "--force") };
pub static REDRAWN: Scene =
    Scene { has_earlier_files: true, ..run!("redrawn", ["spin"], "--svg", "--force") };
/// A single round, without `--quiet`.
pub static ROUND: Scene = Scene {
    name: "round",
    args: &[
        "run", "--seed", "1", "--ticks", "50", "--round-ticks", "50", "--period", "1ms", "--out",
        "{home}/out", "--subject", "spin",
    ],
    subjects: &["spin"],
    has_earlier_files: false,
    inputs: &[],
};
pub static SETTINGS: Scene =
    run!("settings", ["nanosleep", "spin"], "--timer-slack", "1us", "--cpu", "0");
pub static EACH: Scene =
    run!("each", ["nanosleep"], "--each", "--cpus", "0", "--round-ticks", "10");
pub static URGENT: Scene = run!("urgent", ["spin"], "--sched", "fifo:1", "--mlock");
pub static WHY: Scene = run!("why", ["os-interval", "spin"], "--why");
pub static LOADED: Scene = run!("loaded", ["spin"], "--load", "cpu:1");
/// A subject and a program, whose name in the report is that of its script.
pub static PROGRAM: Scene =
    Scene { subjects: &["spin", "program"], ..run!("program", ["spin"], "--command", "{program}") };
pub static GATE: Scene = other!(
    "gate", "gate", "--quiet", "--a", "nanosleep", "--b", "os-interval", "--period", "200us",
    "--round-ticks", "20", "--warmup", "0", "--max-pairs", "24", "--floor", "100ms", "--seed", "1",
    "--out", "{home}/out"
);
pub static DUET: Scene = other!(
    "duet", "gate", "--quiet", "--duet", "--a", "nanosleep", "--b", "os-interval", "--period",
    "1ms", "--round-ticks", "20", "--warmup", "0", "--max-pairs", "24", "--floor", "100ms",
    "--seed", "1", "--out", "{home}/out"
);
pub static GATED: Scene = other!(
    "gated", "gate", "--quiet", "--base-cmd", "{program}", "--candidate-cmd", "{program}",
    "--period", "1ms", "--round-ticks", "20", "--warmup", "0", "--max-pairs", "24", "--floor",
    "100ms", "--seed", "1", "--out", "{home}/out"
);
pub static STORE: Scene = other!(
    "store", "gate", "baseline", "add", "{home}/baseline.json", "--subject", "nanosleep",
    "--period", "200us", "--round-ticks", "20", "--warmup", "0", "--max-pairs", "24", "--floor",
    "100ms", // No stall of a busy machine hides that much.
    "--tolerance", "100000%", "--seed", "1"
);
pub static MONITOR: Scene = other!(
    "monitor", "monitor", "--quiet", "--budget", "400%", "--interval", "1s", "--duration", "2s",
    "--log", "{home}/out", "--period", "10ms", "--subject", "os-interval", "--subject",
    "nanosleep"
);
pub static CLOCK_THREADS: Scene = other!(
    "clock-threads", "bench", "clock", "--quiet", "--threads", "3", "--order-reads", "1000",
    "--drift", "1ms", "--load"
);
pub static CHANNEL: Scene = other!(
    "channel", "bench", "timeout", "--quiet", "--variant", "control", "--workload",
    "channel-multi-thread", "--rounds", "1", "--round-time", "1ms"
);
pub static DISPATCH: Scene =
    other!("dispatch", "bench", "dispatch", "--quiet", "--rounds", "1", "--round-time", "1ms");
pub static CLOCKS: Scene = other!(
    "clocks", "bench", "clock", "--quiet", "--threads", "1", "--order-reads", "1000", "--drift",
    "1ms", "--out", "{home}/out"
);
pub static PAGE: Scene = other!(
    "page", "report", "--format", "html", "--out", "{home}/out.html", "{fixture}/cyclictest.json"
);
/// A monitor that serves metrics, with a single probe.
pub static LISTENING: Scene = other!(
    "listening", "monitor", "--quiet", "--budget", "400%", "--interval", "1s", "--duration", "1s",
    "--log", "{home}/out", "--listen", "127.0.0.1:0", "--subject", "nanosleep"
);
/// A look at the meters of this user.
pub static METERS: Scene = other!("meters", "top", "--once", "--window", "1s", "--format", "json");
/// A run with a file of settings.
pub static CONFIGURED: Scene = Scene {
    name: "configured",
    args: &["run", "--quiet", "--ticks", "50", "--out", "{home}/out", "--subject", "spin"],
    subjects: &["spin"],
    has_earlier_files: false,
    inputs: &[("osjitter.toml", "[run]\nperiod = \"1ms\"\n")],
};
const BINS_OF_A: &str = "\
host,subject,period_ns,runtime,labels,start,duration_ns,run_id,schema_version,binning,lower_ns,upper_ns,count
a,nanosleep,1000000,,,2026-11-21T08:00:00.000000Z,1000000000,a,1,hdr2,21760,21887,9
";
const BINS_OF_B: &str = "\
host,subject,period_ns,runtime,labels,start,duration_ns,run_id,schema_version,binning,lower_ns,upper_ns,count
b,nanosleep,1000000,,,2026-11-21T08:00:00.000000Z,1000000000,b,1,hdr2,21888,22015,7
";
/// The sum of a directory of bins.
pub static FLEET: Scene = Scene {
    inputs: &[("logs/a.bins.csv", BINS_OF_A), ("logs/b.bins.csv", BINS_OF_B)],
    ..other!("fleet", "merge", "--out", "{home}/out.bins.csv", "{home}/logs")
};

impl Scene {
    pub const ALL: [&Self; 28] = [
        &TIMERS, &SPECIAL, &WORKERS, &CONTROL, &PICTURES, &AGAIN, &REDRAWN, &ROUND, &SETTINGS,
        &EACH, &URGENT, &WHY, &LOADED, &PROGRAM, &GATE, &DUET, &GATED, &STORE, &MONITOR, &CLOCKS,
        &CLOCK_THREADS, &CHANNEL, &DISPATCH, &PAGE, &LISTENING, &METERS, &CONFIGURED, &FLEET,
    ];
}
