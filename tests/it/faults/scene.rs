//! What runs while something fails: command lines, each in a directory of its own.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::table::{Fault, Moment, Row};
use super::tools::Tools;

/// What takes longer hangs. Far more than any row needs: the machine may be busy.
const SCENE_TIMEOUT: Duration = Duration::from_secs(300);
/// What is in its directory before, where the scene has that.
pub const EARLIER: [(&str, &str); 4] = [
    ("report.json", "the report of before"),
    ("report.html", "the page of before"),
    ("percentiles.svg", "the picture of before"),
    ("notes.txt", "mine"),
];
const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures");
/// A program that keeps the contract of those that are measured: each tick is late by 20 us.
const SCRIPT: &str = "{ echo osjitter.series/1 period_ns=$OSJITTER_PERIOD_NS; yes 20000 | head -n $OSJITTER_TICKS; } >$OSJITTER_OUT";

/// A command line. `{home}` is its directory, `{program}` a program that keeps the contract.
#[derive(Debug)]
pub struct Scene {
    pub name: &'static str,
    pub args: &'static [&'static str],
    /// The subjects of the report that is promised; none where there is another result.
    pub subjects: &'static [&'static str],
    /// Whether its directory is there already, with files in it.
    pub earlier: bool,
}

/// What came of it.
pub struct Ended {
    /// `None` where it had to be ended.
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
    /// What was met, where a fault is made by the call.
    pub met: Option<u64>,
    home: tempfile::TempDir,
}

impl Ended {
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    pub fn out(&self) -> PathBuf {
        self.home.path().join("out")
    }

    /// Files that nobody has asked for.
    pub fn left(&self) -> Vec<PathBuf> {
        let all = [
            (
                "",
                &[
                    "out",
                    "out.html",
                    "baseline.json",
                    "temporary",
                    "stdout",
                    "stderr",
                    "tally",
                    "program",
                ][..],
            ),
            ("temporary", &[]),
        ];
        let known = |directory: PathBuf, known: &[&str]| {
            let mut files = names(&directory);
            files.retain(|name| !known.contains(&name.as_str()));
            files.into_iter().map(|name| directory.join(name)).collect::<Vec<_>>()
        };
        let mut left: Vec<PathBuf> =
            all.into_iter().flat_map(|(name, k)| known(self.home.path().join(name), k)).collect();
        let hidden = names(&self.out()).into_iter().filter(|name| name.starts_with('.'));
        left.extend(hidden.map(|name| self.out().join(name)));
        left
    }
}

