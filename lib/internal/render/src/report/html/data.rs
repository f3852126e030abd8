//! Encodes the data of the page compactly: two characters per tick, and the exact value of every
//! tick of the tail.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use files::report::{Report, Round, Subject};
use files::subjects::is_control;
use serde_json::{Value, json};

use crate::picture::nines;
use crate::picture::palette::{Dash, Sign};
use crate::report::cost::{core_percent, per_tick_ci95};
use crate::report::label::concurrent_cpus;
use crate::report::ranking::Ranking;
use crate::report::stalls;
use crate::report::trust::Trust;
use files::quantity;
use files::samples::Lateness;

/// Significant bits of a value in a code. The error is at most 0.4 %, less than a pixel of any
/// picture.
const CODE_BITS: u32 = 8;
/// The largest code of 12 bits, which are two characters of base64. Ticks that are later, by
/// minutes, are in the tail, which is exact.
const MAX_CODE: u16 = 0xfff;
/// The exact tail is the largest 1/`TAIL` of the ticks.
const TAIL: u64 = 100;

/// Encodes the measured subjects of a report as JSON for the script of the page.
pub fn json(ranking: &Ranking<'_>, names: &[String], signs: &[Sign]) -> String {
    let (report, shown) = (ranking.report(), ranking.shown());
    let trust = Trust::from_report(report);
    let mut subjects = Vec::new();
    let cpus = concurrent_cpus(report);
    let numbered = report.subjects.iter().enumerate();
    for ((((index, subject), name), sign), cpu) in numbered.zip(names).zip(signs).zip(cpus) {
        let Some(summary) = &subject.summary else { continue };
        let lateness = &summary.lateness_ns;
        let mut packed = encode_subject(*sign, subject, name);
        packed["distrusted_from"] = trust.first_distrusted_value(lateness).into();
        packed["late_at"] = lateness.percentile(shown).into();
        packed["late_ci"] = json!(lateness.ci95.get(shown));
        packed["on_cpu"] = cpu.into();
        let point = ranking.points().iter().find(|point| point.subject == index);
        packed["group"] = point.and_then(|point| point.group).into();
        packed["front"] = point.is_some_and(|point| point.front).into();
        subjects.push(packed);
    }
    json!({
        "what": quantity::name(report), "percentile": shown, "ranked": ranking.percentile().is_some(),
        "distrusted": trust.first_distrusted_position(), "subjects": subjects,
        "stalls": encode_stalls(report),
    })
    .to_string()
}

fn encode_subject(sign: Sign, subject: &Subject, name: &str) -> Value {
    let values = Lateness::from_subject(subject);
    let curve = nines::curve_by_rank(values.count(), values.known(), |rank| values.at_rank(rank));
    let summary = subject.summary.as_ref();
    let several = subject.instances > 1;
    let rounds: Vec<Value> = subject.rounds.iter().map(|r| encode_round(r, several)).collect();
    let ticks = EncodedTicks::new(subject, &values);
    let (r, g, b) = sign.colour;
    json!({
        "id": subject.id, "name": name, "control": is_control(&subject.name), "period": subject.period_ns,
        "colour": format!("#{r:02x}{g:02x}{b:02x}"), "dash": encode_dash(sign.dash), "shape": sign.shape as u8,
        "core": core_percent(subject), "cpu": summary.and_then(|s| s.cpu_ns_per_tick),
        "cpu_ci": per_tick_ci95(subject),
        "curve": thin_curve(&curve),
        "above": encode_above(subject, &values),
        "bins": count_bins(&values),
        "split": split_curves(subject),
        "observer": stalls::is_observer(subject), "stalled": stalled_rounds(subject),
        "codes": BASE64.encode(pack_codes(&ticks.codes)), "exact": ticks.exact, "rounds": rounds,
    })
}

/// Encodes the stalls that the spinning controls observed as start, end and CPU.
fn encode_stalls(report: &Report) -> Vec<(u64, u64, Option<u64>)> {
    let stalls = stalls::stalls(report);
    stalls.into_iter().map(|stall| (stall.start_ns, stall.end_ns, stall.cpu)).collect()
}

