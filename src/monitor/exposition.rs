//! What is scraped, of a moment: its families, in whichever form is asked for. Base units. Pure.

mod family;
mod form;
mod histogram;
mod protobuf;
mod text;

use std::borrow::Cow;

pub use form::Form;

use crate::interop::openmetrics::format_seconds;
use crate::monitor::books::{Loop, Total};
use crate::monitor::exposition::family::{Family, Kind, Labels, Sample, Value};
use crate::monitor::exposition::histogram::Histogram;

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

/// In a form.
pub fn page(moment: &Moment<'_>, form: Form) -> Vec<u8> {
    let families = families(moment);
    match form {
        Form::Text => text::text(&families, false).into_bytes(),
        Form::OpenMetrics => text::text(&families, true).into_bytes(),
        Form::Protobuf => protobuf::bytes(&families),
    }
}

fn families<'a>(moment: &Moment<'a>) -> Vec<Family<'a>> {
    let of_loops = |value: &dyn Fn(&'a Total) -> Option<Value<'a>>| {
        let loops = moment.loops.iter();
        loops
            .filter_map(|(of, total)| Some(Sample { labels: labels(of), value: value(total)? }))
            .collect()
    };
    let info = moment.info.iter().map(|(name, value)| (*name, Cow::from(value))).collect();
    let mut all = vec![
        Family {
            name: "osjitter",
            kind: Kind::Info,
            help: "What measures, and on what.",
            samples: vec![Sample { labels: info, value: Value::Number(1.0) }],
        },
        Family {
            name: "osjitter_lateness_seconds",
            kind: Kind::Histogram,
            help: "Wake time minus deadline; buckets to within 0.8 %.",
            samples: of_loops(&|total| Some(Value::Histogram(Histogram(&total.bins)))),
        },
        Family {
            name: "osjitter_lateness_max_seconds",
            kind: Kind::Gauge,
            help: "Largest lateness of the last closed interval.",
            samples: of_loops(&|total| Some(Value::Number(total.closed_max_ns? as f64 / 1e9))),
        },
    ];
    all.extend(COUNTERS.map(|(name, help, get)| {
        let samples = of_loops(&|total| Some(Value::Number(get(total) as f64)));
        Family { name, kind: Kind::Counter, help, samples }
    }));
    let breaches = moment.breaches.iter().map(|(of, limit, times)| {
        let mut labels = labels(of);
        labels.push(("limit", Cow::from(*limit)));
        Sample { labels, value: Value::Number(*times as f64) }
    });
    all.push(Family {
        name: "osjitter_limit_breaches",
        kind: Kind::Counter,
        help: "Closed intervals that broke a limit.",
        samples: breaches.collect(),
    });
    let cpu_seconds = moment.cpu_ns.map(|ns| ns as f64 / 1e9);
    let singles = [
        ("osjitter_cpu_seconds", Kind::Counter, "CPU time of the monitor itself.", cpu_seconds),
        (
            "osjitter_budget_ratio",
            Kind::Gauge,
            "CPU time that the monitor may use, of one core.",
            Some(moment.budget),
        ),
        (
            "osjitter_probe_stretches",
            Kind::Counter,
            "Times the probes' periods were doubled to keep the budget.",
            Some(moment.stretches as f64),
        ),
        (
            "osjitter_probes_ended",
            Kind::Counter,
            "Probes that ended by an error.",
            Some(moment.probes_ended as f64),
        ),
        (
            "osjitter_intervals_closed",
            Kind::Counter,
            "Intervals that have ended.",
            Some(moment.intervals_closed as f64),
        ),
        (
            "osjitter_intervals_lost",
            Kind::Counter,
            "Intervals that could not be written.",
            Some(moment.intervals_lost as f64),
        ),
        (
            "osjitter_meters",
            Kind::Gauge,
            "Metered loops of other programs.",
            Some(moment.meters as f64),
        ),
        (
            "osjitter_meters_left_out",
            Kind::Gauge,
            "Metered loops beyond those there is room for.",
            Some(moment.meters_left_out as f64),
        ),
    ];
    all.extend(singles.into_iter().filter_map(|(name, kind, help, value)| {
        let samples = vec![Sample { labels: Labels::new(), value: Value::Number(value?) }];
        Some(Family { name, kind, help, samples })
    }));
    all
}

fn labels(of: &Loop) -> Labels<'_> {
    let (name, of_name, period_ns, last, of_last) = match of {
        Loop::Probe { subject, period_ns, runtime } => {
            ("subject", subject, period_ns, "runtime", runtime)
        }
        Loop::Meter { meter, period_ns, program } => {
            ("meter", meter, period_ns, "program", program)
        }
    };
    let period = format_seconds(*period_ns as f64);
    let mut labels =
        vec![(name, Cow::from(of_name)), ("period", period.into()), (last, Cow::from(of_last))];
    labels.retain(|(_, value)| !value.is_empty());
    labels
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::books::BINNING;

    #[test]
    fn the_text_of_a_moment() {
        let probe = Loop::Probe {
            subject: "os-interval".to_owned(),
            period_ns: 10_000_000,
            runtime: "current-thread".to_owned(),
        };
        let meter = Loop::Meter {
            meter: "a \"loop\"".to_owned(),
            period_ns: 1_000_000_000,
            program: "b\\c".to_owned(),
        };
        let bins = [(5_000, 5), (20_000_000_000, 1)]
            .map(|(value, count)| (BINNING.bin(value).lower, count))
            .into_iter()
            .collect();
        let total = Total { ticks: 7, missed: 1, skipped: 1, bins, ..Total::default() };
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
        let text = |form| String::from_utf8(page(&moment, form)).unwrap();
        insta::assert_snapshot!(text(Form::OpenMetrics));
        let older = text(Form::Text);
        assert!(
            older.contains("# TYPE osjitter_ticks_total counter")
                && older.contains("# TYPE osjitter_info gauge")
        );
        assert!(!older.contains("# EOF") && !older.contains("# UNIT"));
    }
}