/// Of what is in a directory, if it is there.
pub fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.map(|e| e.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

impl Scene {
    pub fn place(&self) -> usize {
        Self::ALL.iter().position(|scene| std::ptr::eq(*scene, self)).expect("it is one of them")
    }

    /// How often it makes a call where nothing fails.
    pub fn calls(&self, tools: &Tools, call: &str) -> u64 {
        let home = self.home();
        let spec = format!("{call}=count");
        let code = self.end(self.injected(tools, home.path(), &[spec]), home.path());
        let text = std::fs::read_to_string(home.path().join("tally")).unwrap_or_default();
        let count = text.split_whitespace().next().and_then(|n| n.parse().ok());
        let stderr = std::fs::read_to_string(home.path().join("stderr")).unwrap_or_default();
        count.unwrap_or_else(|| {
            panic!("{} was not counted in {}: {code:?} {stderr}", call, self.name)
        })
    }

    /// Runs it with the fault of a row. A busy machine makes fewer calls: where the chosen one is
    /// not made, an earlier one is.
    pub fn run(&self, tools: &Tools, row: &Row, calls: &dyn Fn(&str) -> u64) -> Ended {
        let tries = (0..3).map(|earlier| self.once(tools, row, &|call| calls(call) >> earlier));
        let mut met = tries.skip_while(|ended| ended.met == Some(0) && ended.code.is_some());
        met.next().unwrap_or_else(|| self.once(tools, row, calls))
    }

    fn once(&self, tools: &Tools, row: &Row, calls: &dyn Fn(&str) -> u64) -> Ended {
        let home = self.home();
        let command = match row.fault {
            Fault::Call { call, action } => {
                let spec = match row.at {
                    Moment::Start => format!("{call}={action}:1:1"),
                    Moment::Middle => {
                        format!("{call}={action}:{}:1", calls(call).div_ceil(2).max(1))
                    }
                    Moment::End => format!("{call}={action}:{}:1", last(calls(call))),
                    Moment::From(first) => format!("{call}={action}:{first}:{}", i64::MAX),
                    Moment::Always => format!("{call}={action}:1:{}", i64::MAX),
                    Moment::Half => format!("{call}={action}:1:{}:2", i64::MAX),
                };
                self.injected(tools, home.path(), &[spec])
            }
            Fault::Limit(limit) => {
                let mut command = Command::new("sh");
                command
                    .args(["-c", &format!("{limit}; exec \"$0\" \"$@\"")])
                    .args(self.words(home.path()));
                command
            }
            Fault::Clock(jump) => {
                let mut command = Command::new("env");
                command.arg(format!("CLOCK_JUMP={jump}"));
                command
                    .arg(format!("LD_PRELOAD={}", tools.path("clock.so").display()))
                    .args(self.words(home.path()));
                command
            }
        };
        let code = self.end(command, home.path());
        let read = |name: &str| {
            let bytes = std::fs::read(home.path().join(name)).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        let met = matches!(row.fault, Fault::Call { .. }).then(|| {
            read("tally").split_whitespace().nth(1).and_then(|n| n.parse().ok()).unwrap_or(0)
        });
        Ended { code, stdout: read("stdout"), stderr: read("stderr"), met, home }
    }

    fn home(&self) -> tempfile::TempDir {
        // By another name than the temporary files in it, which rows single out.
        let home =
            tempfile::Builder::new().prefix("scene-").tempdir().expect("a temporary directory");
        let create = |name: &str| std::fs::create_dir(home.path().join(name)).expect("a directory");
        create("temporary");
        std::fs::write(home.path().join("program"), SCRIPT).expect("a file");
        if self.earlier {
            create("out");
            for (name, text) in EARLIER {
                std::fs::write(home.path().join("out").join(name), text).expect("a file");
            }
        }
        home
    }

    /// Its words.
    fn words(&self, home: &Path) -> Vec<String> {
        let home = home.to_str().expect("a plain path");
        let place = |arg: &str| {
            arg.replace("{program}", "sh {home}/program")
                .replace("{home}", home)
                .replace("{fixture}", FIXTURES)
        };
        let osjitter = env!("CARGO_BIN_EXE_osjitter").to_owned();
        std::iter::once(osjitter).chain(self.args.iter().map(|arg| place(arg))).collect()
    }

    fn injected(&self, tools: &Tools, home: &Path, specs: &[String]) -> Command {
        let mut command = Command::new(tools.path("inject"));
        command.arg(home.join("tally")).args(specs).arg("--").args(self.words(home));
        command
    }

    /// Its exit code; `None` where it had to be ended.
    #[allow(clippy::disallowed_methods, reason = "a watchdog")]
    fn end(&self, mut command: Command, home: &Path) -> Option<i32> {
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
        let mut child = command.spawn().expect("it starts");
        let began = Instant::now();
        loop {
            if let Some(status) = child.try_wait().expect("a child") {
                return Some(status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)));
            }
            if began.elapsed() > SCENE_TIMEOUT {
                // With its command, which goes with it.
                let _ = child.kill().and_then(|()| child.wait());
                return None;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// The last of so many calls, or of many a late one: on another run, some more or fewer are made.
fn last(calls: u64) -> u64 {
    if calls < 20 { calls.max(1) } else { calls - calls / 4 }
}

/// Ticks of every subject of a report.
pub const TICKS: u64 = 50;

/// `run` of these subjects, with more arguments.
macro_rules! run {
    ($name:literal, [$($subject:literal),*] $(, $more:literal)*) => {
        Scene {
            name: $name,
            args: &["run", "--quiet", "--seed", "1", "--ticks", "50", "--period", "1ms", "--out", "{home}/out",
                $("--subject", $subject,)* $($more,)*],
            subjects: &[$($subject),*],
            earlier: false,
        }
    };
}

/// Another command, whose result is no report.
macro_rules! other {
    ($name:literal, $($arg:literal),+) => {
        Scene { name: $name, args: &[$($arg),+], subjects: &[], earlier: false }
    };
}

/// Every timer on tokio, and both controls.
pub static TIMERS: Scene =
    run!("timers", ["os-interval", "periodic-interval", "tokio-interval", "nanosleep", "spin"]);
/// What spins, shares a timer, or brings a runtime of its own.
pub static SPECIAL: Scene = run!(
    "special",
    ["os-interval-precise", "os-interval-group", "busypoll-interval", "tokio-timeout", "spin"]
);
pub static WORKERS: Scene = run!("workers", ["os-interval", "spin"], "--runtime", "multi-thread:2");
pub static CONTROL: Scene = run!("control", ["spin"]);
pub static PICTURES: Scene = run!("pictures", ["spin"], "--svg");
/// Into a directory that has an earlier report.
pub static AGAIN: Scene = Scene { earlier: true, name: "again", ..run!("control", ["spin"]) };
pub static REDRAWN: Scene = Scene { earlier: true, ..run!("redrawn", ["spin"], "--svg") };
/// With words, and in one round.
pub static ROUND: Scene = Scene {
    name: "round",
    args: &[
        "run",
        "--seed",
        "1",
        "--ticks",
        "50",
        "--round-ticks",
        "50",
        "--period",
        "1ms",
        "--out",
        "{home}/out",
        "--subject",
        "spin",
    ],
    subjects: &["spin"],
    earlier: false,
};
pub static SETTINGS: Scene =
    run!("settings", ["nanosleep", "spin"], "--timer-slack", "1us", "--cpu", "0");
pub static URGENT: Scene = run!("urgent", ["spin"], "--sched", "fifo:1", "--mlock");
pub static WHY: Scene = run!("why", ["os-interval", "spin"], "--why");
pub static LOADED: Scene = run!("loaded", ["spin"], "--load", "cpu:1");
/// A program beside a subject of ours; the report calls it by its first word.
pub static PROGRAM: Scene =
    Scene { subjects: &["spin", "sh"], ..run!("program", ["spin"], "--command", "{program}") };
pub static GATE: Scene = other!(
    "gate",
    "gate",
    "--quiet",
    "--a",
    "nanosleep",
    "--b",
    "os-interval",
    "--period",
    "200us",
    "--round-ticks",
    "20",
    "--warmup",
    "0",
    "--max-pairs",
    "24",
    "--floor",
    "100ms",
    "--seed",
    "1",
    "--out",
    "{home}/out"
);
pub static DUET: Scene = other!(
    "duet",
    "gate",
    "--quiet",
    "--duet",
    "--a",
    "nanosleep",
    "--b",
    "os-interval",
    "--period",
    "1ms",
    "--round-ticks",
    "20",
    "--warmup",
    "0",
    "--max-pairs",
    "24",
    "--floor",
    "100ms",
    "--seed",
    "1",
    "--out",
    "{home}/out"
);
pub static GATED: Scene = other!(
    "gated",
    "gate",
    "--quiet",
    "--baseline-cmd",
    "{program}",
    "--candidate-cmd",
    "{program}",
    "--period",
    "1ms",
    "--round-ticks",
    "20",
    "--warmup",
    "0",
    "--max-pairs",
    "24",
    "--floor",
    "100ms",
    "--seed",
    "1",
    "--out",
    "{home}/out"
);
pub static STORE: Scene = other!(
    "store",
    "gate",
    "baseline",
    "add",
    "{home}/baseline.json",
    "--subject",
    "nanosleep",
    "--period",
    "200us",
    "--round-ticks",
    "20",
    "--warmup",
    "0",
    "--max-pairs",
    "24",
    "--floor",
    "100ms",
    "--seed",
    "1"
);
pub static MONITOR: Scene = other!(
    "monitor",
    "monitor",
    "--quiet",
    "--budget",
    "400%",
    "--interval",
    "1s",
    "--duration",
    "2s",
    "--log",
    "{home}/out",
    "--period",
    "10ms",
    "--subject",
    "os-interval",
    "--subject",
    "nanosleep"
);
pub static CLOCKS: Scene = other!(
    "clocks",
    "bench",
    "clock",
    "--quiet",
    "--threads",
    "1",
    "--order-reads",
    "1000",
    "--drift",
    "1ms",
    "--out",
    "{home}/out"
);
pub static PAGE: Scene = other!(
    "page",
    "report",
    "--format",
    "html",
    "--out",
    "{home}/out.html",
    "{fixture}/cyclictest.json"
);

impl Scene {
    pub const ALL: [&Self; 20] = [
        &TIMERS, &SPECIAL, &WORKERS, &CONTROL, &PICTURES, &AGAIN, &REDRAWN, &ROUND, &SETTINGS,
        &URGENT, &WHY, &LOADED, &PROGRAM, &GATE, &DUET, &GATED, &STORE, &MONITOR, &CLOCKS, &PAGE,
    ];
}
