//! `osjitter trace`: how late the timers of any program are, from outside.

pub mod args;
mod session;
pub mod subjects;
pub mod text;
pub mod waits;

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;
use std::time::SystemTime;

use cli::exit::{self, Error, ExitStatus};
use cli::time::format_time;
use cli::units;
use cli::wrap::wrap_paragraph;
use engine::machine::host;
use engine::measure::child::BackgroundProcess;
use engine::program::Program;
use files::file::File as _;
use files::report::{Clock, Host, Plan, Report, SCHEMA, Scenario, Trace, Warning};

use crate::file_io::Directory;
use crate::render::formats::Format;
use crate::trace::args::TraceArgs;
use crate::trace::session::{Target, Traced};
use crate::trace::subjects::{Group, groups, round_ns, subject};
use crate::{interrupt, render, terminal};

pub fn run(args: &TraceArgs) -> exit::Result<ExitStatus> {
    let program = match args.pid {
        Some(process) => session::check(process, args.thread.as_deref()).map(|()| None)?,
        None => Some(Program::from_words(args.program.clone()).map_err(Error::usage)?),
    };
    program.iter().try_for_each(Program::check_exists).map_err(Error::usage)?;
    let host = host::capture();
    let started_utc = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let stop = Arc::default();
    // Before the program: nothing of it goes unseen.
    let tracer = session::open()?;
    interrupt::stop_on_interrupt(&stop)?;
    let out = Directory::open(args.out.as_deref(), &started_utc)?;
    let from_ns = session::begin()?;
    let mut target = match (program, args.pid) {
        (Some(program), _) => {
            let beside = BackgroundProcess::start_with_output(&program).map_err(Error::usage)?;
            Target::Program(program, beside)
        }
        (None, process) => Target::Process(process.unwrap_or_default()),
    };
    let until = args.duration.map_or_else(
        || "until it ends, or Ctrl-C".to_owned(),
        |d| format!("for {}", units::format_exact_duration(d)),
    );
    terminal::note(args.quiet, &format!("tracing {} {until}", target.name()));
    let mut traced = session::run(tracer, &mut target, from_ns, args.duration, &stop)?;
    if let Some(thread) = &args.thread {
        traced.waits.retain(|wait| wait.name.to_string() == *thread);
    }
    if traced.waits.is_empty() {
        return Err(Error::measure(nothing(&target, &traced, args.thread.as_deref())));
    }
    let (groups, left_out) = groups(&traced.waits);
    let trace = trace(&target, &traced, args.thread.clone());
    if let (Some(ended), Target::Program(..)) = (&traced.ended, &target) {
        terminal::note(args.quiet, &format!("{} {ended}", target.name()));
    }
    drop(target);
    let report = report(&groups, &traced, left_out, Conditions { trace, host, started_utc });
    let json = report.to_json();
    let page = render::html::page(std::slice::from_ref(&report));
    let timers = text::timers(&groups);
    let saved =
        out.place(&[("timers.csv", &timers), ("report.html", &page), ("report.json", &json)]);
    let columns = terminal::columns();
    let shown = match args.format {
        Format::Table => {
            let words = !args.quiet;
            let table = render::table::render_reports(
                std::slice::from_ref(&report),
                &args.table,
                columns,
                words,
            );
            let price = report.trace.as_ref().map_or_else(String::new, text::price);
            let price = if words {
                format!("\n{}", wrap_paragraph(&price, columns))
            } else {
                String::new()
            };
            table + &text::stretches(&groups, columns) + &price
        }
        _ => json,
    };
    let written = std::io::stdout().write_all(shown.as_bytes()).map_err(Error::from_stdout);
    if saved.is_ok() {
        terminal::note(args.quiet, &format!("report: {}", out.path("report.json").display()));
        terminal::note_link(args.quiet, "page: ", &out.path("report.html"));
    }
    saved.and(written)?;
    Ok(ExitStatus::Done)
}

