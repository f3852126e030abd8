//! The protobuf format of Prometheus, the only one with native histograms: messages `MetricFamily`
//! of `io.prometheus.client`, each preceded by its length.

use crate::monitor::exposition::family::{Family, FamilyKind, Sample, Value};
use crate::monitor::exposition::histogram::{Histogram, NativeBuckets, SCHEMA, ZERO_THRESHOLD};

/// A message being encoded. Field numbers are those of `metrics.proto`.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn write_varint(&mut self, mut n: u64) {
        while n >= 0x80 {
            self.0.push(n as u8 | 0x80);
            n >>= 7;
        }
        self.0.push(n as u8);
    }

    fn write_uint(&mut self, field: u32, value: u64) {
        self.write_varint(u64::from(field) << 3);
        self.write_varint(value);
    }

    fn write_sint(&mut self, field: u32, value: i64) {
        self.write_uint(field, zigzag(value));
    }

    fn write_double(&mut self, field: u32, value: f64) {
        self.write_varint(u64::from(field) << 3 | 1);
        self.0.extend(value.to_le_bytes());
    }

    fn write_bytes(&mut self, field: u32, bytes: &[u8]) {
        self.write_varint(u64::from(field) << 3 | 2);
        self.write_delimited(bytes);
    }

    fn write_delimited(&mut self, bytes: &[u8]) {
        self.write_varint(bytes.len() as u64);
        self.0.extend(bytes);
    }

    fn write_message(&mut self, field: u32, fill: impl FnOnce(&mut Self)) {
        let mut inner = Self::default();
        fill(&mut inner);
        self.write_bytes(field, &inner.0);
    }
}

/// Maps signed to unsigned numbers so that small ones of either sign have short encodings.
fn zigzag(value: i64) -> u64 {
    (value << 1 ^ value >> 63) as u64
}

