//! `osjitter gate` from outside.

mod baseline;
// Elsewhere no thread can be bound to a CPU, and it is refused.
#[cfg(target_os = "linux")]
mod duet;
mod limits;
mod pairs;

use std::process::{Command, Output};

use jitterstat::file::File as _;
use jitterstat::gate::verdict::Verdict;
use tempfile::TempDir;

struct Gate {
    output: Output,
    out: TempDir,
    verdict: Option<Verdict>,
}

/// Reads a verdict, which is valid by its published schema whatever it says.
fn read(text: &str) -> Verdict {
    let value = serde_json::from_str(text).unwrap();
    let validator = jsonschema::validator_for(&Verdict::json_schema()).unwrap();
    assert!(validator.is_valid(&value), "{text}");
    Verdict::from_json(text).unwrap()
}

impl Gate {
    fn run(args: &[&str]) -> Self {
        let out = tempfile::tempdir().unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_osjitter"))
            .arg("gate")
            .args(args)
            .arg("--out")
            .arg(out.path())
            .output()
            .expect("the binary runs");
        let file = std::fs::read_to_string(out.path().join("verdict.json")).ok();
        Self { output, verdict: file.map(|text| read(&text)), out }
    }

    /// Starts it, lets it measure for a while, and interrupts it.
    #[cfg(unix)]
    fn interrupted(args: &[&str]) -> Self {
        use std::process::Stdio;
        let out = tempfile::tempdir().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_osjitter"));
        command.arg("gate").args(args).arg("--out").arg(out.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let gate = command.spawn().unwrap();
        #[allow(clippy::disallowed_methods, reason = "let it measure for a while")]
        std::thread::sleep(std::time::Duration::from_secs(3));
        assert!(Command::new("kill").args(["-INT", &gate.id().to_string()]).status().unwrap().success());
        let output = gate.wait_with_output().unwrap();
        let file = std::fs::read_to_string(out.path().join("verdict.json")).ok();
        Self { output, verdict: file.map(|text| read(&text)), out }
    }

    /// A file that it wrote.
    fn file(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.out.path().join(name)).ok()
    }

    /// 24 pairs of rounds of 40 ticks at 1 ms: about two seconds.
    fn quick(args: &[&str]) -> Self {
        let rounds = ["--period", "1ms", "--round-ticks", "40", "--warmup", "3", "--max-rounds", "24"];
        Self::run(&[args, &rounds].concat())
    }

    fn code(&self) -> i32 {
        self.output.status.code().expect("it was not killed")
    }

    fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.output.stderr).into_owned()
    }

    fn stdout(&self) -> String {
        String::from_utf8_lossy(&self.output.stdout).into_owned()
    }
}
