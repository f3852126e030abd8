//! The forms for people: OpenMetrics 1.0, and the older Prometheus text.

use std::fmt::Write as _;

use crate::interop::openmetrics::{escape_label, format_seconds};
use crate::monitor::exposition::family::{Family, Kind, Labels, Value};

pub fn text(families: &[Family<'_>], openmetrics: bool) -> String {
    let mut out = String::new();
    for family in families {
        heading(&mut out, family, openmetrics);
        for sample in &family.samples {
            let labels = labels(&sample.labels);
            match sample.value {
                Value::Number(value) => line(&mut out, &family.full_name(), &labels, value),
                Value::Histogram(values) => {
                    for (end_ns, below) in values.classic() {
                        let end = end_ns.map_or_else(|| "+Inf".to_owned(), bound);
                        let comma = if labels.is_empty() { "" } else { "," };
                        let labels = format!("{labels}{comma}le=\"{end}\"");
                        line(&mut out, &format!("{}_bucket", family.name), &labels, below);
                    }
                    line(&mut out, &format!("{}_sum", family.name), &labels, values.sum_seconds());
                    line(&mut out, &format!("{}_count", family.name), &labels, values.count());
                }
            }
        }
    }
    if openmetrics {
        out += "# EOF\n";
    }
    out
}

fn heading(out: &mut String, family: &Family<'_>, openmetrics: bool) {
    // The older text names a counter with its ending, and knows neither infos nor units.
    let name = if openmetrics { family.name.to_owned() } else { family.full_name() };
    let kind = match family.kind {
        Kind::Info if openmetrics => "info",
        Kind::Info | Kind::Gauge => "gauge",
        Kind::Counter => "counter",
        Kind::Histogram => "histogram",
    };
    let _ = writeln!(out, "# TYPE {name} {kind}");
    if openmetrics && name.ends_with("_seconds") {
        let _ = writeln!(out, "# UNIT {name} seconds");
    }
    let _ = writeln!(out, "# HELP {name} {}", family.help);
}

fn line(out: &mut String, name: &str, labels: &str, value: impl std::fmt::Display) {
    let labels = if labels.is_empty() { String::new() } else { format!("{{{labels}}}") };
    let _ = writeln!(out, "{name}{labels} {value}");
}

/// A bucket's end: a float, as OpenMetrics has it.
fn bound(ns: i64) -> String {
    let text = format_seconds(ns as f64);
    if text.contains(['.', 'e']) { text } else { text + ".0" }
}

fn labels(labels: &Labels<'_>) -> String {
    labels
        .iter()
        .map(|(name, value)| format!("{name}=\"{}\"", escape_label(value)))
        .collect::<Vec<_>>()
        .join(",")
}
