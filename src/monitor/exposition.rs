//! The metrics of a scrape: metric families in base units, in the format that the client prefers.
//! Does no I/O.

mod family;
mod histogram;
mod negotiation;
mod protobuf;
mod text_format;

use std::borrow::Cow;
use std::time::Duration;

use files::tick_counts::TickCounts;
use interop::openmetrics::format_seconds;

pub use negotiation::ExpositionFormat;

use crate::monitor::exposition::family::{Family, FamilyKind, Labels, Sample, Value};
use crate::monitor::exposition::histogram::Histogram;
use crate::monitor::limit_coverage::ClosedCoverage;
use crate::monitor::limits::Limit;
use crate::monitor::loop_id::LoopId;
use crate::monitor::loop_record::LoopTotal;

/// State of the monitor at the time of a scrape.
#[derive(Debug)]
pub struct MonitorState<'a> {
    pub loops: Vec<(&'a LoopId, &'a LoopTotal)>,
    pub breaches: Vec<BreachCount<'a>>,
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
    pub limits: &'a [Limit],
    pub coverage: &'a ClosedCoverage,
    pub poll_interval: Duration,
    pub flights: Option<FlightCounts>,
}

/// Cost and number of flight records.
#[derive(Clone, Copy, Debug)]
pub struct FlightCounts {
    pub cpu_ns: u64,
    pub memory_bytes: u64,
    pub written: u64,
    pub lost: u64,
}

/// Number of intervals in which a loop broke a limit.
#[derive(Debug)]
pub struct BreachCount<'a> {
    pub loop_id: &'a LoopId,
    pub limit: &'a str,
    pub count: u64,
}

/// A counter that every loop has.
struct LoopCounter {
    name: &'static str,
    help: &'static str,
    value: fn(&TickCounts) -> Option<u64>,
}

const LOOP_COUNTERS: [LoopCounter; 5] = [
    LoopCounter { name: "osjitter_ticks", help: "Planned ticks.", value: |t| Some(t.planned) },
    LoopCounter {
        name: "osjitter_missed_ticks",
        help: "Ticks not delivered before the next deadline.",
        value: |t| t.missed,
    },
    LoopCounter {
        name: "osjitter_skipped_ticks",
        help: "Ticks never delivered.",
        value: |t| t.skipped,
    },
    LoopCounter {
        name: "osjitter_coalesced_ticks",
        help: "Ticks delivered together with the one before.",
        value: |t| t.coalesced,
    },
    LoopCounter {
        name: "osjitter_early_ticks",
        help: "Ticks delivered before their deadline.",
        value: |t| t.early,
    },
];

/// Renders the metrics in a format.
pub fn render(state: &MonitorState<'_>, format: ExpositionFormat) -> Vec<u8> {
    let families = build_families(state);
    match format {
        ExpositionFormat::Text => text_format::render(&families, false).into_bytes(),
        ExpositionFormat::OpenMetrics => text_format::render(&families, true).into_bytes(),
        ExpositionFormat::Protobuf => protobuf::encode(&families),
    }
}

