//! The text formats: OpenMetrics 1.0 and the older one of Prometheus.

use std::fmt::Write as _;

use interop::openmetrics::{escape_label, format_seconds};

use crate::monitor::exposition::family::{Family, FamilyKind, Labels, Value};
use crate::monitor::exposition::histogram::Histogram;

/// Renders families as OpenMetrics or in the older format.
pub fn render(families: &[Family<'_>], openmetrics: bool) -> String {
    let mut out = String::new();
    for family in families {
        write_metadata(&mut out, family, openmetrics);
        for sample in &family.samples {
            let labels = format_labels(&sample.labels);
            match sample.value {
                Value::Number(value) => write_sample(&mut out, &family.full_name(), &labels, value),
                Value::Histogram(values) => {
                    write_histogram(&mut out, family.name, &labels, values);
                }
            }
        }
    }
    if openmetrics {
        out += "# EOF\n";
    }
    out
}

fn write_metadata(out: &mut String, family: &Family<'_>, openmetrics: bool) {
    // The older format names a counter with its suffix, and has neither infos nor units.
    let name = if openmetrics { family.name.to_owned() } else { family.full_name() };
    let kind = match family.kind {
        FamilyKind::Info if openmetrics => "info",
        FamilyKind::Info | FamilyKind::Gauge => "gauge",
        FamilyKind::Counter => "counter",
        FamilyKind::Histogram => "histogram",
    };
    let _ = writeln!(out, "# TYPE {name} {kind}");
    if openmetrics && name.ends_with("_seconds") {
        let _ = writeln!(out, "# UNIT {name} seconds");
    }
    let _ = writeln!(out, "# HELP {name} {}", family.help);
}

/// Writes the classic buckets, the sum and the count.
fn write_histogram(out: &mut String, name: &str, labels: &str, values: Histogram<'_>) {
    for bucket in values.classic() {
        let upper = bucket.upper_ns.map_or_else(|| "+Inf".to_owned(), format_bound);
        let comma = if labels.is_empty() { "" } else { "," };
        let labels = format!("{labels}{comma}le=\"{upper}\"");
        write_sample(out, &format!("{name}_bucket"), &labels, bucket.cumulative_count);
    }
    write_sample(out, &format!("{name}_sum"), labels, values.sum_seconds());
    write_sample(out, &format!("{name}_count"), labels, values.count());
}

fn write_sample(out: &mut String, name: &str, labels: &str, value: impl std::fmt::Display) {
    let labels = if labels.is_empty() { String::new() } else { format!("{{{labels}}}") };
    let _ = writeln!(out, "{name}{labels} {value}");
}

/// Formats a bucket's upper bound as a float, as OpenMetrics requires.
fn format_bound(ns: i64) -> String {
    let text = format_seconds(ns as f64);
    if text.contains(['.', 'e']) { text } else { text + ".0" }
}

fn format_labels(labels: &Labels<'_>) -> String {
    labels
        .iter()
        .map(|(name, value)| format!("{name}=\"{}\"", escape_label(value)))
        .collect::<Vec<_>>()
        .join(",")
}
