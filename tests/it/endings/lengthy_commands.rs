//! The commands that take long: their arguments, first messages and results.

use super::ending::Ending;
use Ending::{
    HangupIgnored, ParentGone, StderrClosed, StdinClosed, StdoutClosed, StdoutFull, TerminalGone,
};

/// A command line that takes long. `{home}` is replaced with the directory of the row.
#[derive(Debug)]
pub struct LengthyCommand {
    pub name: &'static str,
    /// Arguments that are independent of the length.
    pub args: &'static str,
    /// Further arguments with which the command does not end by itself for a long time.
    pub long: &'static str,
    /// Further arguments for the endings in `completes`.
    pub short: &'static str,
    /// The endings after which the command completes by itself.
    pub completes: &'static [Ending],
    /// The sign that the command has begun.
    pub start: StartSign,
    /// Exit codes after an interrupt.
    pub interrupted: &'static [i32],
    /// The file that is written even after an interrupt.
    pub result: Option<&'static str>,
    /// Whether a result is printed to standard output.
    pub prints: bool,
}

/// A sign that a command has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartSign {
    /// A part of its output.
    Text(&'static str),
    /// It has opened the named pipe `{home}/input`, which contains a report.
    InputOpened,
}

impl LengthyCommand {
    const DEFAULT: Self = Self {
        name: "",
        args: "",
        long: "",
        short: "",
        completes: ALL_COMPLETIONS,
        start: StartSign::Text(" ticks: "),
        interrupted: &[4],
        result: Some("out/report.json"),
        prints: true,
    };

    /// Whether the command only shows something on a terminal.
    pub fn needs_terminal(&self) -> bool {
        self.name == "top"
    }

    /// Whether the command writes files.
    pub fn writes(&self) -> bool {
        !matches!(self.name, "top" | "stress")
    }

    pub fn reads_input(&self) -> bool {
        self.start == StartSign::InputOpened
    }

    /// Returns the words of the command line.
    pub fn words(&self, ending: Ending, home: &str) -> Vec<String> {
        let rest = if ending.lets_complete() { self.short } else { self.long };
        let line = format!("{} {rest}", self.args).replace("{home}", home);
        shlex::split(&line).expect("closed quotes")
    }
}

const ALL_COMPLETIONS: &[Ending] =
    &[TerminalGone, ParentGone, StdinClosed, StdoutClosed, StderrClosed, StdoutFull, HangupIgnored];

/// Rounds of 20 ticks of the programs, which take about 50 ms each.
const PROGRAM_GATE: &str =
    "gate --period 1ms --round-ticks 20 --warmup 0 --max-pairs 24 --floor 100ms --out {home}/out";

