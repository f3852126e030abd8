//! Draws the live view of a run on standard error, if that is a terminal.
//!
//! The view has no thread and no timer, so that a running round is undisturbed. It is drawn with
//! one write before each round, at most twenty times a second.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::run::live_view::LiveState;
use crate::terminal::{note, on_terminal};

/// The size of a terminal that does not report it, in columns and lines.
const DEFAULT_SIZE: (usize, usize) = (80, 24);

/// The live view of a run. Without a terminal it does nothing.
#[derive(Debug)]
pub struct LiveView {
    state: LiveState,
    bar: ProgressBar,
    is_drawn: bool,
    quiet: bool,
}

impl LiveView {
    /// Creates a view of `rounds` rounds of these subjects, each given by its name, ticks and
    /// period.
    ///
    /// Nothing is drawn if `quiet` is set, if `enabled` is not, or without a terminal.
    pub fn new(
        subjects: impl Iterator<Item = (String, u64, u64)>,
        rounds: u64,
        quiet: bool,
        enabled: bool,
    ) -> Self {
        let is_drawn = enabled && !quiet && on_terminal();
        let mut state = LiveState::default();
        if is_drawn {
            subjects.for_each(|(name, ticks, period_ns)| state.add(&name, ticks, period_ns));
        }
        let target =
            if is_drawn { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let style = ProgressStyle::with_template("{bar:30} {percent:>3}%  {eta} left\n{msg}")
            .expect("a fixed template");
        let bar = ProgressBar::with_draw_target(Some(rounds), target).with_style(style);
        Self { state, bar, is_drawn, quiet }
    }

    /// Draws the view before the next round of a subject.
    pub fn start_round(&mut self, subject_index: usize) {
        if self.is_drawn {
            self.state.start(subject_index);
            let (columns, lines) = terminal_size();
            // The last column may wrap. The first line is the bar, and the last one the cursor's.
            let frame = self.state.frame(columns.saturating_sub(1), lines.saturating_sub(2));
            self.bar.set_message(frame);
        }
    }

    /// Adds a round of a subject: the lateness of each instance's ticks, and the number of its
    /// skipped ticks.
    pub fn finish_round<'a>(
        &mut self,
        subject_index: usize,
        round: u64,
        instances: impl Iterator<Item = (&'a [i64], u64)>,
    ) {
        if self.is_drawn {
            for (lateness_ns, skipped) in instances {
                self.state.record(subject_index, round, lateness_ns, skipped);
            }
            self.bar.inc(1);
        }
    }

    /// Prints a line above the view.
    pub fn note(&self, message: &str) {
        self.bar.suspend(|| note(self.quiet, message));
    }

    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

fn terminal_size() -> (usize, usize) {
    match terminal_size::terminal_size_of(std::io::stderr()) {
        Some((width, height)) => (usize::from(width.0), usize::from(height.0)),
        None => DEFAULT_SIZE,
    }
}