/// Returns the positions of the rounds with stalls that the kernel counted.
fn stalled_rounds(subject: &Subject) -> Vec<usize> {
    let rounds = subject.rounds.iter().enumerate();
    rounds.filter(|(_, round)| stalls::has_counted_stall(round)).map(|(n, _)| n).collect()
}

fn encode_dash(dash: Dash) -> String {
    match dash {
        Dash::Solid => String::new(),
        Dash::Dashed { on, off } => format!("{on} {off}"),
    }
}

/// The ticks of a subject.
struct EncodedTicks {
    /// The code of each tick.
    codes: Vec<u16>,
    /// The ticks of the tail and early ticks: for each the distance from the one before it, and its
    /// value.
    exact: Vec<i64>,
}

impl EncodedTicks {
    fn new(subject: &Subject, values: &Lateness) -> Self {
        let above = values.at_rank(values.count() - values.count() / TAIL).unwrap_or(i64::MAX);
        let (mut codes, mut exact, mut last) = (Vec::new(), Vec::new(), 0);
        for (n, &late) in subject.rounds.iter().flat_map(|r| &r.lateness_ns).enumerate() {
            codes.push(encode_value(late));
            if late >= above || late < 0 {
                exact.extend([(n - last) as i64, late]);
                last = n;
            }
        }
        Self { codes, exact }
    }
}

/// Encodes the values above the last bin of the source: their number, the largest, and the end of
/// their range on the axis of percentiles.
fn encode_above(subject: &Subject, values: &Lateness) -> Option<Value> {
    if values.above() == 0 {
        return None;
    }
    let largest = subject.summary.as_ref().map(|s| s.lateness_ns.max);
    let end = nines::last_position(values.count());
    Some(json!({ "n": values.above(), "max": largest, "end": end }))
}

/// Encodes a round as an array in the column order of the script. There are thousands of rounds,
/// and keys would be larger than the values.
fn encode_round(round: &Round, several: bool) -> Value {
    let lateness = round.summary.as_ref().map(|s| &s.lateness_ns);
    let (p50, max) = (lateness.and_then(|d| d.p50), lateness.map(|d| d.max));
    let instance = several.then_some(round.instance);
    let ticks = round.tick.is_some().then(|| BASE64.encode(pack_indices(round)));
    let (index, start, first) = (round.index, round.start_ns, round.first_tick);
    let count = round.lateness_ns.len();
    if ticks.is_none() && !several {
        return json!([index, start, first, count, p50, max]);
    }
    json!([index, start, first, count, p50, max, instance, ticks])
}

/// Encodes the tick indices of a round as differences. A half byte has three bits of a difference,
/// the lowest first, and a bit that is set if more bits follow. Even if ticks are skipped, most
/// differences are below eight.
fn pack_indices(round: &Round) -> Vec<u8> {
    let mut halves = Vec::with_capacity(round.lateness_ns.len());
    let mut last = 0;
    for i in 0..round.lateness_ns.len() {
        let tick = round.tick_index(i);
        let mut step = tick.saturating_sub(last);
        last = tick;
        while step > 7 {
            halves.push((step & 7) as u8 | 8);
            step >>= 3;
        }
        halves.push(step as u8);
    }
    halves.chunks(2).map(|pair| pair[0] | pair.get(1).unwrap_or(&0) << 4).collect()
}

/// Encodes a value as exponent and leading bits: exactly below 256, with an error of at most 1/256
/// above.
fn encode_value(late: i64) -> u16 {
    let value = u64::try_from(late).unwrap_or(0);
    let shift = (u64::BITS - value.leading_zeros()).saturating_sub(CODE_BITS);
    (((shift << (CODE_BITS - 1)) + (value >> shift) as u32) as u16).min(MAX_CODE)
}

/// Packs two codes into three bytes, the first into the lower bits.
fn pack_codes(codes: &[u16]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for pair in codes.chunks(2) {
        let both = u32::from(pair[0]) | u32::from(*pair.get(1).unwrap_or(&0)) << 12;
        bytes.extend(&both.to_le_bytes()[..3]);
    }
    bytes
}

/// Bins per decade.
const BINS_PER_DECADE: f64 = 16.0;

