//! What is scraped: OpenMetrics 1.0, or the older Prometheus text where it is not asked for. Base units. Pure.

use std::fmt::Write as _;

use crate::interop::openmetrics::{escaped, seconds};
use crate::monitor::books::{BUCKETS_NS, Loop, Total};

pub const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
pub const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A moment of the monitor.
#[derive(Debug)]
pub struct Moment<'a> {
    pub loops: Vec<(&'a Loop, &'a Total)>,
    /// Of limits: which loop, which limit, how often it was broken.
    pub breaches: Vec<(&'a Loop, &'a str, u64)>,
    /// Label names and values of `osjitter_info`.
    pub info: &'a [(&'static str, String)],
    pub cpu_ns: Option<u64>,
    pub budget: f64,
    pub stretches: u64,
    pub probes_ended: u64,
    pub intervals_closed: u64,
    pub intervals_lost: u64,
    pub meters: usize,
    pub meters_left_out: usize,
}

/// A name, its help, and how to get it.
type Counter = (&'static str, &'static str, fn(&Total) -> u64);

const COUNTERS: [Counter; 5] = [
    ("osjitter_ticks", "Ticks asked for.", |t| t.ticks),
    ("osjitter_missed_ticks", "Ticks not delivered before the next deadline.", |t| t.missed),
    ("osjitter_skipped_ticks", "Ticks never delivered.", |t| t.skipped),
    ("osjitter_coalesced_ticks", "Ticks that came together with the one before.", |t| t.coalesced),
    ("osjitter_early_ticks", "Ticks delivered before their deadline.", |t| t.early),
];

/// The text, family by family.
struct Text {
    text: String,
    openmetrics: bool,
}

impl Text {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        // The older text names a counter with its ending, and knows neither infos nor units.
        let (shown, kind) = match kind {
            _ if self.openmetrics => (name.to_owned(), kind),
            "counter" => (format!("{name}_total"), kind),
            "info" => (format!("{name}_info"), "gauge"),
            _ => (name.to_owned(), kind),
        };
        let _ = writeln!(self.text, "# TYPE {shown} {kind}");
        if self.openmetrics && name.ends_with("_seconds") {
            let _ = writeln!(self.text, "# UNIT {shown} seconds");
        }
        let _ = writeln!(self.text, "# HELP {shown} {help}");
    }

    fn sample(&mut self, name: &str, labels: &str, value: impl std::fmt::Display) {
        let labels = if labels.is_empty() { String::new() } else { format!("{{{labels}}}") };
        let _ = writeln!(self.text, "{name}{labels} {value}");
    }

    fn single(&mut self, name: &str, kind: &str, help: &str, value: impl std::fmt::Display) {
        self.family(name, kind, help);
        let ending = if kind == "counter" { "_total" } else { "" };
        self.sample(&format!("{name}{ending}"), "", value);
    }
}