pub const COMMANDS: &[LengthyCommand] = &[
    LengthyCommand {
        name: "run",
        args: "run --subject nanosleep --subject os-interval --period 1ms --out {home}/out",
        long: "--ticks 100000",
        short: "--ticks 100",
        ..LengthyCommand::DEFAULT
    },
    LengthyCommand {
        name: "stream",
        args: "run --format jsonl --subject nanosleep --period 1ms --round-ticks 50 --out {home}/out",
        long: "--ticks 100000",
        // It ends when its reader does.
        short: "--ticks 100000",
        completes: &[StdoutClosed],
        ..LengthyCommand::DEFAULT
    },
    LengthyCommand {
        name: "run-program",
        args: "run --subject nanosleep --command 'sh {home}/program' --period 1ms --round-ticks 20 --warmup 0 --out {home}/out",
        long: "--ticks 20000",
        short: "--ticks 40",
        ..LengthyCommand::DEFAULT
    },
    LengthyCommand {
        name: "run-load",
        args: "run --subject nanosleep --load 'sh {home}/load' --load cpu:1 --period 1ms --out {home}/out",
        long: "--ticks 100000",
        short: "--ticks 60",
        ..LengthyCommand::DEFAULT
    },
    LengthyCommand {
        name: "gate-programs",
        args: PROGRAM_GATE,
        long: "--base-cmd 'sh {home}/program' --candidate-cmd 'sh {home}/program'",
        short: "--base-cmd 'sh {home}/quick' --candidate-cmd 'sh {home}/quick'",
        start: StartSign::Text("gate: "),
        result: Some("out/verdict.json"),
        ..LengthyCommand::DEFAULT
    },
    LengthyCommand {
        name: "gate-runs",
        args: "gate --metric wall --max-pairs 24 --out {home}/out",
        long: "--base-cmd 'sleep 0.1' --candidate-cmd 'sleep 0.1'",
        completes: &[],
        start: StartSign::Text("gate: "),
        result: Some("out/verdict.json"),
        ..LengthyCommand::DEFAULT
    },
    LengthyCommand {
        name: "gate-tickers",
        args: "gate --a nanosleep --b os-interval --period 1ms --warmup 0 --max-pairs 24 --floor 100ms --out {home}/out",
        long: "--round-ticks 900",
        short: "--round-ticks 10",
        start: StartSign::Text("gate: "),
        result: Some("out/verdict.json"),
        ..LengthyCommand::DEFAULT
    },
    LengthyCommand {
        name: "gate-limits",
        args: "gate --limit p50=1s --subject nanosleep --period 1ms --out {home}/out",
        long: "--ticks 100000",
        completes: &[],
        start: StartSign::Text("gate: "),
        result: Some("out/verdict.json"),
        ..LengthyCommand::DEFAULT
    },
    LengthyCommand {
        name: "baseline",
        args: "gate baseline add {home}/baseline.json --subject nanosleep --period 1ms --warmup 0 --max-pairs 24",
        long: "--round-ticks 900",
        completes: &[],
        start: StartSign::Text("a session of"),
        result: None,
        ..LengthyCommand::DEFAULT
    },
    LengthyCommand {
        name: "calibrate",
        args: "calibrate --max-time 60s --out {home}/calibration.json",
        completes: &[],
        start: StartSign::Text("calibrate: "),
        result: Some("calibration.json"),
        ..LengthyCommand::DEFAULT
    },
    LengthyCommand {
        name: "find",
        args: "find --out {home}/out",
        long: "--period 1ms --subject nanosleep --max-time 60s",
        short: "--goal cpu=10% --subject scripted",
        start: StartSign::Text("at most "),
        result: Some("out/find.json"),
        ..LengthyCommand::DEFAULT
    },
    LengthyCommand {
        name: "doctor",
        args: "doctor --prove --max-time 10m --format json --out {home}/checkup.json",
        completes: &[],
        start: StartSign::Text(" rounds: "),
        result: Some("checkup.json"),
        prints: false,
        ..LengthyCommand::DEFAULT
    },
    LengthyCommand {
        name: "doctor-settings",
        args: "doctor --prove --subject os-interval --try 'a=touch {home}/set' --undo 'rm {home}/set' --max-time 10m --format json --out {home}/checkup.json",
        completes: &[],
        start: StartSign::Text(" rounds: "),
        result: Some("checkup.json"),
        prints: false,
        ..LengthyCommand::DEFAULT
    },
    LengthyCommand {
        name: "monitor",
        args: "monitor --budget 400% --interval 1s --log {home}/log --listen 127.0.0.1:0",
        long: "--duration 10m",
        short: "--duration 1s",
        start: StartSign::Text("metrics: "),
        interrupted: &[0],
        result: None,
        prints: false,
        ..LengthyCommand::DEFAULT
    },
    LengthyCommand {
        name: "top",
        args: "top",
        completes: &[TerminalGone],
        start: StartSign::Text("q quit"),
        interrupted: &[0],
        result: None,
        ..LengthyCommand::DEFAULT
    },
    LengthyCommand {
        name: "trace",
        args: "trace --out {home}/out",
        long: "-- sh -c 'while :; do sleep 0.01; done'",
        completes: &[],
        start: StartSign::Text("tracing "),
        // Without the wake-up of a timer, there is nothing to report.
        interrupted: &[0, 4],
        result: None,
        ..LengthyCommand::DEFAULT
    },
    LengthyCommand {
        name: "bench-dispatch",
        args: "bench dispatch --quick --out {home}/out",
        long: "--rounds 1000",
        short: "--rounds 1 --operation self-wake",
        start: StartSign::Text(": about "),
        result: Some("out/dispatch.json"),
        ..LengthyCommand::DEFAULT
    },
    LengthyCommand {
        name: "bench-timeout",
        args: "bench timeout --workload ready --round-time 1ms --out {home}/out",
        long: "--rounds 5000",
        short: "--rounds 2 --variant timeout",
        start: StartSign::Text(" rounds: "),
        result: Some("out/timeout.json"),
        ..LengthyCommand::DEFAULT
    },
    LengthyCommand {
        name: "bench-clock",
        args: "bench clock --threads 1 --order-reads 1000 --out {home}/out",
        long: "--drift 60s",
        short: "--drift 10ms",
        start: StartSign::Text("following "),
        result: None,
        ..LengthyCommand::DEFAULT
    },
    LengthyCommand {
        name: "report",
        args: "report --format html --out {home}/page.html {home}/input",
        completes: &[TerminalGone, StdinClosed, StdoutClosed, StderrClosed, HangupIgnored],
        start: StartSign::InputOpened,
        result: None,
        prints: false,
        ..LengthyCommand::DEFAULT
    },
    LengthyCommand {
        name: "merge",
        args: "merge --out {home}/merged.json {home}/first.json {home}/input",
        completes: &[TerminalGone, StdinClosed, StdoutClosed, StderrClosed, HangupIgnored],
        start: StartSign::InputOpened,
        result: None,
        prints: false,
        ..LengthyCommand::DEFAULT
    },
    LengthyCommand {
        name: "stress",
        args: "stress cpu:1",
        completes: &[StdinClosed],
        start: StartSign::Text("ready"),
        result: None,
        ..LengthyCommand::DEFAULT
    },
];