/// Why there is nothing to show.
fn nothing(target: &Target, traced: &Traced, thread: Option<&str>) -> String {
    let window = format_time(traced.to_ns - traced.from_ns);
    if let Some(ended) = &traced.ended {
        return format!(
            "{} {ended}, after {window} and before a timer woke it; trace a program that waits on timers",
            target.name()
        );
    }
    let mut calls: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, call) in &traced.threads {
        if thread.is_none_or(|thread| name.to_string() == thread) {
            let call =
                call.as_ref().map_or_else(|| "runs".to_owned(), |call| format!("waits in {call}"));
            calls.entry(call).or_default().push(name.to_string());
        }
    }
    let threads: Vec<String> = calls
        .into_iter()
        .map(|(call, names)| match names.len() {
            1 => format!("thread {} {call}", names[0]),
            n => format!("{n} threads, such as {}: each {call}", names[0]),
        })
        .collect();
    let threads =
        if threads.is_empty() { "no such thread was seen".to_owned() } else { threads.join("; ") };
    let lost = match [traced.counts.lost, traced.unrecorded] {
        [0, 0] => String::new(),
        [lost, 0] => format!(" ({lost} records were lost)"),
        [0, unrecorded] => format!(" ({unrecorded} events were counted and not recorded)"),
        [lost, unrecorded] => {
            format!(" ({lost} records were lost, and {unrecorded} events counted and not recorded)")
        }
    };
    format!(
        "{} does not wait on timers: none woke it in {window}{lost}; {threads}. A longer --duration may see more",
        target.name()
    )
}

fn trace(target: &Target, traced: &Traced, thread: Option<String>) -> Trace {
    Trace {
        command: match target {
            Target::Program(program, _) => Some(program.words().to_vec()),
            Target::Process(_) => None,
        },
        process: target.process(),
        thread,
        window_ns: (traced.to_ns - traced.from_ns).unsigned_abs(),
        cpu_ns: traced.cpu_ns,
        apart: traced.apart,
        records: traced.counts.events,
        bytes: traced.bytes,
        lost: traced.counts.lost,
        unrecorded: traced.unrecorded,
        undated: traced.counts.undated,
        unseen: traced.counts.unseen,
        dropped: traced.counts.dropped + traced.counts.disordered,
    }
}

struct Conditions {
    trace: Trace,
    host: Host,
    started_utc: String,
}

fn report(groups: &[Group<'_>], traced: &Traced, left_out: usize, of: Conditions) -> Report {
    let window_ns = traced.to_ns - traced.from_ns;
    let length_ns = round_ns(window_ns);
    let subjects: Vec<_> =
        groups.iter().map(|group| subject(group, traced.from_ns, length_ns)).collect();
    let scenario = |s: &files::report::Subject| Scenario {
        id: s.id.clone(),
        subject: s.name.clone(),
        command: None,
        period_ns: s.period_ns,
        ticks: s.summary.as_ref().map_or(0, |m| m.ticks),
        round_ticks: s.rounds.iter().map(|r| r.lateness_ns.len() as u64).max().unwrap_or(0),
        warmup_ticks: 0,
        runtime: None,
        instances: 1,
        load: None,
    };
    let mut warnings = Vec::new();
    let mut warn = |code: &str, message: String, hint: &str| {
        warnings.push(Warning { code: code.to_owned(), message, hint: hint.to_owned() });
    };
    if of.trace.lost > 0 {
        let message = format!(
            "The kernel lost {} records: the timers around them are in no number.",
            of.trace.lost
        );
        warn("trace-lost", message, "Trace a shorter window, or a machine that switches less.");
    }
    if left_out > 0 {
        let message = format!("{left_out} timers of the threads with the fewest are left out.");
        warn("trace-threads", message, "--thread looks at those of one name.");
    }
    if traced.waits.len() >= waits::MAX_TRACKED_WAITS {
        let message = format!(
            "The window ended early: no more than {} timers are kept.",
            waits::MAX_TRACKED_WAITS
        );
        warn("trace-full", message, "Trace a shorter window, or with --thread.");
    }
    Report {
        schema: SCHEMA.to_owned(),
        tool: host::tool(),
        started_utc: of.started_utc,
        duration_ns: window_ns.unsigned_abs(),
        partial: false,
        plan: Plan {
            samples: true,
            scenarios: subjects.iter().map(scenario).collect(),
            ..Plan::default()
        },
        host: of.host,
        clock: Clock {
            source: "CLOCK_MONOTONIC, by the kernel's tracepoints".to_owned(),
            rate_hz: 1e9,
            rate_known_by: "its unit".to_owned(),
            error_bound_ns: 0,
            rate_error_ppb: None,
            rate_stated_hz: None,
            cross_thread_order: None,
            why_not_counter: None,
            observer_ns_per_tick: None,
        },
        changes: Vec::new(),
        fitness: None,
        warnings,
        loads: Vec::new(),
        subjects,
        trace: Some(of.trace),
    }
}
