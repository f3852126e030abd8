//! `osjitter trace`: measures from outside how late the timers of any program are.

pub mod args;
pub mod output;
mod session;
pub mod subjects;
pub mod tracker;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use cli::exit::{self, Error, ExitStatus};
use cli::file_io;
use cli::file_io::{Destination, OutputDirectory, RESULT_FILES};
use cli::terminal;
use cli::time::format_time;
use cli::units;
use cli::words::pluralize;
use engine::machine::host;
use engine::measure::child::BackgroundProcess;
use engine::program::Program;
use files::file::File as _;
use files::report::{Clock, Host, Plan, Report, SCHEMA, Scenario, Subject, Trace, Warning};

use crate::interrupt;
use crate::trace::args::TraceArgs;
use crate::trace::session::{Target, TargetExit, TraceRecording, WindowEdge, WindowEnd};
use crate::trace::subjects::{Group, Groups, round_ns, subject};
use render::formats::Format;

/// Traces a program or process and reports how late its timers were.
pub fn run(args: &TraceArgs) -> exit::Result<ExitStatus> {
    let program = parse_program(args)?;
    let destination = Destination::from_flags(args.out.as_deref(), args.force);
    OutputDirectory::check(destination, RESULT_FILES)?;
    let host = host::capture();
    let started_utc = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let stop = Arc::default();
    // The tracer is opened before the program starts, so that it records all of it.
    let tracer = session::open_tracer()?;
    interrupt::stop_on_interrupt(&stop)?;
    let out = OutputDirectory::open(destination, &started_utc, RESULT_FILES)?;
    let from = WindowEdge::now()?;
    let mut target = match (program, args.pid) {
        (Some(program), _) => {
            let child = BackgroundProcess::start_with_output(&program)?;
            Target::Program(program, child)
        }
        (None, process) => Target::Process(process.unwrap_or_default()),
    };
    let until = match args.duration {
        Some(duration) => format!("for {}", units::format_exact_duration(duration)),
        None => "until it ends, or Ctrl-C".to_owned(),
    };
    terminal::note(args.quiet, &format!("tracing {} {until}", target.name()));
    let end = WindowEnd { length: args.duration, stop: &stop };
    let recording = session::record(tracer, &mut target, args.thread.as_deref(), from, &end)?;
    if recording.waits.is_empty() {
        let message = explain_no_waits(&target, &recording, args.thread.as_deref());
        return Err(Error::measure(message));
    }
    let groups = Groups::from_waits(&recording.waits);
    let trace = trace_summary(&target, &recording, args.thread.clone());
    let exit = recording.exit.as_ref();
    let failure = exit
        .filter(|exit| exit.has_failed)
        .map(|exit| format!("{} {}", target.name(), exit.reason));
    if let (Some(exit), None, Target::Program(..)) = (exit, &failure, &target) {
        terminal::note(args.quiet, &format!("{} {}", target.name(), exit.reason));
    }
    drop(target);
    let mut report = build_report(&groups, &recording, Conditions { trace, host, started_utc });
    report.warnings.extend(failure.as_deref().map(failure_warning));
    save_and_print(args, &out, &groups.groups, &report)?;
    let Some(failure) = failure else { return Ok(ExitStatus::Done) };
    terminal::failure(&Error::measure(failure));
    Ok(ExitStatus::NotMeasured)
}

/// Returns the program to start, or `None` to trace a running process, after checking either.
fn parse_program(args: &TraceArgs) -> exit::Result<Option<Program>> {
    if let Some(process) = args.pid {
        session::check_process(process, args.thread.as_deref())?;
        return Ok(None);
    }
    let program = Program::from_words(args.program.clone())?;
    program.check_exists()?;
    Ok(Some(program))
}