/// Returns the families in the order of the page.
fn build_families<'a>(state: &MonitorState<'a>) -> Vec<Family<'a>> {
    let info = state.info.iter().map(|(name, value)| (*name, Cow::from(value))).collect();
    let mut families = vec![Family {
        name: "osjitter",
        kind: FamilyKind::Info,
        help: "Version of the monitor, and the machine it runs on.",
        samples: vec![Sample { labels: info, value: Value::Number(1.0) }],
    }];

    // Families with a sample per loop.
    families.extend([
        Family {
            name: "osjitter_lateness_seconds",
            kind: FamilyKind::Histogram,
            help: "Wake time minus deadline; buckets to within 0.8 %.",
            samples: loop_samples(state, |total| Some(Value::Histogram(Histogram(&total.bins)))),
        },
        Family {
            name: "osjitter_lateness_max_seconds",
            kind: FamilyKind::Gauge,
            help: "Largest lateness of the last closed interval.",
            samples: loop_samples(state, |total| {
                Some(Value::Number(total.closed_max_ns? as f64 / 1e9))
            }),
        },
    ]);
    for LoopCounter { name, help, value } in LOOP_COUNTERS {
        let samples = loop_samples(state, |total| Some(Value::Number(value(&total.ticks)? as f64)));
        families.push(Family { name, kind: FamilyKind::Counter, help, samples });
    }

    // One sample per loop and limit.
    let mut breaches = Vec::with_capacity(state.breaches.len());
    for breach in &state.breaches {
        let mut labels = loop_labels(breach.loop_id);
        labels.push(("limit", Cow::from(breach.limit)));
        breaches.push(Sample { labels, value: Value::Number(breach.count as f64) });
    }
    families.push(Family {
        name: "osjitter_limit_breaches",
        kind: FamilyKind::Counter,
        help: "Closed intervals that broke a limit.",
        samples: breaches,
    });
    families.extend([
        Family {
            name: "osjitter_limit_unchecked_loops",
            kind: FamilyKind::Gauge,
            help: "Loops on which a limit was not checked in the last closed interval.",
            samples: unchecked_loops(state),
        },
        Family {
            name: "osjitter_limit_checked_loops",
            kind: FamilyKind::Gauge,
            help: "Loops on which a limit was checked in the last closed interval.",
            samples: checked_loops(state),
        },
        counter(
            "osjitter_limit_incomplete_intervals",
            "Closed intervals that left out a meter.",
            state.coverage.incomplete_intervals as f64,
        ),
    ]);

    // Families about the monitor itself, with a single sample.
    if let Some(ns) = state.cpu_ns {
        let help = "CPU time of the monitor itself.";
        families.push(counter("osjitter_cpu_seconds", help, ns as f64 / 1e9));
    }
    families.extend([
        gauge(
            "osjitter_budget_ratio",
            "CPU time that the monitor may use, of one core.",
            state.budget,
        ),
        counter(
            "osjitter_probe_stretches",
            "Times the probes' periods were doubled to keep the budget.",
            state.stretches as f64,
        ),
        counter(
            "osjitter_probes_ended", "Probes that ended by an error.", state.probes_ended as f64,
        ),
    ]);
    if let Some(flights) = &state.flights {
        families.extend([
            counter(
                "osjitter_flight_cpu_seconds",
                "CPU time of recording switches, by the measured cost of a record.",
                flights.cpu_ns as f64 / 1e9,
            ),
            gauge(
                "osjitter_flight_memory_bytes",
                "Memory in which switches are recorded.",
                flights.memory_bytes as f64,
            ),
            counter("osjitter_flights", "Flight records of broken limits.", flights.written as f64),
            counter(
                "osjitter_flights_lost",
                "Flight records that could not be written.",
                flights.lost as f64,
            ),
        ]);
    }
    families.extend([
        counter(
            "osjitter_intervals_closed", "Intervals that have ended.",
            state.intervals_closed as f64,
        ),
        counter(
            "osjitter_intervals_lost",
            "Intervals that could not be written.",
            state.intervals_lost as f64,
        ),
        gauge("osjitter_meters", "Metered loops of other programs.", state.meters as f64),
        gauge(
            "osjitter_meters_left_out",
            "Meters that are not watched: beyond the maximum, or unreadable.",
            state.meters_left_out as f64,
        ),
        gauge(
            "osjitter_poll_interval_seconds",
            "Time between two readings of all meters.",
            state.poll_interval.as_secs_f64(),
        ),
    ]);
    families
}

/// Returns the samples of the loops on which each limit was not checked, by reason.
fn unchecked_loops<'a>(state: &MonitorState<'a>) -> Vec<Sample<'a>> {
    let mut samples = Vec::with_capacity(2 * state.limits.len());
    for limit in state.limits {
        let few_ticks = state.coverage.few_ticks.get(&limit.text).copied().unwrap_or(0);
        for (reason, loops) in [("left-out", state.coverage.left_out), ("few-ticks", few_ticks)] {
            let labels =
                vec![("limit", Cow::from(limit.text.as_str())), ("reason", Cow::from(reason))];
            samples.push(Sample { labels, value: Value::Number(loops as f64) });
        }
    }
    samples
}

/// Returns the samples of the loops on which each limit was checked.
fn checked_loops<'a>(state: &MonitorState<'a>) -> Vec<Sample<'a>> {
    let mut samples = Vec::with_capacity(state.limits.len());
    for limit in state.limits {
        let loops = state.coverage.checked.get(&limit.text).copied().unwrap_or(0);
        let labels = vec![("limit", Cow::from(limit.text.as_str()))];
        samples.push(Sample { labels, value: Value::Number(loops as f64) });
    }
    samples
}

