//! A report as a trace: each tick from its deadline to its arrival, on a common axis of time.

use cli::exit::{Result, usage};
use cli::units::to_signed;
use files::report::why::{Behind, LateTick, Shares, Why};
use files::report::{Report, Round, Subject};
use serde_json::Value;

use crate::report::late_code;
use crate::report::why::{class_name, links};
use crate::trace_events::{Lanes, Process, TraceEvents};
use files::entry::{Entry, entries};

/// The maximum number of ticks. The viewer needs about a kilobyte of memory for each.
const MAX_TICKS: usize = 2_000_000;

/// Renders the ticks of a report, or those of one subject.
///
/// # Errors
/// Returns an error if there are no ticks, or more than the viewer can show.
pub fn text(report: &Report, subject: Option<&str>) -> Result<String> {
    let reports = std::slice::from_ref(report);
    let is_selected = |entry: &Entry<'_>| {
        subject.is_none_or(|id| id == entry.subject.id || id == entry.subject.name)
    };
    let selected: Vec<Entry<'_>> = entries(reports).filter(is_selected).collect();
    check_ticks(&selected, reports)?;
    let mut events = TraceEvents::new();
    for entry in selected {
        let process = events.process(&entry.subject.id);
        add_rounds(&mut events, process, entry.subject);
        add_ticks(&mut events, process, entry.subject);
        if let Some(why) = &entry.subject.why {
            add_explained_ticks(&mut events, process, entry.subject.period_ns, why);
        }
    }
    Ok(events.finish())
}

