//! The search: which period to look at next, and what the looks so far enclose. Pure.

use super::model::{Finding, Look};

/// Looks that a search takes at most: what the confidence of each is made for.
pub const MOST_LOOKS: usize = 10;
/// The first of them, spread over the whole range.
pub const COARSE: usize = 4;
/// Two periods nearer to each other than this are as good as one.
const RESOLUTION: f64 = 1.05;

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
    let at = |finding| looks.iter().filter(move |look| look.finding == Some(finding)).map(|look| look.period_ns);
    let kept_ns = at(Finding::Kept).min();
    let below = |ns: &u64| kept_ns.is_none_or(|kept| *ns < kept);
    let mut broken_above_ns: Vec<u64> = at(Finding::Broken).filter(|ns| !below(ns)).collect();
    broken_above_ns.sort_unstable();
    Bracket { broken_ns: at(Finding::Broken).filter(below).max(), kept_ns, broken_above_ns }
}

/// The periods that every search looks at, from the longest to the shortest.
#[must_use]
pub fn coarse([from, to]: [u64; 2]) -> Vec<u64> {
    let step = (to as f64 / from as f64).powf(1.0 / (COARSE - 1) as f64);
    let mut all: Vec<u64> = (0..COARSE).map(|i| readable(to as f64 / step.powi(i as i32)).clamp(from, to)).collect();
    all.dedup();
    all
}

/// The period to look at next; `None` where no further look would say more.
///
/// First the range, coarsely: what holds nowhere, or everywhere, shows there. Then between the longest period found broken
/// and the shortest found kept, in the middle of the widest gap: periods at which the rounds left it open lie in between,
/// and are narrowed in from both sides.
#[must_use]
pub fn next(range: [u64; 2], looks: &[Look]) -> Option<u64> {
    if looks.len() >= MOST_LOOKS {
        return None;
    }
    let is_new = |ns: &u64| looks.iter().all(|look| look.period_ns != *ns);
    if let Some(coarse) = coarse(range).into_iter().find(is_new) {
        return Some(coarse);
    }
    let Bracket { broken_ns, kept_ns, .. } = bracket(looks);
    let (low, high) = (broken_ns?, kept_ns?);
    let mut inside: Vec<u64> = looks.iter().map(|look| look.period_ns).filter(|ns| (low..=high).contains(ns)).collect();
    inside.sort_unstable();
    let ratio = |gap: &&[u64]| gap[1] as f64 / gap[0] as f64;
    // Beside an open period only its sides to what is known narrow the bracket.
    let sides = [inside.get(..2)?, inside.get(inside.len() - 2..)?];
    let widest = sides.into_iter().max_by(|a, b| ratio(a).total_cmp(&ratio(b)))?;
    let middle = readable((widest[0] as f64 * widest[1] as f64).sqrt());
    (ratio(&widest) > RESOLUTION && is_new(&middle) && widest[0] < middle && middle < widest[1]).then_some(middle)
}

/// Three digits are enough for a period.
fn readable(ns: f64) -> u64 {
    let step = 10_f64.powf((ns.log10().floor() - 2.0).max(0.0));
    ((ns / step).round() * step) as u64
}
