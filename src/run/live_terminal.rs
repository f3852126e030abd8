//! The live view of a run: drawn on standard error, between rounds and nowhere else, and only on a
//! terminal.
//!
//! Nothing here has a thread or a timer: a round that runs is alone. Each drawing is one write
//! before the next round begins, at most twenty a second.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::run::live_view::Live;
use crate::terminal::{note, on_terminal};

/// Of a terminal that does not report its size.
const DEFAULT_SIZE: (usize, usize) = (80, 24);

/// A run's live view; without a terminal it does nothing.
#[derive(Debug)]
pub struct LiveView {
    state: Live,
    bar: ProgressBar,
    drawn: bool,
    quiet: bool,
}

impl LiveView {
    /// A view of `rounds` rounds of these subjects, each with its name, ticks and period; nothing
    /// is drawn unless `drawn` is set and there is a terminal.
    pub fn new(
        subjects: impl Iterator<Item = (String, u64, u64)>,
        rounds: u64,
        quiet: bool,
        drawn: bool,
    ) -> Self {
        let drawn = drawn && !quiet && on_terminal();
        let mut state = Live::default();
        if drawn {
            subjects.for_each(|(name, ticks, period_ns)| state.add(&name, ticks, period_ns));
        }
        let target =
            if drawn { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let style = ProgressStyle::with_template("{bar:30} {percent:>3}%  {eta} left\n{msg}")
            .expect("a fixed template");
        let bar = ProgressBar::with_draw_target(Some(rounds), target).with_style(style);
        Self { state, bar, drawn, quiet }
    }

    /// A round of a subject runs next: what there is to show is drawn now.
    pub fn before(&mut self, place: usize) {
        if self.drawn {
            self.state.start(place);
            let (columns, lines) = terminal_size::terminal_size_of(std::io::stderr())
                .map_or(DEFAULT_SIZE, |(width, height)| {
                    (usize::from(width.0), usize::from(height.0))
                });
            // The last column may wrap, the first line is the bar's, and the last one the cursor's.
            self.bar
                .set_message(self.state.frame(columns.saturating_sub(1), lines.saturating_sub(2)));
        }
    }

    /// A round of a subject is over; what each of its instances did.
    pub fn after<'a>(
        &mut self,
        place: usize,
        round: u64,
        instances: impl Iterator<Item = (&'a [i64], u64)>,
    ) {
        if self.drawn {
            for (lateness_ns, skipped) in instances {
                self.state.take(place, round, lateness_ns, skipped);
            }
            self.bar.inc(1);
        }
    }

    /// Prints a line above the view.
    pub fn say(&self, message: &str) {
        self.bar.suspend(|| note(self.quiet, message));
    }

    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
