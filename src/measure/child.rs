//! One round of a user's own program: start it, wait with a limit, reap it in every case, read what it wrote.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use jitterstat::file::File as _;
use jitterstat::report::Report;
use jitterstat::series::{self, Reader};

/// How often a program that should be done by now is looked at.
const POLL: Duration = Duration::from_millis(2);
/// How long an interrupt may go unnoticed.
const NOTICE: Duration = Duration::from_millis(50);
/// As much of its standard error as a message quotes.
const QUOTED_BYTES: usize = 400;

/// A program and its arguments.
#[derive(Clone, Debug)]
pub struct Program {
    text: String,
    words: Vec<String>,
}

impl Program {
    /// Splits a command line into words, by the shell's rules of quoting but without a shell.
    pub fn parse(text: &str) -> Result<Self, String> {
        let words = shlex::split(text).ok_or_else(|| format!("the command {text:?} has an open quote"))?;
        if words.is_empty() {
            return Err("an empty command is nothing to run".to_owned());
        }
        Ok(Self { text: text.to_owned(), words })
    }

    /// As it was given.
    pub fn text(&self) -> &str {
        &self.text
    }
}

/// What a round asks of a program.
#[derive(Clone, Copy, Debug)]
pub struct ProgramRound {
    /// Nominal period it must run at.
    pub period: Duration,
    pub ticks: u64,
    pub warmup: u64,
    /// When it is ended by force.
    pub limit: Duration,
}

/// Why there is nothing to judge.
#[derive(Debug, PartialEq, Eq)]
pub enum NotMeasured {
    /// The stop flag was set.
    Interrupted,
    /// It failed, hung, or wrote something else than was asked for.
    Failed(String),
}

/// Ends and reaps the program whatever happens between start and exit.
struct KillOnDrop(Child);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        // Both fail only for one that is gone already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs one round and returns the lateness of its ticks in order.
pub fn measure(program: &Program, round: ProgramRound, stop: &AtomicBool) -> Result<Vec<i64>, NotMeasured> {
    let fail = |what: String| NotMeasured::Failed(format!("{}: {what}", program.text));
    let scratch = tempfile::tempdir().map_err(|e| fail(format!("no temporary directory for it: {e}")))?;
    let (out, talk) = (scratch.path().join("series"), scratch.path().join("stderr"));
    let stderr = std::fs::File::create(&talk).map_err(|e| fail(format!("no file for its standard error: {e}")))?;
    let spawned = Command::new(&program.words[0])
        .args(&program.words[1..])
        .env(series::ENV_TICKS, round.ticks.to_string())
        .env(series::ENV_WARMUP, round.warmup.to_string())
        .env(series::ENV_OUT, &out)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(stderr)
        .spawn();
    let mut child = KillOnDrop(spawned.map_err(|e| fail(format!("cannot be started: {e}")))?);
    let status = wait(&mut child.0, round, stop).map_err(|why| match why {
        NotMeasured::Failed(what) => fail(what),
        interrupted => interrupted,
    })?;
    if !status.success() {
        return Err(fail(format!("ended with {status}{}", quoted(&talk))));
    }
    read(&out, round).map_err(fail)
}

#[allow(clippy::disallowed_methods, reason = "a time limit on another process needs a clock and a pause")]
fn wait(child: &mut Child, round: ProgramRound, stop: &AtomicBool) -> Result<std::process::ExitStatus, NotMeasured> {
    let started = Instant::now();
    let ideal = round.period.saturating_mul(u32::try_from(round.ticks + round.warmup).unwrap_or(u32::MAX));
    loop {
        if let Some(status) = child.try_wait().map_err(|e| NotMeasured::Failed(format!("cannot be waited for: {e}")))? {
            return Ok(status);
        }
        if stop.load(Ordering::Relaxed) {
            return Err(NotMeasured::Interrupted);
        }
        let elapsed = started.elapsed();
        if elapsed >= round.limit {
            return Err(NotMeasured::Failed(format!("was still running after {:?} and was ended", round.limit)));
        }
        // While it must still be ticking it is left alone.
        std::thread::sleep(ideal.saturating_sub(elapsed).clamp(POLL, NOTICE));
    }
}

fn quoted(talk: &Path) -> String {
    let bytes = std::fs::read(talk).unwrap_or_default();
    let tail = String::from_utf8_lossy(&bytes[bytes.len().saturating_sub(QUOTED_BYTES)..]).trim().to_owned();
    if tail.is_empty() { String::new() } else { format!("; it said: {tail}") }
}

fn read(out: &Path, round: ProgramRound) -> Result<Vec<i64>, String> {
    let name = series::ENV_OUT;
    let bytes = std::fs::read(out).map_err(|e| format!("wrote nothing to {name}: {e}"))?;
    let (period_ns, lateness_ns) = if bytes.starts_with(b"{") {
        let report = Report::from_json(&String::from_utf8_lossy(&bytes)).map_err(|e| format!("{name}: {e}"))?;
        let [subject] = report.subjects.as_slice() else {
            return Err(format!("{name} holds a report of {} subjects; one was expected", report.subjects.len()));
        };
        (subject.period_ns, subject.rounds.iter().flat_map(|r| r.lateness_ns.iter().copied()).collect())
    } else {
        let read = Reader::read(&bytes[..]).map_err(|e| format!("{name}: {e}"))?;
        (read.period_ns, read.lateness_ns)
    };
    if u128::from(period_ns) != round.period.as_nanos() {
        return Err(format!("ran at a period of {period_ns} ns, and --period is {} ns", round.period.as_nanos()));
    }
    if lateness_ns.len() as u64 != round.ticks {
        return Err(format!("wrote {} ticks where {} were asked for", lateness_ns.len(), round.ticks));
    }
    Ok(lateness_ns)
}