/// Counts the values in each bin, by the index of the bin from 1 ns on.
fn count_bins(values: &Lateness) -> Vec<(i32, u64)> {
    let mut bins = BTreeMap::new();
    for (value, count) in values.counts() {
        let bin = (value.max(1) as f64).log10() * BINS_PER_DECADE;
        *bins.entry(bin.floor() as i32).or_insert(0) += count;
    }
    bins.into_iter().collect()
}

/// Removes the inner points of level parts of a curve, and rounds positions to a precision finer
/// than any screen.
fn thin_curve(curve: &[(f64, i64)]) -> Vec<(f64, i64)> {
    let mut thinned = Vec::new();
    for (i, &(x, value)) in curve.iter().enumerate() {
        if !is_inside_level(curve, i) {
            thinned.push(((x * 1e4).round() / 1e4, value));
        }
    }
    thinned
}

/// Returns whether both neighbours of a point have the same value.
fn is_inside_level(curve: &[(f64, i64)], i: usize) -> bool {
    i > 0 && i + 1 < curve.len() && curve[i - 1].1 == curve[i].1 && curve[i + 1].1 == curve[i].1
}

/// Returns the quantile curves before and after the runtime woke up, if that was observed.
fn split_curves(subject: &Subject) -> Value {
    let (mut until, mut after) = (Vec::new(), Vec::new());
    for round in &subject.rounds {
        for (late, u) in round.lateness_ns.iter().zip(round.until_unpark_ns.iter().flatten()) {
            if let Some(u) = u {
                until.push(*u);
                after.push(late.saturating_sub(*u));
            }
        }
    }
    if until.is_empty() {
        return Value::Null;
    }
    until.sort_unstable();
    after.sort_unstable();
    json!({ "until": thin_curve(&nines::curve(&until)), "after": thin_curve(&nines::curve(&after)) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Decodes a code like the script of the page.
    fn decode(code: u16) -> f64 {
        let code = u32::from(code);
        if code < 256 {
            return f64::from(code);
        }
        let shift = (code >> 7) - 1;
        (f64::from(code - (shift << 7)) + 0.5) * 2_f64.powi(shift as i32)
    }

    #[test]
    fn level_parts_keep_their_ends() {
        let curve = [(0.0, 1), (0.1, 1), (0.2, 1), (0.300_01, 2), (0.4, 2)];
        assert_eq!(thin_curve(&curve), [(0.0, 1), (0.2, 1), (0.3, 2), (0.4, 2)]);
    }

    #[test]
    fn codes_are_accurate_to_four_thousandths() {
        for value in [0, 1, 255, 256, 511, 512, 4_095, 4_096, 1_234_567, 200_000_000_000] {
            let error = (decode(encode_value(value)) - value as f64).abs();
            assert!(error <= value as f64 / 250.0, "{value}: {error}");
        }
        assert_eq!([encode_value(-7), encode_value(i64::MAX)], [0, MAX_CODE]);
        assert!(decode(MAX_CODE) > 270e9, "minutes");
    }

    #[test]
    fn packed_indices_decode() {
        let ticks = [0, 1, 9, 10, 4_105, 4_112];
        let round = Round {
            lateness_ns: vec![5; ticks.len()],
            tick: Some(ticks.to_vec()),
            ..Round::default()
        };
        let bytes = pack_indices(&round);
        let mut halves = bytes.iter().flat_map(|byte| [byte & 15, byte >> 4]);
        let mut at = 0;
        let next = |_| {
            for digit in 0.. {
                let half = halves.next().unwrap();
                at += u64::from(half & 7) << (3 * digit);
                if half & 8 == 0 {
                    break;
                }
            }
            at
        };
        assert_eq!(ticks.map(next), ticks);
        assert_eq!(bytes.len(), 5, "four steps are a half each, one is two, one is four");
    }

    #[test]
    fn packed_codes_decode() {
        let codes = [0x123, 0xabc, MAX_CODE];
        let bytes = pack_codes(&codes);
        assert_eq!(bytes.len(), 6);
        let unpacked = |i: usize| {
            let [a, b, c] = [0, 1, 2].map(|k| u16::from(bytes[i / 2 * 3 + k]));
            if i.is_multiple_of(2) { a | (b & 15) << 8 } else { b >> 4 | c << 4 }
        };
        assert_eq!([0, 1, 2].map(unpacked), codes);
    }
}
