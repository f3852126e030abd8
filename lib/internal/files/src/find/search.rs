//! The search: which period to look at next, and what the looks so far enclose. Pure.

use super::model::{Finding, Look};

/// Looks that a search takes at most: what the confidence of each is made for.
pub const MAX_LOOKS: usize = 10;
/// The first of them, spread over the whole range.
pub const COARSE: usize = 4;
/// Two periods nearer to each other than this are as good as one.
const RESOLUTION: f64 = 1.05;
/// Nearer than this to an open period, the same ticks leave it as open: more of them say more
/// there.
const BESIDE_OPEN: f64 = 1.3;
/// How many times as many ticks another look at a period takes: its intervals are half as wide.
const MORE: u64 = 4;
/// So often a period is looked at, at most: what is as near to its goal as that stays open.
const MAX_AT_ONE: usize = 3;

/// The periods from which a search chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeriodRange {
    /// The shortest one.
    pub shortest_ns: u64,
    /// The longest one.
    pub longest_ns: u64,
}

/// What to measure next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The period.
    pub period_ns: u64,
    /// How many times as many ticks as the first look at a period takes; 1 for that one.
    pub times: u64,
}

/// What the looks of one ticker enclose.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bracket {
    /// The longest period below `kept_ns` at which a goal was broken.
    pub broken_ns: Option<u64>,
    /// The shortest period at which all goals were kept.
    pub kept_ns: Option<u64>,
    /// Longer periods than that at which a goal was broken.
    pub broken_above_ns: Vec<u64>,
}

/// What the looks enclose, in any order.
#[must_use]
pub fn bracket(looks: &[Look]) -> Bracket {
    let at = |finding| {
        looks.iter().filter(move |look| look.finding == Some(finding)).map(|look| look.period_ns)
    };
    let kept_ns = at(Finding::Kept).min();
    let below = |ns: &u64| kept_ns.is_none_or(|kept| *ns < kept);
    let mut broken_above_ns: Vec<u64> = at(Finding::Broken).filter(|ns| !below(ns)).collect();
    broken_above_ns.sort_unstable();
    Bracket { broken_ns: at(Finding::Broken).filter(below).max(), kept_ns, broken_above_ns }
}

/// The periods that every search looks at, from the longest to the shortest.
#[must_use]
pub fn coarse_periods(range: PeriodRange) -> Vec<u64> {
    let PeriodRange { shortest_ns: from, longest_ns: to } = range;
    let step = (to as f64 / from as f64).powf(1.0 / (COARSE - 1) as f64);
    let mut all: Vec<u64> =
        (0..COARSE).map(|i| readable(to as f64 / step.powi(i as i32)).clamp(from, to)).collect();
    all.dedup();
    all
}

/// What to look at next; `None` where no further look would say more.
///
/// First the range, coarsely: what holds nowhere, or everywhere, shows there. Then between the
/// longest period found broken and the shortest found kept, in the middle of the widest gap:
/// periods at which the rounds left it open lie in between, and are narrowed in from both sides.
/// Those are looked at again at last, in more and fresh rounds: what made it open is not judged
/// twice.
#[must_use]
pub fn next_step(range: PeriodRange, looks: &[Look]) -> Option<Step> {
    if looks.len() >= MAX_LOOKS {
        return None;
    }
    let is_new = |ns: &u64| looks.iter().all(|look| look.period_ns != *ns);
    let found = bracket(looks);
    let new = coarse_periods(range)
        .into_iter()
        .find(is_new)
        .or_else(|| between(&found, looks).filter(is_new));
    new.map(|period_ns| Step { period_ns, times: 1 }).or_else(|| again(range, &found, looks))
}

/// The middle of the widest gap in the bracket.
fn between(found: &Bracket, looks: &[Look]) -> Option<u64> {
    let (low, high) = (found.broken_ns?, found.kept_ns?);
    let mut inside: Vec<u64> =
        looks.iter().map(|look| look.period_ns).filter(|ns| (low..=high).contains(ns)).collect();
    inside.sort_unstable();
    inside.dedup();
    let ratio = |gap: &&[u64]| gap[1] as f64 / gap[0] as f64;
    // Beside an open period only its sides to what is known narrow the bracket.
    let sides = [inside.get(..2)?, inside.get(inside.len() - 2..)?];
    let widest = sides.into_iter().max_by(|a, b| ratio(a).total_cmp(&ratio(b)))?;
    let middle = readable((widest[0] as f64 * widest[1] as f64).sqrt());
    let resolution = if inside.len() > 2 { BESIDE_OPEN } else { RESOLUTION };
    (ratio(&widest) > resolution && widest[0] < middle && middle < widest[1]).then_some(middle)
}

/// The open period that says most once it is decided: the longest where nothing is known to hold,
/// else the one in the middle of what is not known.
fn again(range: PeriodRange, found: &Bracket, looks: &[Look]) -> Option<Step> {
    let at = |ns: u64| looks.iter().filter(|look| look.period_ns == ns).count();
    let unknown = |ns: &u64| {
        found.broken_ns.is_none_or(|low| low < *ns) && found.kept_ns.is_none_or(|high| *ns < high)
    };
    let middle = found.kept_ns.map_or(f64::INFINITY, |high| {
        (found.broken_ns.unwrap_or(range.shortest_ns) as f64 * high as f64).sqrt()
    });
    let far =
        |ns: u64| if middle.is_finite() { (ns as f64 / middle).ln().abs() } else { -(ns as f64) };
    let open =
        looks.iter().filter(|look| look.finding == Some(Finding::Open)).map(|look| look.period_ns);
    let open = open.filter(|ns| unknown(ns) && at(*ns) < MAX_AT_ONE);
    let period_ns = open.min_by(|a, b| at(*a).cmp(&at(*b)).then(far(*a).total_cmp(&far(*b))))?;
    Some(Step { period_ns, times: MORE.pow(at(period_ns) as u32) })
}

/// Three digits are enough for a period.
fn readable(ns: f64) -> u64 {
    let step = 10_f64.powf((ns.log10().floor() - 2.0).max(0.0));
    ((ns / step).round() * step) as u64
}