fn check_ticks(selected: &[Entry<'_>], reports: &[Report]) -> Result<()> {
    let rounds = selected.iter().flat_map(|entry| &entry.subject.rounds);
    let ticks: usize = rounds.map(|round| round.lateness_ns.len()).sum();
    let names =
        || entries(reports).map(|entry| entry.subject.id.clone()).collect::<Vec<_>>().join(", ");
    if selected.is_empty() {
        return Err(usage!("no such subject: choose with --subject one of {}", names()));
    }
    if let Some(entry) = selected.iter().find(|entry| entry.period_ns().is_none()) {
        return Err(usage!(
            "the period of {} is not known, so its ticks have no place in time",
            entry.subject.id
        ));
    }
    let explained =
        |entry: &Entry<'_>| entry.subject.why.as_ref().is_some_and(|why| !why.longest.is_empty());
    if ticks == 0 && !selected.iter().any(explained) {
        return Err(usage!("the report has no samples, so it cannot be shown as a trace"));
    }
    if ticks > MAX_TICKS {
        return Err(usage!(
            "the report has {ticks} ticks, more than a viewer of traces can show ({MAX_TICKS}): choose with --subject one of {}",
            names()
        ));
    }
    Ok(())
}

/// Adds the rounds, with the counters of the machine.
fn add_rounds(events: &mut TraceEvents, process: Process, subject: &Subject) {
    let mut lanes = Lanes::new(process, "rounds");
    // The instances of a round have consecutive entries, and share its counters.
    for instances in subject.rounds.chunk_by(|a, b| a.index == b.index) {
        let arrivals = instances.iter().flat_map(|round| {
            (0..round.lateness_ns.len()).map(|i| arrival_ns(round, i, subject.period_ns))
        });
        let Some(end_ns) = arrivals.max() else { continue };
        let start_ns = instances.iter().map(|round| round.start_ns).min().unwrap_or(0);
        let sum = |counter: fn(&Round) -> Option<u64>| {
            let add = |sum: u64, ns: Option<u64>| Some(sum.saturating_add(ns?));
            instances.iter().map(counter).try_fold(0, add)
        };
        let mut args = vec![("index", instances[0].index.into())];
        let counters = [
            ("CPU time, ns", sum(|round| round.cpu_ns)),
            ("waited for a CPU, ns", sum(|round| round.run_queue_ns)),
            ("stolen by the hypervisor, ns", sum(|round| round.steal_ns)),
            ("throttled by a quota, ns", sum(|round| round.throttled_ns)),
            ("suspended, ns", sum(|round| round.suspended_ns)),
        ];
        args.extend(counters.into_iter().filter_map(|(name, ns)| Some((name, Value::from(ns?)))));
        lanes.slice(events, "round", to_signed(start_ns), end_ns, &args);
    }
}

/// Adds a slice per tick, and the lateness as a curve.
fn add_ticks(events: &mut TraceEvents, process: Process, subject: &Subject) {
    for instance in 0..subject.instances {
        let suffix =
            if subject.instances == 1 { String::new() } else { format!(", instance {instance}") };
        let mut lanes = Lanes::new(process, &format!("ticks{suffix}"));
        let curve = format!("lateness, ns{suffix}");
        let mut rounds: Vec<&Round> =
            subject.rounds.iter().filter(|round| round.instance == instance).collect();
        rounds.sort_by_key(|round| round.start_ns);
        let mut rounds = rounds.into_iter().peekable();
        let mut end_ns = 0;
        while let Some(round) = rounds.next() {
            for (i, &lateness_ns) in round.lateness_ns.iter().enumerate() {
                let arrival_ns = arrival_ns(round, i, subject.period_ns);
                let args = [
                    ("round", round.index.into()),
                    ("tick", round.tick_index(i).into()),
                    ("lateness_ns", lateness_ns.into()),
                ];
                add_tick(events, &mut lanes, (arrival_ns, lateness_ns), subject.period_ns, &args);
                events.counter(process, &curve, arrival_ns, lateness_ns);
                end_ns = end_ns.max(arrival_ns.saturating_add(to_signed(subject.period_ns)));
            }
            // A curve keeps its last value. Nothing was measured until the next round.
            if rounds.peek().is_none_or(|next| to_signed(next.start_ns) > end_ns) && end_ns > 0 {
                events.counter(process, &curve, end_ns, 0);
            }
        }
    }
}

/// Adds a tick as a slice from its deadline to its arrival.
pub fn add_tick(
    events: &mut TraceEvents,
    lanes: &mut Lanes,
    (arrival_ns, lateness_ns): (i64, i64),
    period_ns: u64,
    args: &[(&str, Value)],
) {
    if lateness_ns < 0 {
        return lanes.instant(events, "early tick", arrival_ns, args);
    }
    let is_missed = period_ns > 0 && lateness_ns.unsigned_abs() >= period_ns;
    let name = if is_missed { "missed tick" } else { "tick" };
    let deadline_ns = arrival_ns.saturating_sub(lateness_ns);
    lanes.slice(events, name, deadline_ns, arrival_ns, args);
}

fn arrival_ns(round: &Round, i: usize, period_ns: u64) -> i64 {
    to_signed(round.deadline_ns(i, period_ns)).saturating_add(round.lateness_ns[i])
}

/// Adds the late ticks that the diagnosis describes one by one. They are from profiled rounds, whose
/// other ticks a report does not keep.
fn add_explained_ticks(events: &mut TraceEvents, process: Process, period_ns: u64, why: &Why) {
    let mut late: Vec<(i64, &LateTick)> = Vec::new();
    for tick in &why.longest {
        if let Some(round) = why.rounds.iter().find(|round| round.index == tick.round) {
            let deadline_ns = tick.tick.saturating_mul(period_ns).saturating_add(round.start_ns);
            late.push((to_signed(deadline_ns), tick));
        }
    }
    late.sort_by_key(|(deadline_ns, _)| *deadline_ns);
    let mut lanes = Lanes::new(process, "explained late ticks");
    for (deadline_ns, tick) in late {
        let end_ns = deadline_ns.saturating_add(to_signed(tick.lateness_ns));
        let mut args = vec![("round", tick.round.into()), ("tick", tick.tick.into())];
        args.extend(cause_args(&tick.shares_ns));
        args.extend(tick.behind.iter().map(|behind| ("behind", describe_behind(behind))));
        args.extend(tick.code.iter().map(|code| ("code", late_code::describe(code).into())));
        let track = lanes.slice(events, "late tick", deadline_ns, end_ns, &args);
        let (Some(track), Some(chain)) = (track, &tick.chain) else { continue };
        let mut from_ns = deadline_ns;
        for (name, ns) in links(chain) {
            let to_ns = from_ns.saturating_add(ns);
            // A timer that was set to an earlier time expires before the deadline.
            let start_ns = from_ns.max(deadline_ns);
            if start_ns < to_ns && to_ns <= end_ns {
                events.slice(track, link_name(name), start_ns, to_ns, &[]);
            }
            from_ns = to_ns;
        }
    }
}

fn link_name(key: &str) -> &'static str {
    match key {
        "timer" => "until the timer expired",
        "woken" => "until the thread was woken",
        "on_cpu" => "until it had a CPU",
        "runtime" => "in the runtime",
        _ => "in the task",
    }
}

/// Returns the causes of a late tick as arguments of its slice.
pub fn cause_args(shares: &Shares) -> impl Iterator<Item = (&'static str, Value)> {
    let causes = files::report::why::Class::ALL.into_iter();
    let causes = causes.map(|class| (class_name(class), shares.ns(class)));
    causes.filter(|(_, ns)| *ns > 0).map(|(name, ns)| (name, ns.into()))
}

/// Names the threads that had the CPU while a tick waited.
pub fn describe_behind(behind: &[Behind]) -> Value {
    let threads = behind.iter().map(|thread| format!("{} {} ns", thread.comm, thread.ns));
    Value::from(threads.collect::<Vec<_>>().join(", "))
}