fn counter<'a>(name: &'static str, help: &'static str, value: f64) -> Family<'a> {
    let sample = Sample { labels: Labels::new(), value: Value::Number(value) };
    Family { name, kind: FamilyKind::Counter, help, samples: vec![sample] }
}

fn gauge<'a>(name: &'static str, help: &'static str, value: f64) -> Family<'a> {
    Family { kind: FamilyKind::Gauge, ..counter(name, help, value) }
}

/// Returns a sample of each loop that has the value.
fn loop_samples<'a>(
    state: &MonitorState<'a>,
    value: impl Fn(&'a LoopTotal) -> Option<Value<'a>>,
) -> Vec<Sample<'a>> {
    let sample = |(loop_id, total): &(&'a LoopId, &'a LoopTotal)| {
        Some(Sample { labels: loop_labels(loop_id), value: value(total)? })
    };
    state.loops.iter().filter_map(sample).collect()
}

fn loop_labels(loop_id: &LoopId) -> Labels<'_> {
    let (LoopId::Probe { period_ns, .. } | LoopId::Meter { period_ns, .. }) = loop_id;
    let period = ("period", Cow::from(format_seconds(*period_ns as f64)));
    let mut labels = match loop_id {
        LoopId::Probe { subject, runtime, .. } => {
            vec![("subject", Cow::from(subject)), period, ("runtime", Cow::from(runtime))]
        }
        LoopId::Meter { meter, program, .. } => {
            vec![("meter", Cow::from(meter)), period, ("program", Cow::from(program))]
        }
    };
    labels.retain(|(_, value)| !value.is_empty());
    labels
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::loop_record::BINNING;

    #[test]
    fn text_formats() {
        let probe = LoopId::Probe {
            subject: "os-interval".to_owned(),
            period_ns: 10_000_000,
            runtime: "current-thread".to_owned(),
        };
        let meter = LoopId::Meter {
            meter: "a \"loop\"".to_owned(),
            period_ns: 1_000_000_000,
            program: "b\\c".to_owned(),
        };
        let bins = [(5_000, 5), (20_000_000_000, 1)]
            .map(|(value, count)| (BINNING.bin(value).lower, count))
            .into_iter()
            .collect();
        let ticks =
            TickCounts { planned: 7, missed: Some(1), skipped: Some(1), ..TickCounts::default() };
        let total = LoopTotal { ticks, bins, ..LoopTotal::default() };
        let closed = LoopTotal { closed_max_ns: Some(14_000), ..total.clone() };
        let state = MonitorState {
            loops: vec![(&probe, &closed), (&meter, &total)],
            breaches: vec![BreachCount { loop_id: &probe, limit: "p99=2ms", count: 3 }],
            info: &[("version", "0.1.0".to_owned())],
            cpu_ns: Some(1_500_000_000),
            budget: 0.005,
            stretches: 0,
            probes_ended: 0,
            intervals_closed: 2,
            intervals_lost: 1,
            meters: 1,
            meters_left_out: 0,
            limits: &["p99=2ms".parse().unwrap()],
            coverage: &ClosedCoverage {
                left_out: 2,
                few_ticks: [("p99=2ms".to_owned(), 1)].into(),
                checked: [("p99=2ms".to_owned(), 4)].into(),
                incomplete_intervals: 1,
            },
            poll_interval: Duration::from_secs(10),
            flights: None,
        };
        let text = |format| String::from_utf8(render(&state, format)).unwrap();
        insta::assert_snapshot!(text(ExpositionFormat::OpenMetrics));
        let older = text(ExpositionFormat::Text);
        assert!(
            older.contains("# TYPE osjitter_ticks_total counter")
                && older.contains("# TYPE osjitter_info gauge")
        );
        assert!(!older.contains("# EOF") && !older.contains("# UNIT"));
        let flights =
            FlightCounts { cpu_ns: 2_500_000_000, memory_bytes: 4_096, written: 3, lost: 1 };
        let state = MonitorState { flights: Some(flights), ..state };
        let with_flights = String::from_utf8(render(&state, ExpositionFormat::Text)).unwrap();
        for sample in [
            "osjitter_flight_cpu_seconds_total 2.5",
            "osjitter_flight_memory_bytes 4096",
            "osjitter_flights_total 3",
            "osjitter_flights_lost_total 1",
        ] {
            assert!(with_flights.contains(sample), "{with_flights}");
        }
    }
}
