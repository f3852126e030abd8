//! Prometheus's protobuf form, the only one on the wire that has native histograms: messages
//! `MetricFamily` of `io.prometheus.client`, each after its length.

use crate::monitor::exposition::family::{Family, Kind, Sample, Value};
use crate::monitor::exposition::histogram::{Histogram, SCHEMA, Spans, ZERO_THRESHOLD};

/// A message under way. Fields have the numbers of `metrics.proto`.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut n: u64) {
        while n >= 0x80 {
            self.0.push(n as u8 | 0x80);
            n >>= 7;
        }
        self.0.push(n as u8);
    }

    fn uint(&mut self, field: u32, value: u64) {
        self.varint(u64::from(field) << 3);
        self.varint(value);
    }

    fn sint(&mut self, field: u32, value: i64) {
        self.uint(field, zigzag(value));
    }

    fn double(&mut self, field: u32, value: f64) {
        self.varint(u64::from(field) << 3 | 1);
        self.0.extend(value.to_le_bytes());
    }

    fn bytes(&mut self, field: u32, bytes: &[u8]) {
        self.varint(u64::from(field) << 3 | 2);
        self.delimited(bytes);
    }

    fn delimited(&mut self, bytes: &[u8]) {
        self.varint(bytes.len() as u64);
        self.0.extend(bytes);
    }

    fn message(&mut self, field: u32, fill: impl FnOnce(&mut Self)) {
        let mut inner = Self::default();
        fill(&mut inner);
        self.bytes(field, &inner.0);
    }
}

/// Small numbers of either sign are short.
fn zigzag(value: i64) -> u64 {
    (value << 1 ^ value >> 63) as u64
}

