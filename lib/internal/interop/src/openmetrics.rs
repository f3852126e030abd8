//! OpenMetrics 1.0 text: a summary of lateness, counters of ticks and gauges of cost. All values
//! are in base units, as the format requires.

use std::fmt::Write as _;

use files::report::{Percentile, Report};

use files::entry::{self, Entry};

/// A counter: its name, its help, and the function that returns its value, if it is known.
type Counter = (&'static str, &'static str, fn(&Entry<'_>) -> Option<u64>);

const COUNTERS: [Counter; 5] = [
    ("osjitter_ticks", "Ticks requested.", |e| Some(e.summary.ticks)),
    ("osjitter_missed_ticks", "Ticks not delivered before the next deadline.", |e| e.missed()),
    ("osjitter_skipped_ticks", "Ticks never delivered.", |e| e.class_count(e.summary.skipped)),
    ("osjitter_coalesced_ticks", "Ticks delivered in the wake-up of a later one.", |e| {
        e.class_count(e.summary.coalesced)
    }),
    ("osjitter_early_ticks", "Ticks delivered before their deadline.", |e| {
        e.class_count(e.summary.early)
    }),
];

/// Renders the measured subjects of all reports.
pub fn text(reports: &[Report]) -> String {
    let entries: Vec<Entry<'_>> = entry::entries(reports).collect();
    let mut text = String::new();
    write_lateness(&mut text, &entries);
    write_max_lateness(&mut text, &entries);
    for counter in COUNTERS {
        write_counter(&mut text, counter, &entries);
    }
    write_cost(&mut text, &entries);
    text += "# EOF\n";
    text
}

/// Writes the percentiles of the lateness, and the number of ticks that have one.
fn write_lateness(text: &mut String, entries: &[Entry<'_>]) {
    *text += "# TYPE osjitter_lateness_seconds summary\n# UNIT osjitter_lateness_seconds seconds\n\
              # HELP osjitter_lateness_seconds Wake time minus deadline.\n";
    for entry in entries {
        let labels = labels(entry);
        for (Percentile { quantile, .. }, ns) in entry.summary.lateness_ns.supported_percentiles() {
            let seconds = format_seconds(ns as f64);
            let _ = writeln!(
                text,
                "osjitter_lateness_seconds{{{labels},quantile=\"{quantile}\"}} {seconds}"
            );
        }
        let count = entry.summary.came();
        let _ = writeln!(text, "osjitter_lateness_seconds_count{{{labels}}} {count}");
    }
}

fn write_max_lateness(text: &mut String, entries: &[Entry<'_>]) {
    *text += "# TYPE osjitter_lateness_max_seconds gauge\n# UNIT osjitter_lateness_max_seconds seconds\n\
              # HELP osjitter_lateness_max_seconds Largest lateness.\n";
    for entry in entries {
        let max = format_seconds(entry.summary.lateness_ns.max as f64);
        let _ = writeln!(text, "osjitter_lateness_max_seconds{{{}}} {max}", labels(entry));
    }
}

/// Writes a counter of all subjects for which it is known.
fn write_counter(text: &mut String, (name, help, get): Counter, entries: &[Entry<'_>]) {
    let _ = writeln!(text, "# TYPE {name} counter\n# HELP {name} {help}");
    for entry in entries {
        if let Some(count) = get(entry) {
            let _ = writeln!(text, "{name}_total{{{}}} {count}", labels(entry));
        }
    }
}

/// Writes the CPU time per tick of all subjects for which it is known.
fn write_cost(text: &mut String, entries: &[Entry<'_>]) {
    *text += "# TYPE osjitter_cpu_per_tick_seconds gauge\n# UNIT osjitter_cpu_per_tick_seconds seconds\n\
              # HELP osjitter_cpu_per_tick_seconds CPU time of the process for each tick.\n";
    for entry in entries {
        if let Some(cpu) = entry.summary.cpu_ns_per_tick.map(format_seconds) {
            let _ = writeln!(text, "osjitter_cpu_per_tick_seconds{{{}}} {cpu}", labels(entry));
        }
    }
}

fn labels(entry: &Entry<'_>) -> String {
    let subject = entry.subject;
    let mut labels = format!(
        "id=\"{}\",subject=\"{}\"",
        escape_label(&entry.name()),
        escape_label(&subject.name)
    );
    if let Some(period_ns) = entry.period_ns() {
        let _ = write!(labels, ",period=\"{}\"", format_seconds(period_ns as f64));
    }
    if let Some(runtime) = &subject.runtime {
        let _ = write!(labels, ",runtime=\"{}\"", escape_label(runtime));
    }
    if let Some(load) = &subject.load {
        let _ = write!(labels, ",load=\"{}\"", escape_label(load));
    }
    labels
}

/// Escapes the value of a label.
pub fn escape_label(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// Formats nanoseconds as seconds.
pub fn format_seconds(ns: f64) -> String {
    format!("{}", ns / 1e9)
}