/// Encodes families, one message each.
pub fn encode(families: &[Family<'_>]) -> Vec<u8> {
    let mut encoded = Message::default();
    for family in families {
        let mut message = Message::default();
        message.write_bytes(1, family.full_name().as_bytes());
        message.write_bytes(2, family.help.as_bytes());
        // The format has no infos, so they are gauges.
        let (kind, field) = match family.kind {
            FamilyKind::Counter => (0, 3),
            FamilyKind::Gauge | FamilyKind::Info => (1, 2),
            FamilyKind::Histogram => (4, 7),
        };
        message.write_uint(3, kind);
        for sample in &family.samples {
            message.write_message(4, |metric| write_metric(metric, sample, field));
        }
        encoded.write_delimited(&message.0);
    }
    encoded.0
}

fn write_metric(metric: &mut Message, sample: &Sample<'_>, field: u32) {
    for (name, value) in &sample.labels {
        metric.write_message(1, |label| {
            label.write_bytes(1, name.as_bytes());
            label.write_bytes(2, value.as_bytes());
        });
    }
    metric.write_message(field, |message| write_value(message, &sample.value));
}

fn write_value(message: &mut Message, value: &Value<'_>) {
    match *value {
        Value::Number(value) => message.write_double(1, value),
        Value::Histogram(values) => write_histogram(message, values),
    }
}

/// Writes native and classic buckets, since some servers read only the classic ones.
fn write_histogram(message: &mut Message, values: Histogram<'_>) {
    message.write_uint(1, values.count());
    message.write_double(2, values.sum_seconds());
    for bucket in values.classic() {
        message.write_message(3, |message| {
            message.write_uint(1, bucket.cumulative_count);
            message.write_double(2, bucket.upper_ns.map_or(f64::INFINITY, |ns| ns as f64 / 1e9));
        });
    }
    let native = values.native();
    message.write_sint(5, SCHEMA.into());
    message.write_double(6, ZERO_THRESHOLD);
    message.write_uint(7, native.zero);
    write_native_buckets(message, 9, &native.negative);
    write_native_buckets(message, 12, &native.positive);
}

/// Writes the spans, and the counts in the next field.
fn write_native_buckets(message: &mut Message, field: u32, buckets: &NativeBuckets) {
    for span in &buckets.spans {
        message.write_message(field, |message| {
            message.write_sint(1, span.gap.into());
            message.write_uint(2, span.length.into());
        });
    }
    if !buckets.deltas.is_empty() {
        message.write_message(field + 1, |packed| {
            buckets.deltas.iter().for_each(|&delta| packed.write_varint(zigzag(delta)))
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The value of an encoded field.
    #[derive(Clone, Debug, PartialEq)]
    enum Field {
        Number(u64),
        Bytes(Vec<u8>),
    }

    fn read_varint(bytes: &mut &[u8]) -> u64 {
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

    fn read_bytes<'a>(bytes: &mut &'a [u8], n: usize) -> &'a [u8] {
        let (first, rest) = bytes.split_at(n);
        *bytes = rest;
        first
    }

    fn fields(mut bytes: &[u8]) -> Vec<(u64, Field)> {
        let mut fields = Vec::new();
        while !bytes.is_empty() {
            let key = read_varint(&mut bytes);
            let field = match key & 7 {
                0 => Field::Number(read_varint(&mut bytes)),
                1 => {
                    Field::Number(u64::from_le_bytes(read_bytes(&mut bytes, 8).try_into().unwrap()))
                }
                2 => {
                    let length = read_varint(&mut bytes);
                    Field::Bytes(read_bytes(&mut bytes, length as usize).to_vec())
                }
                other => panic!("wire type {other}"),
            };
            fields.push((key >> 3, field));
        }
        fields
    }

    fn numbered(fields: &[(u64, Field)], number: u64) -> Vec<Field> {
        fields.iter().filter(|(n, _)| *n == number).map(|(_, field)| field.clone()).collect()
    }

    fn inner(field: &Field) -> Vec<(u64, Field)> {
        let Field::Bytes(bytes) = field else { panic!("{field:?}") };
        fields(bytes)
    }

    #[test]
    fn encoded_families_decode_unchanged() {
        let bins = [(-1, 2), (0, 3), (1_000, 300), (1_000_000, 1)].into_iter().collect();
        let labels = || vec![("subject", "os-interval".into())];
        let families = [
            Family {
                name: "a_seconds",
                kind: FamilyKind::Histogram,
                help: "How late.",
                samples: vec![Sample {
                    labels: labels(),
                    value: Value::Histogram(Histogram(&bins)),
                }],
            },
            Family {
                name: "b",
                kind: FamilyKind::Counter,
                help: "How many.",
                samples: vec![Sample { labels: labels(), value: Value::Number(1.5) }],
            },
        ];
        let bytes = encode(&families);
        let mut rest = &bytes[..];
        let mut decoded = Vec::new();
        while !rest.is_empty() {
            let length = read_varint(&mut rest) as usize;
            decoded.push(fields(read_bytes(&mut rest, length)));
        }
        let text = |text: &str| Field::Bytes(text.as_bytes().to_vec());
        let double = |value: f64| Field::Number(value.to_bits());
        assert_eq!(decoded.len(), 2);
        assert_eq!(
            (numbered(&decoded[0], 1), numbered(&decoded[0], 3)),
            (vec![text("a_seconds")], vec![Field::Number(4)])
        );
        let metric = inner(&numbered(&decoded[0], 4)[0]);
        let label = inner(&numbered(&metric, 1)[0]);
        assert_eq!(label, [(1, text("subject")), (2, text("os-interval"))]);
        let histogram = inner(&numbered(&metric, 7)[0]);
        assert_eq!(numbered(&histogram, 1), [Field::Number(306)]);
        let classic = numbered(&histogram, 3);
        assert_eq!(classic.len(), 20);
        assert_eq!(inner(&classic[1]), [(1, Field::Number(305)), (2, double(0.000_01))]);
        assert_eq!(inner(&classic[19]), [(1, Field::Number(306)), (2, double(f64::INFINITY))]);
        assert_eq!(
            [5, 6, 7].map(|n| numbered(&histogram, n).remove(0)),
            [Field::Number(14), double(ZERO_THRESHOLD), Field::Number(3)]
        );
        // A span is a signed gap and a length; the counts are signed differences.
        let early = inner(&numbered(&histogram, 9)[0]);
        assert_eq!(early[1], (2, Field::Number(1)));
        assert_eq!(numbered(&histogram, 10), [Field::Bytes(vec![4])]);
        assert_eq!(numbered(&histogram, 12).len(), 2);
        let mut deltas = Message::default();
        [300, -299].into_iter().for_each(|delta| deltas.write_varint(zigzag(delta)));
        assert_eq!(numbered(&histogram, 13), [Field::Bytes(deltas.0)]);
        assert_eq!(
            (numbered(&decoded[1], 1), numbered(&decoded[1], 3)),
            (vec![text("b_total")], vec![Field::Number(0)])
        );
        assert_eq!(
            inner(&numbered(&inner(&numbered(&decoded[1], 4)[0]), 3)[0]),
            [(1, double(1.5))]
        );
    }

    #[test]
    fn zigzag_alternates_signs() {
        assert_eq!(
            [0, -1, 1, -2, i64::MAX, i64::MIN].map(zigzag),
            [0, 1, 2, 3, u64::MAX - 1, u64::MAX]
        );
    }
}