fn save_and_print(
    args: &TraceArgs,
    out: &OutputDirectory,
    groups: &[Group<'_>],
    report: &Report,
) -> exit::Result<()> {
    let json = report.to_json();
    let page = render::report::html::page(std::slice::from_ref(report));
    let timers = output::timers_csv(groups);
    let saved =
        out.write_all(&[("timers.csv", &timers), ("report.html", &page), ("report.json", &json)]);
    let text = match args.format {
        Format::Table => format_table(args, groups, report),
        _ => json,
    };
    // Printed even if the files could not be saved.
    let printed = file_io::write_output(text, None);
    if saved.is_ok() {
        terminal::note(args.quiet, &format!("report: {}", out.path("report.json").display()));
        terminal::note_link(args.quiet, "page: ", &out.path("report.html"));
    }
    saved.and(printed)
}

fn format_table(args: &TraceArgs, groups: &[Group<'_>], report: &Report) -> String {
    let columns = terminal::columns();
    let with_notes = !args.quiet;
    let reports = std::slice::from_ref(report);
    let mut text = render::report::table::render_reports(reports, &args.table, columns, with_notes);
    let mut document = output::stages(groups);
    if with_notes {
        document.paragraph(report.trace.as_ref().map_or_else(String::new, output::format_overhead));
    }
    text.push('\n');
    text + &render::document::terminal::render(&document, columns)
}

/// Returns the error message of a window in which no timer woke a thread.
fn explain_no_waits(target: &Target, recording: &TraceRecording, thread: Option<&str>) -> String {
    let (name, window) = (target.name(), format_time(recording.to_ns - recording.from_ns));
    if let Some(TargetExit { reason, .. }) = &recording.exit {
        return format!(
            "{name} {reason}, after {window} and before a timer woke it; trace a program that waits on timers"
        );
    }
    let threads = describe_threads(recording, thread);
    let lost = describe_losses(recording);
    format!(
        "{name} does not wait on timers: none woke it in {window}{lost}; {threads}. Try a longer --duration"
    )
}

/// Describes in which calls the threads wait, or only those with a name.
fn describe_threads(recording: &TraceRecording, thread: Option<&str>) -> String {
    let mut names_by_call: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, call) in &recording.threads {
        if thread.is_none_or(|thread| name.to_string() == thread) {
            let activity = match call {
                Some(call) => format!("waits in {call}"),
                None => "runs".to_owned(),
            };
            names_by_call.entry(activity).or_default().push(name.to_string());
        }
    }
    if names_by_call.is_empty() {
        return "no such thread was seen".to_owned();
    }
    let mut described = Vec::with_capacity(names_by_call.len());
    for (activity, names) in names_by_call {
        described.push(match names.len() {
            1 => format!("thread {} {activity}", names[0]),
            n => format!("{n} threads, such as {}: each {activity}", names[0]),
        });
    }
    described.join("; ")
}

fn describe_losses(recording: &TraceRecording) -> String {
    match (recording.counts.lost, recording.unrecorded) {
        (0, 0) => String::new(),
        (lost, 0) => format!(" ({} lost)", pluralize(lost, "record")),
        (0, unrecorded) => {
            format!(" ({} counted and not recorded)", pluralize(unrecorded, "event"))
        }
        (lost, unrecorded) => format!(
            " ({} lost, {} counted and not recorded)",
            pluralize(lost, "record"),
            pluralize(unrecorded, "event")
        ),
    }
}

fn trace_summary(target: &Target, recording: &TraceRecording, thread: Option<String>) -> Trace {
    let counts = &recording.counts;
    Trace {
        command: match target {
            Target::Program(program, _) => Some(program.words().to_vec()),
            Target::Process(_) => None,
        },
        process: target.process(),
        thread,
        window_ns: (recording.to_ns - recording.from_ns).unsigned_abs(),
        cpu_ns: recording.cpu_ns,
        apart: recording.apart,
        records: counts.events,
        bytes: recording.bytes,
        lost: counts.lost,
        unrecorded: recording.unrecorded,
        undated: counts.without_start,
        unseen: counts.without_expiry,
        dropped: counts.incomplete + counts.out_of_order,
    }
}

/// Conditions under which a trace was recorded.
struct Conditions {
    trace: Trace,
    host: Host,
    started_utc: String,
}

fn build_report(groups: &Groups<'_>, recording: &TraceRecording, conditions: Conditions) -> Report {
    let window_ns = recording.to_ns - recording.from_ns;
    let length_ns = round_ns(window_ns);
    let to_subject = |group| subject(group, recording.from_ns, length_ns);
    let subjects: Vec<Subject> = groups.groups.iter().map(to_subject).collect();
    let plan = Plan {
        samples: true,
        scenarios: subjects.iter().map(scenario_from_subject).collect(),
        ..Plan::default()
    };
    Report {
        schema: SCHEMA.to_owned(),
        tool: host::tool(),
        started_utc: conditions.started_utc,
        duration_ns: window_ns.unsigned_abs(),
        partial: false,
        settled: None,
        plan,
        host: conditions.host,
        clock: Clock::in_ns("CLOCK_MONOTONIC, by the kernel's tracepoints", 0),
        changes: Vec::new(),
        fitness: None,
        warnings: collect_warnings(groups, recording, &conditions.trace),
        loads: Vec::new(),
        subjects,
        cpu_comparisons: Vec::new(),
        trace: Some(conditions.trace),
    }
}

fn scenario_from_subject(subject: &Subject) -> Scenario {
    let round_ticks = subject.rounds.iter().map(|round| round.lateness_ns.len() as u64);
    Scenario::from_subject(subject, round_ticks.max().unwrap_or(0))
}

fn failure_warning(failure: &str) -> Warning {
    let message = format!("The program failed: {failure}.");
    Warning::new("trace-failed", message, "The timers until then are counted.")
}

fn collect_warnings(
    groups: &Groups<'_>,
    recording: &TraceRecording,
    trace: &Trace,
) -> Vec<Warning> {
    let mut warnings = Vec::new();
    if trace.lost > 0 {
        let lost = pluralize(trace.lost, "record");
        let message = format!("The kernel lost {lost}: timers around them are not counted.");
        warnings.push(Warning::new(
            "trace-lost",
            message,
            "Trace a shorter window, or a machine that switches less.",
        ));
    }
    if groups.left_out > 0 {
        let timers = pluralize(groups.left_out, "timer");
        let message = format!("{timers} of the threads with the fewest timers left out.");
        warnings.push(Warning::new(
            "trace-threads",
            message,
            "Select threads by name with --thread.",
        ));
    }
    if recording.is_full {
        let message = format!(
            "The window ended early: the maximum is {} timers.",
            tracker::MAX_TRACKED_WAITS
        );
        let hint = match trace.thread {
            None => "Trace a shorter window, or with --thread.",
            Some(_) => "Trace a shorter window.",
        };
        warnings.push(Warning::new("trace-full", message, hint));
    }
    warnings
}
