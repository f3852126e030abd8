//! The formats of a flight record.

use std::collections::BTreeMap;

use cli::exit::Result;
use cli::printable::to_printable_message;
use cli::terminal;
use cli::time::{format_time, format_unsigned_time};
use cli::units::to_signed;
use cli::words::{pluralize, prefix_or_empty};
use engine::machine::os;
use files::file::File as _;
use files::report::why::{Behind, Class, FoldedStack, LateCode, Shares};
use render::document::{Document, Table};
use render::formats::{Format, Offer, Rendering};
use render::report::late_code;
use render::report::perfetto::{add_tick, cause_args, describe_behind};
use render::report::why::class_name;
use render::trace_events::{Lanes, Process, TraceEvents, Track};

use crate::flight_record::{
    CpuAssignment, Flight, FlightRound, FlightSample, FlightSwitch, FlightTick,
};

/// The maximum number of late ticks in the table.
const MAX_ROWS: usize = 20;
/// The maximum number of threads per row.
const MAX_BEHIND: usize = 3;
/// CPU time that a sample represents.
const SAMPLE_NS: i64 = os::SAMPLE_INTERVAL_NS as i64;

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
        "{}, round {}, tick {}: {} late at {}{}",
        late.subject,
        late.round,
        late.tick,
        format_time(late.lateness_ns),
        flight.at_utc,
        prefix_or_empty(", ", late_tick_code(flight).map(late_code::describe))
    ));
    let mut rows: Vec<(&FlightRound, &FlightTick)> = Vec::new();
    for round in &flight.rounds {
        // The rest of the record is later: ticks that were due after the late tick had come.
        let is_listed = |tick: &&FlightTick| {
            tick.lateness_ns > to_signed(flight.limit_ns) && tick.deadline_ns <= 0
        };
        rows.extend(round.ticks.iter().filter(is_listed).map(|tick| (round, tick)));
    }
    document.paragraph(format!(
        "Later than the limit of {} in the {} before it: {}.",
        format_unsigned_time(flight.limit_ns),
        format_unsigned_time(flight.length_ns),
        pluralize(rows.len(), "tick")
    ));
    // After a stall, more ticks than there are rows can follow the late tick, which must be listed.
    rows.sort_by_key(|(_, tick)| (tick.arrival_ns().unsigned_abs(), tick.deadline_ns));
    rows.truncate(MAX_ROWS);
    rows.sort_by_key(|(_, tick)| std::cmp::Reverse(tick.arrival_ns()));
    let mut table = Table::new(["arrived before", "subject", "round", "tick", "late", "causes"], 2);
    for (round, tick) in rows {
        table.row([
            format_time(tick.arrival_ns().saturating_neg()),
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
    document.picture(late_code::flame(&folded_stacks(flight)));
    document.notes(flight.hint.iter().map(|hint| format!("{}.", to_printable_message(hint))));
    document
}

/// Returns the code that ran while the late tick was late, if it is known.
fn late_tick_code(flight: &Flight) -> Option<&LateCode> {
    let late = &flight.late;
    let rounds = flight.rounds.iter().filter(|round| {
        (&round.subject, round.round, round.instance) == (&late.subject, late.round, late.instance)
    });
    let mut ticks = rounds.flat_map(|round| &round.ticks);
    ticks.find(|tick| tick.tick == late.tick)?.code.as_ref()
}

/// Returns the stacks of all samples.
fn folded_stacks(flight: &Flight) -> Vec<FoldedStack> {
    let samples = flight.rounds.iter().flat_map(|round| round.samples.iter().flatten());
    let mut counts: BTreeMap<&[String], u64> = BTreeMap::new();
    for sample in samples {
        *counts.entry(&sample.frames).or_default() += 1;
    }
    let fold =
        |(frames, samples): (&[String], u64)| FoldedStack { frames: frames.to_vec(), samples };
    counts.into_iter().map(fold).collect()
}

/// Returns the causes of a tick's lateness, and the threads that ran while it waited.
fn describe_causes(tick: &FlightTick) -> String {
    let Some(shares) = &tick.causes_ns else { return "-".to_owned() };
    let causes = list_causes(shares);
    let mut behind: Vec<&Behind> = tick.behind.iter().flatten().collect();
    behind.sort_by_key(|thread| std::cmp::Reverse(thread.ns));
    let name = |thread: &&Behind| format!("{} {}", thread.comm, format_unsigned_time(thread.ns));
    let names: Vec<String> = behind.iter().take(MAX_BEHIND).map(name).collect();
    let causes =
        if names.is_empty() { causes } else { format!("{causes}; behind {}", names.join(", ")) };
    match &tick.code {
        Some(code) => format!("{}; {causes}", late_code::describe(code)),
        None => causes,
    }
}

fn list_causes(shares: &Shares) -> String {
    let mut causes: Vec<Class> = Class::ALL.to_vec();
    causes.retain(|class| shares.ns(*class) > 0);
    causes.sort_by_key(|class| std::cmp::Reverse(shares.ns(*class)));
    let causes = causes
        .into_iter()
        .map(|class| format!("{} {}", class_name(class), format_unsigned_time(shares.ns(class))));
    causes.collect::<Vec<_>>().join(", ")
}

/// Renders the ticks, the threads that ran them, and the CPUs, from the oldest time on.
fn perfetto(flight: &Flight) -> Result<String> {
    let origin_ns = flight.rounds.iter().flat_map(FlightRound::times).fold(0, i64::min);
    let mut rounds = flight.rounds.clone();
    rounds.iter_mut().for_each(|round| round.shift(origin_ns.saturating_neg()));
    let mut by_subject: BTreeMap<&str, Vec<&FlightRound>> = BTreeMap::new();
    for round in &rounds {
        by_subject.entry(&round.subject).or_default().push(round);
    }
    let mut events = TraceEvents::new();
    for (subject, rounds) in by_subject {
        let process = events.process(subject);
        add_ticks(&mut events, process, &rounds);
        add_threads(&mut events, process, &rounds);
        add_samples(&mut events, process, &rounds);
        if subject == flight.late.subject {
            let track = events.track(process, "late tick");
            let args = [
                ("lateness_ns", flight.late.lateness_ns.into()),
                ("at", flight.at_utc.as_str().into()),
            ];
            events.instant(track, "late tick", origin_ns.saturating_neg(), &args);
        }
    }
    add_cpus(&mut events, &rounds);
    Ok(events.finish())
}

fn add_ticks(events: &mut TraceEvents, process: Process, rounds: &[&FlightRound]) {
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
            args.extend(tick.code.iter().map(|code| ("code", late_code::describe(code).into())));
            args.extend(tick.behind.iter().map(|behind| ("behind", describe_behind(behind))));
            let times = (tick.arrival_ns(), tick.lateness_ns);
            add_tick(events, lanes, times, round.period_ns, &args);
        }
    }
}

