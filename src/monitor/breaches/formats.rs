//! The formats of a file of breaches.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use cli::exit::{Result, usage};
use cli::terminal;
use cli::time::format_unsigned_time;
use cli::units::{to_signed, to_signed_ns};
use cli::words::or_dash;
use files::file::File as _;
use render::document::{Document, Table};
use render::formats::{Format, Offer, Rendering};
use render::report::perfetto::add_tick;
use render::trace_events::{Lanes, Process, TraceEvents};
use serde_json::Value;

use crate::monitor::breaches::{Breach, Breaches};

pub const FORMATS: [Offer<Breaches>; 5] = [
    (Format::Table, |file| Ok(Rendering::terminal(&document(file), terminal::columns()))),
    (Format::Json, |file| Ok(Rendering::Text(file.to_json()))),
    (Format::Markdown, |file| Ok(Rendering::markdown(&document(file)))),
    (Format::Html, |file| Ok(Rendering::page("osjitter: broken limits", &document(file)))),
    (Format::Perfetto, |file| perfetto(file).map(Rendering::Text)),
];

fn document(file: &Breaches) -> Document {
    let mut document = Document::new();
    document.title(format!("Limits that {} broke in the interval from {}", file.host, file.start));
    let headings = ["loop", "limit", "measured", "ticks", "worst", "known causes"];
    let mut table = Table::new(headings, 2).with_words_last();
    for breach in &file.breaches {
        let worst = breach.late.iter().map(|tick| tick.lateness_ns).max();
        table.row([
            loop_name(breach),
            breach.what.clone(),
            breach.shown.clone(),
            breach.ticks.to_string(),
            or_dash(worst.map(format_unsigned_time)),
            or_dash(breach.causes()),
        ]);
    }
    document.table(table);
    document
}

/// Returns the name of a loop with what tells it apart from others of the same subject.
fn loop_name(breach: &Breach) -> String {
    let period = cli::units::format_exact_duration(Duration::from_nanos(breach.period_ns));
    let mut name = format!("{}@{period}", breach.subject);
    for part in [&breach.runtime, &breach.labels] {
        if !part.is_empty() {
            name.push('/');
            name.push_str(part);
        }
    }
    name
}

/// Renders the interval, and the late ticks that were kept of each loop.
fn perfetto(file: &Breaches) -> Result<String> {
    let start = parse_time(&file.start)?;
    let mut events = TraceEvents::new();
    let mut loops: BTreeMap<String, Vec<&Breach>> = BTreeMap::new();
    for breach in &file.breaches {
        loops.entry(loop_name(breach)).or_default().push(breach);
    }
    for (name, breaches) in loops {
        let process = events.process(&name);
        let track = events.track(process, "interval");
        for breach in &breaches {
            let name = format!("{} broken: {}", breach.what, breach.shown);
            events.slice(track, &name, 0, to_signed(file.duration_ns), &breach_args(breach));
        }
        // All breaches of a loop list the same late ticks.
        let Some(breach) = breaches.first() else { continue };
        add_late_ticks(&mut events, process, breach, start)?;
    }
    Ok(events.finish())
}

fn breach_args(breach: &Breach) -> Vec<(&'static str, Value)> {
    let counters = [
        ("ticks", Some(breach.ticks)),
        ("CPU time, ns", breach.cpu_ns),
        ("waited for a CPU, ns", breach.run_queue_ns),
        ("stolen by the hypervisor, ns", breach.steal_ns),
        ("throttled by a quota, ns", breach.throttled_ns),
    ];
    counters.into_iter().filter_map(|(name, value)| Some((name, Value::from(value?)))).collect()
}

fn add_late_ticks(
    events: &mut TraceEvents,
    process: Process,
    breach: &Breach,
    start: SystemTime,
) -> Result<()> {
    let mut ticks: Vec<(i64, usize)> = Vec::new();
    for (i, tick) in breach.late.iter().enumerate() {
        ticks.push((ns_since(parse_time(&tick.at_utc)?, start), i));
    }
    ticks.sort_by_key(|(at_ns, i)| at_ns.saturating_sub(to_signed(breach.late[*i].lateness_ns)));
    let mut lanes = Lanes::new(process, "late ticks");
    for (at_ns, i) in ticks {
        let tick = &breach.late[i];
        let mut args =
            vec![("lateness_ns", tick.lateness_ns.into()), ("at", tick.at_utc.as_str().into())];
        if let Some(work_ns) = tick.work_ns {
            args.push(("work before it, ns", work_ns.into()));
            args.push(("caused by work, ns", tick.overrun_ns.into()));
        }
        let lateness_ns = to_signed(tick.lateness_ns);
        add_tick(events, &mut lanes, (at_ns, lateness_ns), breach.period_ns, &args);
    }
    Ok(())
}

fn parse_time(text: &str) -> Result<SystemTime> {
    humantime::parse_rfc3339(text)
        .map_err(|e| usage!("not a valid {}: {text:?} is not a time: {e}", Breaches::SCHEMA))
}

fn ns_since(time: SystemTime, start: SystemTime) -> i64 {
    match time.duration_since(start) {
        Ok(after) => to_signed_ns(after),
        Err(before) => to_signed_ns(before.duration()).saturating_neg(),
    }
}
