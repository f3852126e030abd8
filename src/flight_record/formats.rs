//! The formats of a flight record.

use std::collections::BTreeMap;

use cli::exit::Result;
use cli::time::format_time;
use cli::words::pluralize;
use files::file::File as _;
use files::report::why::{Behind, Class, Shares};
use render::document::{Document, Table};
use render::formats::{Format, Offer, Rendering};
use render::report::perfetto::{add_tick, cause_args, describe_behind};
use render::report::why::class_name;
use render::trace_events::{Lanes, Process, TraceEvents, Track};

use crate::flight_record::{CpuAssignment, Flight, FlightRound, FlightSwitch, FlightTick};
use crate::terminal;

/// The maximum number of late ticks in the table.
const MAX_ROWS: usize = 20;
/// The maximum number of threads per row.
const MAX_BEHIND: usize = 3;

pub const FORMATS: [Offer<Flight>; 5] = [
    (Format::Table, |flight| Ok(Rendering::terminal(&document(flight), terminal::columns()))),
    (Format::Json, |flight| Ok(Rendering::Text(flight.to_json()))),
    (Format::Markdown, |flight| Ok(Rendering::markdown(&document(flight)))),
    (Format::Html, |flight| Ok(Rendering::page("osjitter: a late tick", &document(flight)))),
    (Format::Perfetto, |flight| perfetto(flight).map(Rendering::Text)),
];

/// Lists the ticks that were over the limit, the last one first.
fn document(flight: &Flight) -> Document {
    let late = &flight.late;
    let mut document = Document::new();
    document.title(format!(
        "{}, round {}, tick {}: {} late at {}",
        late.subject,
        late.round,
        late.tick,
        format_time(late.lateness_ns),
        flight.at_utc
    ));
    let mut rows: Vec<(&FlightRound, &FlightTick)> = Vec::new();
    for round in &flight.rounds {
        let is_late = |tick: &&FlightTick| tick.lateness_ns > to_signed(flight.limit_ns);
        rows.extend(round.ticks.iter().filter(is_late).map(|tick| (round, tick)));
    }
    rows.sort_by_key(|(_, tick)| std::cmp::Reverse(arrival_ns(tick)));
    document.paragraph(format!(
        "Later than the limit of {} in the {} before it: {}.",
        format_time(to_signed(flight.limit_ns)),
        format_time(to_signed(flight.length_ns)),
        pluralize(rows.len(), "tick")
    ));
    let mut table = Table::new(["arrived before", "subject", "round", "tick", "late", "causes"], 2);
    for (round, tick) in rows.into_iter().take(MAX_ROWS) {
        table.row([
            format_time(arrival_ns(tick).saturating_neg()),
            round.subject.clone(),
            round.round.to_string(),
            tick.tick.to_string(),
            format_time(tick.lateness_ns),
            describe_causes(tick),
        ]);
    }
    if !table.is_empty() {
        document.table(table.with_words_last());
    }
    document
}

/// Returns the causes of a tick's lateness, and the threads that ran while it waited.
fn describe_causes(tick: &FlightTick) -> String {
    let Some(shares) = &tick.causes_ns else { return "-".to_owned() };
    let causes = list_causes(shares);
    let mut behind: Vec<&Behind> = tick.behind.iter().flatten().collect();
    behind.sort_by_key(|thread| std::cmp::Reverse(thread.ns));
    let name = |thread: &&Behind| format!("{} {}", thread.comm, format_time(to_signed(thread.ns)));
    let names: Vec<String> = behind.iter().take(MAX_BEHIND).map(name).collect();
    if names.is_empty() { causes } else { format!("{causes}; behind {}", names.join(", ")) }
}

fn list_causes(shares: &Shares) -> String {
    let mut causes: Vec<Class> = Class::ALL.to_vec();
    causes.retain(|class| shares.ns(*class) > 0);
    causes.sort_by_key(|class| std::cmp::Reverse(shares.ns(*class)));
    let causes = causes
        .into_iter()
        .map(|class| format!("{} {}", class_name(class), format_time(to_signed(shares.ns(class)))));
    causes.collect::<Vec<_>>().join(", ")
}

/// Renders the ticks, the threads that ran them, and the CPUs, from the oldest time on.
fn perfetto(flight: &Flight) -> Result<String> {
    let origin_ns = oldest_ns(flight);
    let mut events = TraceEvents::new();
    let mut processes: BTreeMap<&str, Process> = BTreeMap::new();
    for round in &flight.rounds {
        processes.entry(&round.subject).or_insert_with(|| events.process(&round.subject));
    }
    for (subject, process) in &processes {
        let rounds = || flight.rounds.iter().filter(|round| round.subject == **subject);
        add_ticks(&mut events, *process, rounds(), origin_ns);
        add_threads(&mut events, *process, rounds(), origin_ns);
    }
    if let Some(process) = processes.get(flight.late.subject.as_str()) {
        let track = events.track(*process, "late tick");
        let args = [
            ("lateness_ns", flight.late.lateness_ns.into()),
            ("at", flight.at_utc.as_str().into()),
        ];
        events.instant(track, "late tick", 0_i64.saturating_sub(origin_ns), &args);
    }
    add_cpus(&mut events, flight, origin_ns);
    Ok(events.finish())
}

