//! Pairs that are left out of a measurement.

use cli::words::pluralize;
use engine::measure::excluded_rounds::SETTINGS_CHANGED;
use files::report::{Change, Warning};

/// Number of left-out pairs of a kind that are tolerated, in addition to a tenth of the others.
///
/// A stall of the machine can swallow a whole round of a ticker that skips missed ticks, and a
/// daemon can change a setting once. More than this many are no accident.
const MAX_LEFT_OUT: u64 = 5;

/// The pairs that are left out, whichever side caused it: this favours neither.
#[derive(Default)]
pub struct LeftOutPairs {
    /// Pairs in which a side delivered no tick.
    empty: u64,
    /// Pairs during which a setting was changed from outside.
    changed: u64,
    first_change: Option<Change>,
}

impl LeftOutPairs {
    /// Leaves out a pair without a tick on a side. `pairs` is the number of pairs that are kept.
    /// Returns whether too many are left out.
    pub fn add_empty(&mut self, pairs: usize) -> bool {
        self.empty += 1;
        is_too_many(self.empty, pairs)
    }

    /// Leaves out a pair during which a setting was changed. Otherwise like [`Self::add_empty`].
    pub fn add_changed(&mut self, change: Change, pairs: usize) -> bool {
        self.changed += 1;
        self.first_change.get_or_insert(change);
        is_too_many(self.changed, pairs)
    }

    /// Returns a warning for each kind of left-out pairs. `noun` names the parts of a pair.
    pub fn warnings(&self, noun: &str) -> Vec<Warning> {
        let mut warnings = Vec::new();
        if self.empty > 0 {
            let count = pluralize(self.empty, "pair");
            warnings.push(Warning::new(
                "no-tick",
                format!("{count} of {noun} left out: a side delivered no tick."),
                "The machine stalled for a whole round: use a quieter one, or longer rounds.",
            ));
        }
        if let Some(Change { what, from, to }) = &self.first_change {
            let count = pluralize(self.changed, "pair");
            warnings.push(Warning::new(
                SETTINGS_CHANGED,
                format!(
                    "{count} of {noun} left out: the {what} was changed from {from} to {to}, from outside."
                ),
                "Keep other programs from changing settings while osjitter measures.",
            ));
        }
        warnings
    }
}

fn is_too_many(left_out: u64, pairs: usize) -> bool {
    left_out > MAX_LEFT_OUT + pairs as u64 / 10
}