/// Adds the states of the threads that ran the ticks of profiled rounds.
fn add_threads(events: &mut TraceEvents, process: Process, rounds: &[&FlightRound]) {
    let mut tracks: BTreeMap<u64, Track> = BTreeMap::new();
    for round in rounds {
        let switches = round.switches.as_deref().unwrap_or_default();
        let position = |switch: &FlightSwitch| (switch.thread, switch.at_ns);
        for (switch, until_ns) in with_ends(switches, round_end_ns(round), position) {
            let new_track = || events.track(process, &format!("thread {}", switch.thread));
            let track = *tracks.entry(switch.thread).or_insert_with(new_track);
            let name = match switch.kind.as_str() {
                "on" => "running",
                "preempted" => "ready",
                _ => "waiting",
            };
            events.slice(track, name, switch.at_ns, until_ns, &[("cpu", switch.cpu.into())]);
        }
    }
}

/// Adds the functions that threads ran while ticks were late, each below its caller.
fn add_samples(events: &mut TraceEvents, process: Process, rounds: &[&FlightRound]) {
    let mut by_thread: BTreeMap<u32, Vec<&FlightSample>> = BTreeMap::new();
    for sample in rounds.iter().flat_map(|round| round.samples.iter().flatten()) {
        by_thread.entry(sample.thread).or_default().push(sample);
    }
    for (thread, mut samples) in by_thread {
        let track = events.track(process, &format!("functions of thread {thread}"));
        samples.sort_by_key(|sample| sample.at_ns);
        let mut open: Vec<(&str, i64)> = Vec::new();
        let mut last_ns = i64::MIN;
        for sample in samples {
            let since_ns = sample.at_ns.saturating_sub(SAMPLE_NS).max(last_ns);
            let is_continued = sample.at_ns.saturating_sub(last_ns) < 2 * SAMPLE_NS;
            let same =
                open.iter().zip(&sample.frames).take_while(|((name, _), frame)| name == frame);
            let kept = if is_continued { same.count() } else { 0 };
            close_functions(events, track, &mut open, kept, last_ns);
            let called = sample.frames[kept..].iter();
            let start_ns = if is_continued { last_ns } else { since_ns };
            open.extend(called.map(|name| (name.as_str(), start_ns)));
            last_ns = sample.at_ns;
        }
        close_functions(events, track, &mut open, 0, last_ns);
    }
}