pub fn bytes(families: &[Family<'_>]) -> Vec<u8> {
    let mut all = Message::default();
    for family in families {
        let mut message = Message::default();
        message.bytes(1, family.full_name().as_bytes());
        message.bytes(2, family.help.as_bytes());
        // There is no info here: it is a gauge.
        let (kind, field) = match family.kind {
            Kind::Counter => (0, 3),
            Kind::Gauge | Kind::Info => (1, 2),
            Kind::Histogram => (4, 7),
        };
        message.uint(3, kind);
        for sample in &family.samples {
            message.message(4, |metric| fill(metric, sample, field));
        }
        all.delimited(&message.0);
    }
    all.0
}

fn fill(metric: &mut Message, sample: &Sample<'_>, field: u32) {
    for (name, value) in &sample.labels {
        metric.message(1, |label| {
            label.bytes(1, name.as_bytes());
            label.bytes(2, value.as_bytes());
        });
    }
    metric.message(field, |message| match sample.value {
        Value::Number(value) => message.double(1, value),
        Value::Histogram(values) => histogram(message, values),
    });
}

/// Native and classic buckets: a server takes what it knows.
fn histogram(message: &mut Message, values: Histogram<'_>) {
    message.uint(1, values.count());
    message.double(2, values.sum_seconds());
    for (end_ns, below) in values.classic() {
        message.message(3, |bucket| {
            bucket.uint(1, below);
            bucket.double(2, end_ns.map_or(f64::INFINITY, |ns| ns as f64 / 1e9));
        });
    }
    let native = values.native();
    message.sint(5, SCHEMA.into());
    message.double(6, ZERO_THRESHOLD);
    message.uint(7, native.zero);
    spans(message, 9, &native.negative);
    spans(message, 12, &native.positive);
}

/// The spans, and in the field after them the counts.
fn spans(message: &mut Message, field: u32, of: &Spans) {
    for &(gap, length) in &of.spans {
        message.message(field, |span| {
            span.sint(1, gap.into());
            span.uint(2, length.into());
        });
    }
    if !of.deltas.is_empty() {
        message.message(field + 1, |packed| {
            of.deltas.iter().for_each(|&delta| packed.varint(zigzag(delta)))
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A field as it is on the wire: its number, and a number or bytes.
    #[derive(Clone, Debug, PartialEq)]
    enum Field {
        Number(u64),
        Bytes(Vec<u8>),
    }

    fn varint(bytes: &mut &[u8]) -> u64 {
        let mut value = 0;
        for shift in (0..).step_by(7) {
            let (first, rest) = bytes.split_first().unwrap();
            *bytes = rest;
            value |= u64::from(first & 0x7f) << shift;
            if first & 0x80 == 0 {
                break;
            }
        }
        value
    }

    fn taken<'a>(bytes: &mut &'a [u8], n: usize) -> &'a [u8] {
        let (taken, rest) = bytes.split_at(n);
        *bytes = rest;
        taken
    }

    fn fields(mut bytes: &[u8]) -> Vec<(u64, Field)> {
        let mut fields = Vec::new();
        while !bytes.is_empty() {
            let key = varint(&mut bytes);
            let field = match key & 7 {
                0 => Field::Number(varint(&mut bytes)),
                1 => Field::Number(u64::from_le_bytes(taken(&mut bytes, 8).try_into().unwrap())),
                2 => {
                    let length = varint(&mut bytes);
                    Field::Bytes(taken(&mut bytes, length as usize).to_vec())
                }
                other => panic!("wire type {other}"),
            };
            fields.push((key >> 3, field));
        }
        fields
    }

    fn of(fields: &[(u64, Field)], number: u64) -> Vec<Field> {
        fields.iter().filter(|(of, _)| *of == number).map(|(_, field)| field.clone()).collect()
    }

    fn inner(field: &Field) -> Vec<(u64, Field)> {
        let Field::Bytes(bytes) = field else { panic!("{field:?}") };
        fields(bytes)
    }

    #[test]
    fn a_family_is_read_back() {
        let bins = [(-1, 2), (0, 3), (1_000, 300), (1_000_000, 1)].into_iter().collect();
        let labels = || vec![("subject", "os-interval".into())];
        let families = [
            Family {
                name: "a_seconds",
                kind: Kind::Histogram,
                help: "How late.",
                samples: vec![Sample {
                    labels: labels(),
                    value: Value::Histogram(Histogram(&bins)),
                }],
            },
            Family {
                name: "b",
                kind: Kind::Counter,
                help: "How many.",
                samples: vec![Sample { labels: labels(), value: Value::Number(1.5) }],
            },
        ];
        let bytes = bytes(&families);
        let mut left = &bytes[..];
        let mut read = Vec::new();
        while !left.is_empty() {
            let length = varint(&mut left) as usize;
            read.push(fields(taken(&mut left, length)));
        }
        let text = |text: &str| Field::Bytes(text.as_bytes().to_vec());
        let double = |value: f64| Field::Number(value.to_bits());
        assert_eq!(read.len(), 2);
        assert_eq!(
            (of(&read[0], 1), of(&read[0], 3)),
            (vec![text("a_seconds")], vec![Field::Number(4)])
        );
        let metric = inner(&of(&read[0], 4)[0]);
        let label = inner(&of(&metric, 1)[0]);
        assert_eq!(label, [(1, text("subject")), (2, text("os-interval"))]);
        let histogram = inner(&of(&metric, 7)[0]);
        assert_eq!(of(&histogram, 1), [Field::Number(306)]);
        let classic = of(&histogram, 3);
        assert_eq!(classic.len(), 20);
        assert_eq!(inner(&classic[1]), [(1, Field::Number(305)), (2, double(0.000_01))]);
        assert_eq!(inner(&classic[19]), [(1, Field::Number(306)), (2, double(f64::INFINITY))]);
        assert_eq!(
            [5, 6, 7].map(|n| of(&histogram, n).remove(0)),
            [Field::Number(14), double(ZERO_THRESHOLD), Field::Number(3)]
        );
        // A span is a signed gap and a length; the counts are signed differences.
        let early = inner(&of(&histogram, 9)[0]);
        assert_eq!(early[1], (2, Field::Number(1)));
        assert_eq!(of(&histogram, 10), [Field::Bytes(vec![4])]);
        assert_eq!(of(&histogram, 12).len(), 2);
        assert_eq!(
            of(&histogram, 13),
            [Field::Bytes(
                [zigzag(300), zigzag(-299)]
                    .iter()
                    .flat_map(|&n| {
                        let mut message = Message::default();
                        message.varint(n);
                        message.0
                    })
                    .collect()
            )]
        );
        assert_eq!(
            (of(&read[1], 1), of(&read[1], 3)),
            (vec![text("b_total")], vec![Field::Number(0)])
        );
        assert_eq!(inner(&of(&inner(&of(&read[1], 4)[0]), 3)[0]), [(1, double(1.5))]);
    }

    #[test]
    fn signs_alternate() {
        assert_eq!(
            [0, -1, 1, -2, i64::MAX, i64::MIN].map(zigzag),
            [0, 1, 2, 3, u64::MAX - 1, u64::MAX]
        );
    }
}