pub fn text(moment: &Moment<'_>, openmetrics: bool) -> String {
    let mut out = Text { text: String::new(), openmetrics };
    let info: Vec<String> = moment.info.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
    out.family("osjitter", "info", "What measures, and on what.");
    out.sample("osjitter_info", &info.join(","), 1);

    let loops: Vec<(String, &Total)> = moment.loops.iter().map(|(of, total)| (labels(of), *total)).collect();
    out.family("osjitter_lateness_seconds", "histogram", "Wake time minus deadline; buckets to within 0.8 %.");
    for (labels, total) in &loops {
        histogram(&mut out, labels, total);
    }
    out.family("osjitter_lateness_max_seconds", "gauge", "Largest lateness of the last closed interval.");
    for (labels, total) in &loops {
        if let Some(ns) = total.closed_max_ns {
            out.sample("osjitter_lateness_max_seconds", labels, seconds(ns as f64));
        }
    }
    for (name, help, get) in COUNTERS {
        out.family(name, "counter", help);
        for (labels, total) in &loops {
            out.sample(&format!("{name}_total"), labels, get(total));
        }
    }
    out.family("osjitter_limit_breaches", "counter", "Closed intervals that broke a limit.");
    for (of, limit, times) in &moment.breaches {
        let labels = format!("{},limit=\"{}\"", labels(of), escaped(limit));
        out.sample("osjitter_limit_breaches_total", &labels, times);
    }
    if let Some(ns) = moment.cpu_ns {
        out.single("osjitter_cpu_seconds", "counter", "CPU time of the monitor itself.", seconds(ns as f64));
    }
    out.single("osjitter_budget_ratio", "gauge", "CPU time that the monitor may use, of one core.", moment.budget);
    for (name, kind, help, value) in [
        (
            "osjitter_probe_stretches",
            "counter",
            "Times the probes' periods were doubled to keep the budget.",
            moment.stretches,
        ),
        ("osjitter_probes_ended", "counter", "Probes that ended by an error.", moment.probes_ended),
        ("osjitter_intervals_closed", "counter", "Intervals that have ended.", moment.intervals_closed),
        ("osjitter_intervals_lost", "counter", "Intervals that could not be written.", moment.intervals_lost),
        ("osjitter_meters", "gauge", "Metered loops of other programs.", moment.meters as u64),
        (
            "osjitter_meters_left_out",
            "gauge",
            "Metered loops beyond those there is room for.",
            moment.meters_left_out as u64,
        ),
    ] {
        out.single(name, kind, help, value);
    }
    if openmetrics {
        out.text += "# EOF\n";
    }
    out.text
}

fn histogram(out: &mut Text, labels: &str, total: &Total) {
    let mut below = 0;
    let ends = BUCKETS_NS.iter().map(|&ns| bound(ns)).chain(["+Inf".to_owned()]);
    for (end, count) in ends.zip(total.buckets) {
        below += count;
        out.sample("osjitter_lateness_seconds_bucket", &format!("{labels},le=\"{end}\""), below);
    }
    out.sample("osjitter_lateness_seconds_sum", labels, seconds(total.sum_ns as f64));
    out.sample("osjitter_lateness_seconds_count", labels, below);
}

/// A bucket's end: a float, as OpenMetrics has it.
fn bound(ns: u64) -> String {
    let text = seconds(ns as f64);
    if text.contains(['.', 'e']) { text } else { text + ".0" }
}

fn labels(of: &Loop) -> String {
    let pairs = match of {
        Loop::Probe { subject, period_ns, runtime } => {
            [("subject", subject.clone()), ("period", seconds(*period_ns as f64)), ("runtime", runtime.clone())]
        }
        Loop::Meter { meter, period_ns, program } => {
            [("meter", meter.clone()), ("period", seconds(*period_ns as f64)), ("program", program.clone())]
        }
    };
    let pairs = pairs.iter().filter(|(_, value)| !value.is_empty());
    pairs.map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_a_moment() {
        let probe = Loop::Probe {
            subject: "os-interval".to_owned(),
            period_ns: 10_000_000,
            runtime: "current-thread".to_owned(),
        };
        let meter =
            Loop::Meter { meter: "a \"loop\"".to_owned(), period_ns: 1_000_000_000, program: "b\\c".to_owned() };
        let mut total = Total { ticks: 7, missed: 1, skipped: 1, sum_ns: 120_000_000, ..Total::default() };
        (total.buckets[1], total.buckets[19]) = (5, 1);
        let closed = Total { closed_max_ns: Some(14_000), ..total.clone() };
        let moment = Moment {
            loops: vec![(&probe, &closed), (&meter, &total)],
            breaches: vec![(&probe, "p99=2ms", 3)],
            info: &[("version", "0.1.0".to_owned())],
            cpu_ns: Some(1_500_000_000),
            budget: 0.005,
            stretches: 0,
            probes_ended: 0,
            intervals_closed: 2,
            intervals_lost: 1,
            meters: 1,
            meters_left_out: 0,
        };
        insta::assert_snapshot!(text(&moment, true));
        let older = text(&moment, false);
        assert!(older.contains("# TYPE osjitter_ticks_total counter") && older.contains("# TYPE osjitter_info gauge"));
        assert!(!older.contains("# EOF") && !older.contains("# UNIT"));
    }
}