/// Adds the slices of the functions that have returned, all but the `kept` outermost ones.
fn close_functions(
    events: &mut TraceEvents,
    track: Track,
    open: &mut Vec<(&str, i64)>,
    kept: usize,
    end_ns: i64,
) {
    for (name, start_ns) in open.drain(kept.min(open.len())..) {
        events.slice(track, name, start_ns, end_ns, &[]);
    }
}

/// Adds the threads that each CPU ran during profiled rounds.
fn add_cpus(events: &mut TraceEvents, rounds: &[FlightRound]) {
    let assignments = rounds.iter().flat_map(|round| round.assignments.iter().flatten());
    let mut cpus: Vec<u32> = assignments.map(|assignment| assignment.cpu).collect();
    cpus.sort_unstable();
    cpus.dedup();
    if cpus.is_empty() {
        return;
    }
    let process = events.process("CPUs");
    let new_track = |cpu| (u64::from(cpu), events.track(process, &format!("CPU {cpu}")));
    let tracks: BTreeMap<u64, Track> = cpus.into_iter().map(new_track).collect();
    for round in rounds {
        let assignments = round.assignments.as_deref().unwrap_or_default();
        let position = |turn: &CpuAssignment| (turn.cpu.into(), turn.at_ns);
        for (turn, until_ns) in with_ends(assignments, round_end_ns(round), position) {
            // Thread 0 is the idle CPU.
            if turn.thread != 0 {
                let args = [("thread", turn.thread.into())];
                let track = tracks[&turn.cpu.into()];
                events.slice(track, &occupant_name(turn), turn.at_ns, until_ns, &args);
            }
        }
    }
}

fn occupant_name(turn: &CpuAssignment) -> String {
    match (&turn.comm, turn.thread) {
        (Some(name), _) => name.clone(),
        // The kernel reports a thread that is about to end as -1.
        (None, u32::MAX) => "thread that ended".to_owned(),
        (None, thread) => format!("thread {thread}"),
    }
}

/// Returns the entries that end later than they start: at the next one with the same key, or at the
/// end of the round. `position` returns the key and the time of an entry.
fn with_ends<T>(entries: &[T], end_ns: i64, position: impl Fn(&T) -> (u64, i64)) -> Vec<(&T, i64)> {
    let mut next: BTreeMap<u64, i64> = BTreeMap::new();
    let mut ended = Vec::new();
    for entry in entries.iter().rev() {
        let (key, at_ns) = position(entry);
        let until_ns = next.insert(key, at_ns).unwrap_or(end_ns);
        if until_ns > at_ns {
            ended.push((entry, until_ns));
        }
    }
    ended.reverse();
    ended
}

/// Returns the time of the last record of a round. A monitor records only late ticks, so switches
/// can be later than all of them.
fn round_end_ns(round: &FlightRound) -> i64 {
    round.times().max().unwrap_or(i64::MIN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use files::why::MeasurableParts;

    const LIMIT_NS: i64 = 1_000_000;

    /// Returns the table of a record with these ticks, given as deadline and lateness. The late
    /// tick has the index 0.
    fn table_of(ticks: &[(i64, i64)]) -> String {
        let text = include_str!("../../tests/fixtures/flight.json");
        let mut flight: Flight = serde_json::from_str(text).unwrap();
        flight.limit_ns = LIMIT_NS.unsigned_abs();
        flight.rounds.truncate(1);
        let new_tick = |(n, &(deadline_ns, lateness_ns)): (usize, &(i64, i64))| {
            FlightTick::new(n as u64, deadline_ns, lateness_ns, None, MeasurableParts::default())
        };
        flight.rounds[0].ticks = ticks.iter().enumerate().map(new_tick).collect();
        render::document::terminal::render(&document(&flight), 100)
    }

    #[test]
    fn later_deadlines_are_not_before() {
        let late = 2 * LIMIT_NS;
        let table = table_of(&[(-late, late), (-late - 1, late + 9), (1, late), (-9, LIMIT_NS)]);
        assert!(table.contains(" before it: 2 ticks."), "{table}");
    }

    #[test]
    fn long_stall_lists_late_tick() {
        let stall = 100 * LIMIT_NS;
        let ticks: Vec<(i64, i64)> =
            (0..98).map(|n| (n * LIMIT_NS - stall, stall - n * LIMIT_NS + n)).collect();
        let table = table_of(&ticks);
        assert!(table.contains(" before it: 98 ticks."), "{table}");
        assert!(table.lines().any(|line| line.starts_with("0 ns ")), "{table}");
    }
}
