//! `osjitter gate`: has jitter become worse?
//!
//! Each kind of question has a file: two sides in turn ([`subjects`], [`commands`]). Here they are planned, run one
//! after the other, and come to one verdict.

mod commands;
mod plan;
mod session;
mod subjects;

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime};

use jitterstat::gate::look::{Outcome, Reason};
use jitterstat::gate::round::tail_name;
use jitterstat::gate::verdict::{self, SCHEMA, Verdict};
use jitterstat::report::{Host, Warning};

use crate::cli::{GateArgs, OnInconclusive, VerdictFormat};
use crate::exit::{ExitStatus, Failure};
use crate::export::directory::Directory;
use crate::measure::Shared;
use crate::{export, host, interrupt, os, output};

use plan::{Comparison, Sides};
use session::Session;

/// Plans, measures until all is decided, writes the verdict.
pub fn run(args: &GateArgs) -> Result<ExitStatus, Failure> {
    let comparisons = plan::comparisons(args).map_err(Failure::Usage)?;
    let Some(first) = comparisons.first() else {
        return Err(Failure::Usage("give --a and --b, or --baseline-cmd and --candidate-cmd".to_owned()));
    };
    let quiet = args.judged.quiet;
    bind(first.plan.cpu).map_err(Failure::Usage)?;
    let started_utc = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let out = Directory::open(args.out.as_deref(), &started_utc).map_err(Failure::Usage)?;
    announce(&comparisons, quiet);
    let shared = Arc::new(Shared::default());
    interrupt::stop_on_interrupt(&shared)?;

    let mut gate = Gate::new(host::capture(), shared, quiet);
    for comparison in &comparisons {
        gate.compare(comparison);
    }
    let verdict = gate.verdict(started_utc);
    conclude(&verdict, args, &out)
}

/// Writes the verdict, prints it, and turns it into an exit code.
fn conclude(verdict: &Verdict, args: &GateArgs, out: &Directory) -> Result<ExitStatus, Failure> {
    let json = verdict.to_json();
    let file = out.write("verdict.json", &json)?;
    let text = match args.format {
        VerdictFormat::Table => export::verdict::table(verdict),
        VerdictFormat::Json => json,
        VerdictFormat::Markdown => export::verdict::markdown(verdict),
        VerdictFormat::Junit => export::verdict::junit(verdict),
    };
    let written = std::io::stdout().write_all(text.as_bytes()).map_err(Failure::writing);
    output::note(args.judged.quiet, &format!("verdict: {}", file.display()));
    if verdict.verdict == Outcome::Inconclusive {
        // Said even when asked to be quiet: an exit code of 0 must not be taken for a pass.
        output::note(false, &format!("NOT A PASS. {}", export::verdict::sentence(verdict)));
    }
    written?;
    Ok(match verdict.verdict {
        _ if verdict.partial => ExitStatus::NotMeasured,
        Outcome::Regressed | Outcome::LimitBroken => ExitStatus::Regressed,
        Outcome::Inconclusive if args.on_inconclusive == OnInconclusive::Fail => ExitStatus::Inconclusive,
        Outcome::Inconclusive | Outcome::Pass | Outcome::Improved => ExitStatus::Done,
    })
}

/// What has been judged so far.
struct Gate {
    host: Host,
    shared: Arc<Shared>,
    quiet: bool,
    started: Instant,
    comparisons: Vec<verdict::Comparison>,
    failure: Option<String>,
    /// Something that was asked for could not be judged.
    partial: bool,
    warnings: Vec<Warning>,
}

impl Gate {
    fn new(host: Host, shared: Arc<Shared>, quiet: bool) -> Self {
        let (comparisons, warnings) = (Vec::new(), Vec::new());
        Self { host, shared, quiet, started: now(), comparisons, failure: None, partial: false, warnings }
    }

    /// Interrupted, or unable to go on: what is left is not begun.
    fn is_over(&self) -> bool {
        self.failure.is_some() || self.shared.stop.load(Ordering::Relaxed)
    }

    fn compare(&mut self, planned: &Comparison) {
        if self.is_over() {
            self.partial = true;
            return;
        }
        let started = now();
        let mut session = Session::new(planned, self.quiet);
        match &planned.sides {
            Sides::Subjects(scenarios) => subjects::run(scenarios, planned, &self.shared, &mut session),
            Sides::Programs(a, b) => commands::run([a, b], planned, &self.shared, &mut session),
        }
        let cpus = self.host.cpus_online.unwrap_or(1).max(1) as f64;
        let (comparison, failure) = session.end(started.elapsed(), cpus);
        self.partial |= matches!(comparison.reason, Some(Reason::Interrupted | Reason::NotMeasured));
        self.failure = failure;
        self.comparisons.push(comparison);
    }

    fn verdict(self, started_utc: String) -> Verdict {
        let outcomes = || self.comparisons.iter().map(|c| (c.verdict, c.reason));
        let mut outcome = Outcome::of_all(outcomes().map(|(outcome, _)| outcome));
        if self.partial && matches!(outcome, Outcome::Pass | Outcome::Improved) {
            outcome = Outcome::Inconclusive;
        }
        let why_partial = match (self.partial, &self.failure) {
            (false, _) => None,
            (true, None) => Some(Reason::Interrupted),
            (true, Some(_)) => Some(Reason::NotMeasured),
        };
        let open = outcomes().find_map(|(o, reason)| reason.filter(|_| o == Outcome::Inconclusive));
        Verdict {
            schema: SCHEMA.to_owned(),
            tool: host::tool(),
            started_utc,
            duration_ns: u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX),
            partial: self.partial,
            verdict: outcome,
            reason: why_partial.or(open).filter(|_| outcome == Outcome::Inconclusive),
            comparisons: self.comparisons,
            baseline: None,
            limits: Vec::new(),
            failure: self.failure,
            host: self.host,
            warnings: self.warnings,
        }
    }
}

fn bind(cpu: Option<usize>) -> Result<(), String> {
    let Some(cpu) = cpu else { return Ok(()) };
    if os::affinity().is_some_and(|allowed| !allowed.contains(&cpu)) {
        return Err(format!("CPU {cpu} is not there or not allowed; nothing was run"));
    }
    os::bind(cpu).map_err(|e| format!("cannot bind to CPU {cpu}: {e}; nothing was run"))
}

fn announce(comparisons: &[Comparison], quiet: bool) {
    let all = |pairs: fn(&Comparison) -> u64| comparisons.iter().map(|c| c.time_of(pairs(c))).sum::<Duration>();
    let first = all(|c| c.plan.looks.first().copied().unwrap_or(0)).as_secs_f64();
    let last = all(Comparison::most_pairs).as_secs_f64();
    let mut tails: Vec<&str> = comparisons.iter().map(|c| tail_name(c.tail())).filter(|&t| t != "p99").collect();
    tails.dedup();
    let tail = match tails.as_slice() {
        [] => String::new(),
        names => format!("; rounds this short are judged by {} instead of p99", names.join(" and ")),
    };
    output::note(quiet, &format!("gate: {first:.0}s to the first look, at most {last:.0}s to the last{tail}"));
}

#[allow(clippy::disallowed_methods, reason = "wall time of the gate")]
fn now() -> Instant {
    Instant::now()
}
