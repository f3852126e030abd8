//! The order of a search: the next period to measure, and the bracket of the looks so far. Pure
//! functions.

use super::model::{Finding, Look};

/// Maximum number of looks of a search, for which the confidence of each look is chosen.
pub const MAX_LOOKS: usize = 10;
/// Number of initial looks, which are spread over the whole range.
pub const COARSE: usize = 4;
/// Ratio of two periods below which they are equivalent.
const RESOLUTION: f64 = 1.05;
/// Ratio to an open period below which another look at that period, with more ticks, is better than
/// a look at a new period.
const OPEN_RESOLUTION: f64 = 1.3;
/// Factor of ticks of another look at a period, which halves the width of intervals.
const TICKS_FACTOR: u64 = 4;
/// Maximum number of looks at one period. If it is still open, it is too close to the goal to
/// decide.
const MAX_LOOKS_PER_PERIOD: usize = 3;

/// The range of periods of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeriodRange {
    /// The shortest period.
    pub shortest_ns: u64,
    /// The longest period.
    pub longest_ns: u64,
}

/// The next measurement of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The period.
    pub period_ns: u64,
    /// Number of ticks as a multiple of those of the first look at a period.
    pub times: u64,
}

/// The periods that enclose the shortest one at which the goals hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bracket {
    /// The longest period below `kept_ns` at which a goal was broken.
    pub broken_ns: Option<u64>,
    /// The shortest period at which all goals were kept.
    pub kept_ns: Option<u64>,
    /// Periods above `kept_ns` at which a goal was broken.
    pub broken_above_ns: Vec<u64>,
}

/// Returns the bracket of looks in any order.
#[must_use]
pub fn bracket(looks: &[Look]) -> Bracket {
    let kept_ns = periods_with(looks, Finding::Kept).into_iter().min();
    let mut bracket = Bracket { kept_ns, ..Bracket::default() };
    for period_ns in periods_with(looks, Finding::Broken) {
        if kept_ns.is_none_or(|kept_ns| period_ns < kept_ns) {
            bracket.broken_ns = bracket.broken_ns.max(Some(period_ns));
        } else {
            bracket.broken_above_ns.push(period_ns);
        }
    }
    bracket.broken_above_ns.sort_unstable();
    bracket
}

/// Returns the periods of all looks with a finding.
fn periods_with(looks: &[Look], finding: Finding) -> Vec<u64> {
    let found = looks.iter().filter(|look| look.finding == Some(finding));
    found.map(|look| look.period_ns).collect()
}

/// Returns the periods of the initial looks, from the longest to the shortest.
#[must_use]
pub fn coarse_periods(range: PeriodRange) -> Vec<u64> {
    let PeriodRange { shortest_ns: from, longest_ns: to } = range;
    let step = (to as f64 / from as f64).powf(1.0 / (COARSE - 1) as f64);
    let period = |i: usize| round_period(to as f64 / step.powi(i as i32)).clamp(from, to);
    let mut periods: Vec<u64> = (0..COARSE).map(period).collect();
    periods.dedup();
    periods
}

/// Returns the next measurement; `None` if another look would add no information.
///
/// The first looks are spread over the range, which shows goals that hold everywhere or nowhere.
/// Next is the middle of the widest gap between the longest broken and the shortest kept period.
/// Open periods in between are narrowed in from both sides. Finally, open periods are measured
/// again, in more and new rounds, so that no round is judged twice.
#[must_use]
pub fn next_step(range: PeriodRange, looks: &[Look]) -> Option<Step> {
    if looks.len() >= MAX_LOOKS {
        return None;
    }
    let found = bracket(looks);
    let candidates = coarse_periods(range).into_iter().chain(bisect(&found, looks));
    for period_ns in candidates {
        if looks.iter().all(|look| look.period_ns != period_ns) {
            return Some(Step { period_ns, times: 1 });
        }
    }
    repeat(range, &found, looks)
}

/// Returns the middle of the widest gap in the bracket.
fn bisect(found: &Bracket, looks: &[Look]) -> Option<u64> {
    let (low, high) = (found.broken_ns?, found.kept_ns?);
    let periods = looks.iter().map(|look| look.period_ns);
    let mut inside: Vec<u64> = periods.filter(|ns| (low..=high).contains(ns)).collect();
    inside.sort_unstable();
    inside.dedup();
    // If there are open periods, only the gaps at both ends narrow the bracket.
    let [first, last] = [inside.get(..2)?, inside.get(inside.len() - 2..)?];
    let widest = if ratio(first) > ratio(last) { first } else { last };
    let middle = round_period((widest[0] as f64 * widest[1] as f64).sqrt());
    let resolution = if inside.len() > 2 { OPEN_RESOLUTION } else { RESOLUTION };
    let is_wide = ratio(widest) > resolution && widest[0] < middle && middle < widest[1];
    if is_wide { Some(middle) } else { None }
}

/// Returns the ratio of the ends of a gap.
fn ratio(gap: &[u64]) -> f64 {
    gap[1] as f64 / gap[0] as f64
}

/// Returns another look at the open period that would add most information: the longest one if the
/// goals are not known to hold anywhere, otherwise the one closest to the middle of the unknown
/// range.
fn repeat(range: PeriodRange, found: &Bracket, looks: &[Look]) -> Option<Step> {
    let mut open = periods_with(looks, Finding::Open);
    open.retain(|&ns| found.is_unknown(ns) && look_count(looks, ns) < MAX_LOOKS_PER_PERIOD);
    let middle = found.middle_ns(range);
    open.sort_by(|&a, &b| distance(a, middle).total_cmp(&distance(b, middle)));
    let period_ns = open.into_iter().min_by_key(|&ns| look_count(looks, ns))?;
    Some(Step { period_ns, times: TICKS_FACTOR.pow(look_count(looks, period_ns) as u32) })
}

impl Bracket {
    /// Returns whether the goals are not known to hold or to be broken at a period.
    fn is_unknown(&self, period_ns: u64) -> bool {
        self.broken_ns.is_none_or(|low| low < period_ns)
            && self.kept_ns.is_none_or(|high| period_ns < high)
    }

    /// Returns the middle of the unknown range; `None` if the goals are not known to hold anywhere.
    fn middle_ns(&self, range: PeriodRange) -> Option<f64> {
        let low = self.broken_ns.unwrap_or(range.shortest_ns);
        Some((low as f64 * self.kept_ns? as f64).sqrt())
    }
}

/// Returns the number of looks at a period.
fn look_count(looks: &[Look], period_ns: u64) -> usize {
    looks.iter().filter(|look| look.period_ns == period_ns).count()
}

/// Returns the distance of a period from the middle; without one, longer periods are closer.
fn distance(period_ns: u64, middle_ns: Option<f64>) -> f64 {
    match middle_ns {
        Some(middle_ns) => (period_ns as f64 / middle_ns).ln().abs(),
        None => -(period_ns as f64),
    }
}

/// Rounds a period to three digits.
fn round_period(ns: f64) -> u64 {
    let step = 10_f64.powf((ns.log10().floor() - 2.0).max(0.0));
    ((ns / step).round() * step) as u64
}
