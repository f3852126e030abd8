//! The estimate of the difference that the progress of a gate shows while it measures.

use cli::terminal::progress::Progress;
use cli::words::prefix_or_empty;
use jitterstat::gate::Sides;
use jitterstat::stats::shift;

use crate::gate::text::format_change;

/// Number of pairs up to which every pair updates the estimate.
const MAX_EVERY_PAIR: usize = 100;
/// Number of pairs from one estimate to the next, for more pairs than that.
const PAIRS_PER_ESTIMATE: usize = 20;

/// Shows the estimate from the pairs so far, if progress is shown. `name` is that of the value.
pub fn show_estimate(
    progress: &Progress,
    name: &str,
    logarithms: impl Iterator<Item = Sides<f64>>,
) {
    if !progress.is_drawn() {
        return;
    }
    let differences: Vec<f64> = logarithms.map(|pair| pair.candidate - pair.base).collect();
    let pairs = differences.len();
    if pairs <= MAX_EVERY_PAIR || pairs.is_multiple_of(PAIRS_PER_ESTIMATE) {
        progress.set_result(&format_estimate(name, &differences).unwrap_or_default());
    }
}

/// Formats the change of B against A, with its 95 % interval if there are enough pairs.
fn format_estimate(name: &str, differences: &[f64]) -> Option<String> {
    let shift = shift::paired(differences)?.shift;
    let interval = shift.interval().map(|bounds| {
        let bounds = bounds.map(|bound| format_change(bound.exp()));
        format!("[{}, {}]", bounds.lower, bounds.upper)
    });
    let change = format_change(shift.estimate.exp());
    Some(format!("{name} of B {change}{}", prefix_or_empty(" ", interval)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimate_shows_change_and_interval() {
        let estimate = |differences: &[f64]| format_estimate("p50", differences);
        assert_eq!(estimate(&[]), None);
        assert_eq!(estimate(&[1.2_f64.ln(); 3]).as_deref(), Some("p50 of B +20.0 %"));
        let expected = "p50 of B -50.0 % [-50.0 %, -50.0 %]";
        assert_eq!(estimate(&[0.5_f64.ln(); 20]).as_deref(), Some(expected));
    }
}