/// Returns the earliest time of the record, relative to the late tick.
fn oldest_ns(flight: &Flight) -> i64 {
    let mut oldest_ns = 0;
    for round in &flight.rounds {
        let deadlines = round.ticks.iter().map(|tick| tick.deadline_ns.min(arrival_ns(tick)));
        let switches = round.switches.iter().flatten().map(|switch| switch.at_ns);
        let assignments = round.assignments.iter().flatten().map(|assignment| assignment.at_ns);
        oldest_ns = deadlines.chain(switches).chain(assignments).fold(oldest_ns, i64::min);
    }
    oldest_ns
}

fn add_ticks<'a>(
    events: &mut TraceEvents,
    process: Process,
    rounds: impl Iterator<Item = &'a FlightRound>,
    origin_ns: i64,
) {
    let mut lanes: BTreeMap<u64, Lanes> = BTreeMap::new();
    for round in rounds {
        let name = match round.instance {
            0 => "ticks".to_owned(),
            instance => format!("ticks, instance {instance}"),
        };
        let lanes = lanes.entry(round.instance).or_insert_with(|| Lanes::new(process, &name));
        for tick in &round.ticks {
            let mut args = vec![
                ("round", round.round.into()),
                ("tick", tick.tick.into()),
                ("lateness_ns", tick.lateness_ns.into()),
            ];
            args.extend(tick.causes_ns.iter().flat_map(cause_args));
            args.extend(tick.behind.iter().map(|behind| ("behind", describe_behind(behind))));
            let at_ns = arrival_ns(tick).saturating_sub(origin_ns);
            add_tick(events, lanes, (at_ns, tick.lateness_ns), round.period_ns, &args);
        }
    }
}

/// Adds the states of the threads that ran the ticks of profiled rounds.
fn add_threads<'a>(
    events: &mut TraceEvents,
    process: Process,
    rounds: impl Iterator<Item = &'a FlightRound>,
    origin_ns: i64,
) {
    let mut tracks: BTreeMap<u64, Track> = BTreeMap::new();
    for round in rounds {
        for (switch, until_ns) in states(round) {
            let track = *tracks
                .entry(switch.thread)
                .or_insert_with(|| events.track(process, &format!("thread {}", switch.thread)));
            let name = match switch.kind.as_str() {
                "on" => "running",
                "preempted" => "ready",
                _ => "waiting",
            };
            let [from_ns, to_ns] = [switch.at_ns, until_ns].map(|ns| ns.saturating_sub(origin_ns));
            events.slice(track, name, from_ns, to_ns, &[("cpu", switch.cpu.into())]);
        }
    }
}

/// Returns each switch with the time of the thread's next one, or the end of the round.
fn states(round: &FlightRound) -> Vec<(&FlightSwitch, i64)> {
    let end_ns = round_end_ns(round);
    let mut next: BTreeMap<u64, i64> = BTreeMap::new();
    let mut states = Vec::new();
    for switch in round.switches.iter().flatten().rev() {
        let until_ns = next.insert(switch.thread, switch.at_ns).unwrap_or(end_ns);
        if until_ns > switch.at_ns {
            states.push((switch, until_ns));
        }
    }
    states.reverse();
    states
}

/// Adds the threads that each CPU ran during profiled rounds.
fn add_cpus(events: &mut TraceEvents, flight: &Flight, origin_ns: i64) {
    let mut by_cpu: BTreeMap<u32, Vec<(&CpuAssignment, i64)>> = BTreeMap::new();
    for round in &flight.rounds {
        let end_ns = round_end_ns(round);
        for assignment in round.assignments.iter().flatten() {
            by_cpu.entry(assignment.cpu).or_default().push((assignment, end_ns));
        }
    }
    if by_cpu.is_empty() {
        return;
    }
    let process = events.process("CPUs");
    for (cpu, assignments) in &mut by_cpu {
        assignments.sort_by_key(|(assignment, _)| assignment.at_ns);
        let track = events.track(process, &format!("CPU {cpu}"));
        for (i, (assignment, end_ns)) in assignments.iter().enumerate() {
            let next_ns = assignments.get(i + 1).map_or(i64::MAX, |(next, _)| next.at_ns);
            let to_ns = next_ns.min(*end_ns);
            // Thread 0 is the idle CPU.
            if assignment.thread == 0 || to_ns <= assignment.at_ns {
                continue;
            }
            // The kernel reports a thread that is about to end as -1.
            let unnamed = || match assignment.thread {
                u32::MAX => "thread that ended".to_owned(),
                thread => format!("thread {thread}"),
            };
            let name = assignment.comm.clone().unwrap_or_else(unnamed);
            let [from_ns, to_ns] = [assignment.at_ns, to_ns].map(|ns| ns.saturating_sub(origin_ns));
            events.slice(track, &name, from_ns, to_ns, &[("thread", assignment.thread.into())]);
        }
    }
}

/// Returns the time of the last record of a round. A monitor records only late ticks, so switches
/// can be later than all of them.
fn round_end_ns(round: &FlightRound) -> i64 {
    let switches = round.switches.iter().flatten().map(|switch| switch.at_ns);
    let assignments = round.assignments.iter().flatten().map(|assignment| assignment.at_ns);
    let times = round.ticks.iter().map(arrival_ns).chain(switches).chain(assignments);
    times.max().unwrap_or(i64::MIN)
}

fn arrival_ns(tick: &FlightTick) -> i64 {
    tick.deadline_ns.saturating_add(tick.lateness_ns)
}

fn to_signed(ns: u64) -> i64 {
    i64::try_from(ns).unwrap_or(i64::MAX)
}
