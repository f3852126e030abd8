//! Tests of whole runs, judged by metrics of the system and by metrics that the programs write.
#![cfg(unix)]

mod compared_programs;
mod disturbed_runs;
mod failing_runs;
mod system_metrics;
mod written_metrics;

use std::path::PathBuf;

use files::gate::verdict::RunsVerdict;

use super::Gate;
use crate::osjitter::Osjitter;

const PAIRS: [&str; 2] = ["--max-pairs", "24"];
const ANY_LENGTH: [&str; 2] = ["--min-run-time", "0us"];

/// Two shell scripts in a directory, which they find as `$HOME_OF_TEST`.
pub struct ScriptPair {
    home: tempfile::TempDir,
}

impl ScriptPair {
    pub fn new(a: &str, b: &str) -> Self {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join("a"), a).unwrap();
        std::fs::write(home.path().join("b"), b).unwrap();
        Self { home }
    }

    /// Creates a pair of equal scripts.
    pub fn from_script(script: &str) -> Self {
        Self::new(script, script)
    }

    /// Creates scripts that write the given lines after the header.
    pub fn from_lines(a: &str, b: &str) -> Self {
        let script =
            |lines: &str| format!("printf 'osjitter.series/1\\n{lines}' >\"$OSJITTER_OUT\"\n");
        Self::new(&script(a), &script(b))
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    pub fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    /// Returns the command that runs a script.
    pub fn command(&self, name: &str) -> String {
        format!("sh '{}'", self.path(name).display())
    }

    fn command_line(&self, args: &[&str]) -> Osjitter {
        self.command_line_of(&self.command("a"), &self.command("b"), args)
    }

    fn command_line_of(&self, base: &str, candidate: &str, args: &[&str]) -> Osjitter {
        let sides = ["--base-cmd", base, "--candidate-cmd", candidate];
        super::gate(&[&sides, args].concat()).env("HOME_OF_TEST", self.home.path())
    }

    pub fn gate(&self, args: &[&str]) -> Gate {
        self.gate_pairs(&[&PAIRS, args].concat())
    }

    /// Gates the scripts with the number of pairs that the arguments give.
    pub fn gate_pairs(&self, args: &[&str]) -> Gate {
        Gate::from_ran(self.command_line(&[&ANY_LENGTH, args].concat()).run())
    }

    /// Screens the scripts, with as many pairs as fit into its time.
    pub fn screen(&self, args: &[&str]) -> Gate {
        self.gate_pairs(&[&["--screen"], args].concat())
    }

    #[track_caller]
    pub fn refuses(&self, args: &[&str], says: &str) {
        self.gate(args).refuses(says);
    }

    /// Checks that the scripts are refused if they have these arguments.
    #[track_caller]
    pub fn refuses_command(&self, arguments: &str, args: &[&str], says: &str) {
        let command = |name| format!("{} {arguments}", self.command(name));
        let osjitter = self.command_line_of(&command("a"), &command("b"), args);
        Gate::from_ran(osjitter.run()).refuses(says);
    }
}

#[track_caller]
pub fn runs(gate: &Gate) -> &RunsVerdict {
    let verdict = gate.verdict();
    assert!(verdict.comparisons.is_empty(), "whole runs are not judged by lateness");
    verdict.runs.as_ref().expect("a verdict about whole runs")
}

/// Counts the runs in `n`.
pub const COUNTED: &str =
    "n=$(cat \"$HOME_OF_TEST/n\" 2>/dev/null || echo 0); echo $((n + 1)) >\"$HOME_OF_TEST/n\"\n";

/// Lines that declare and write a throughput, of which more is better.
fn throughput_lines(value: &str) -> String {
    format!("metric throughput req/s higher\\nthroughput {value}\\n")
}
