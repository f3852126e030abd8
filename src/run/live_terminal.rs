//! Draws the live view of a run on standard error, if that is a terminal.

use cli::terminal;
use cli::terminal::TerminalSize;
use cli::terminal::progress::Progress;

use crate::run::live_view::LiveState;

/// The live view of a run. Without a terminal it does nothing.
#[derive(Debug)]
pub struct LiveView {
    state: LiveState,
    progress: Progress,
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
        let progress = Progress::new(rounds, quiet || !enabled);
        let mut state = LiveState::default();
        if progress.is_drawn() {
            for (name, ticks, period_ns) in subjects {
                state.add(&name, ticks, period_ns);
            }
        }
        Self { state, progress }
    }

    /// Draws the view, with the answer so far, before the next round of a subject.
    pub fn start_round(&mut self, subject_index: usize, answer: Option<&str>) {
        if self.progress.is_drawn() {
            self.state.set_answer(answer);
            self.state.start(subject_index);
            let TerminalSize { columns, lines } = terminal::stderr_size();
            // The last column may wrap. The first line is the bar, and the last one the cursor's.
            let frame = self.state.frame(columns.saturating_sub(1), lines.saturating_sub(2));
            self.progress.show_below(&frame);
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
        if self.progress.is_drawn() {
            for (lateness_ns, skipped) in instances {
                self.state.record(subject_index, round, lateness_ns, skipped);
            }
            self.progress.step();
        }
    }

    /// Prints the line of a failure above the view.
    pub fn error(&self, message: &str) {
        self.progress.print_above(|| terminal::note(false, message));
    }

    pub fn finish(&self) {
        self.progress.finish();
    }
}
