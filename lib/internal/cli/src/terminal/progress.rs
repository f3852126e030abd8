//! The progress of a measurement: a bar and a status on standard error, if that is a terminal.
//!
//! There is no thread and no timer, so that a running round is undisturbed: a frame is drawn with
//! one write when a round starts or ends.

use std::cell::RefCell;
use std::io::{self, Write as _};
use std::time::Duration;

use crate::printable::to_printable;
use crate::time::format_duration;

use crate::terminal::TerminalSize;
use crate::terminal::escape_codes::{ERASE_BELOW, MOVE_TO_FIRST_COLUMN, move_up};

/// The width of the bar in columns.
const BAR_COLUMNS: u64 = 30;
/// Minimum time from one frame to the next, after a burst.
const DRAW_INTERVAL: Duration = Duration::from_millis(50);
/// The number of frames that may be drawn without a pause.
const MAX_BURST: u32 = 20;

/// The progress of a number of rounds. Without a terminal it does nothing.
#[derive(Debug)]
pub struct Progress {
    screen: Option<RefCell<Screen>>,
}

impl Progress {
    pub fn new(rounds: u64, quiet: bool) -> Self {
        let is_drawn = !quiet && crate::terminal::can_draw();
        Self { screen: is_drawn.then(|| RefCell::new(Screen::new(rounds))) }
    }

    /// Whether frames are drawn.
    pub fn is_drawn(&self) -> bool {
        self.screen.is_some()
    }

    /// Shows which round of a subject runs next.
    pub fn show(&self, id: &str, index: u64) {
        self.update(|screen| {
            screen.status = format!("  {}{id}, round {}", screen.result, index + 1)
        });
    }

    /// Sets the result so far, which is shown in front of the next round.
    pub fn set_result(&self, result: &str) {
        if let Some(screen) = &self.screen {
            screen.borrow_mut().result = format!("{result}  ");
        }
    }

    /// Shows lines below the bar.
    pub fn show_below(&self, lines: &str) {
        self.update(|screen| screen.status = format!("\n{lines}"));
    }

    /// Counts a round that ended.
    pub fn step(&self) {
        self.update(|screen| screen.finished += 1);
    }

    /// Prints above the bar.
    pub fn print_above(&self, print: impl FnOnce()) {
        self.erase();
        print();
        self.update(|_| ());
    }

    /// Removes the bar.
    pub fn finish(&self) {
        self.erase();
    }

    /// Changes the frame and draws it.
    fn update(&self, change: impl FnOnce(&mut Screen)) {
        if let Some(screen) = &self.screen {
            let mut screen = screen.borrow_mut();
            change(&mut screen);
            screen.draw();
        }
    }

    fn erase(&self) {
        if let Some(screen) = &self.screen {
            screen.borrow_mut().erase();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.erase();
    }
}

#[derive(Debug)]
struct Screen {
    rounds: u64,
    finished: u64,
    status: String,
    /// Result so far, with the spaces after it; empty if there is none.
    result: String,
    start: tach::Instant,
    rate: RateLimit,
    /// The number of lines that are shown.
    lines: usize,
}

impl Screen {
    fn new(rounds: u64) -> Self {
        let start = tach::Instant::now();
        let rate = RateLimit { last: start, burst: MAX_BURST };
        let (status, result) = (String::new(), String::new());
        Self { rounds, finished: 0, status, result, start, rate, lines: 0 }
    }

    fn draw(&mut self) {
        if !self.rate.allows(tach::Instant::now()) {
            return;
        }
        let bar = format_bar(self.finished, self.rounds, self.start.elapsed());
        let TerminalSize { columns, lines } = crate::terminal::stderr_size();
        // A line in the last column may wrap, and the last line is the cursor's. A status can contain
        // the name of a user's program.
        let frame: Vec<String> = to_printable(&(bar + &self.status))
            .lines()
            .take(lines.saturating_sub(1))
            .map(|line| line.chars().take(columns.saturating_sub(1)).collect())
            .collect();
        self.write(&frame);
    }

    fn erase(&mut self) {
        self.write(&[]);
    }

    /// Replaces the shown lines in one write.
    fn write(&mut self, frame: &[String]) {
        let text = format_frame(self.lines, frame);
        // Progress that cannot be written is dropped; the measurement continues.
        let _ = io::stderr().write_all(text.as_bytes());
        self.lines = frame.len();
    }
}

/// Returns the text that removes the lines of the previous frame and shows a new one.
fn format_frame(previous_lines: usize, frame: &[String]) -> String {
    let mut text = String::new();
    if previous_lines > 0 {
        text += &format!("{}{MOVE_TO_FIRST_COLUMN}{ERASE_BELOW}", move_up(previous_lines));
    }
    for line in frame {
        text += line;
        text.push('\n');
    }
    text
}

/// Formats the bar, the share of rounds that ended, and the time that the others take if they take
/// as long.
fn format_bar(finished: u64, rounds: u64, elapsed: Duration) -> String {
    let finished = finished.min(rounds);
    let filled = finished * BAR_COLUMNS / rounds.max(1);
    let full = "█".repeat(filled as usize);
    let empty = "░".repeat((BAR_COLUMNS - filled) as usize);
    let percent = finished * 100 / rounds.max(1);
    let remaining = elapsed.as_secs_f64() / finished as f64 * (rounds - finished) as f64;
    let remaining = match finished {
        0 => "-".to_owned(),
        _ => format_duration(remaining.ceil()),
    };
    format!("{full}{empty} {percent:>3}%  {remaining} left")
}

/// Limits how often something happens, after a burst.
#[derive(Debug)]
struct RateLimit {
    last: tach::Instant,
    burst: u32,
}

impl RateLimit {
    fn allows(&mut self, now: tach::Instant) -> bool {
        let intervals = now.duration_since(self.last).as_nanos() / DRAW_INTERVAL.as_nanos();
        if intervals > 0 {
            let intervals = u32::try_from(intervals).unwrap_or(MAX_BURST);
            self.burst = self.burst.saturating_add(intervals).min(MAX_BURST);
            self.last = now;
        }
        let allowed = self.burst > 0;
        self.burst = self.burst.saturating_sub(1);
        allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bar_shows_share_and_time() {
        let second = Duration::from_secs(1);
        let half = format!("{}{}", "█".repeat(15), "░".repeat(15));
        assert_eq!(format_bar(2, 4, second), format!("{half}  50%  1s left"));
        assert_eq!(format_bar(0, 4, second), format!("{}   0%  - left", "░".repeat(30)));
        assert_eq!(format_bar(9, 4, second), format!("{} 100%  0s left", "█".repeat(30)));
        assert!(format_bar(0, 0, second).ends_with("  0%  - left"));
    }

    #[test]
    fn rate_is_limited_after_burst() {
        let start = tach::Instant::now();
        let mut rate = RateLimit { last: start, burst: MAX_BURST };
        let allowed = |rate: &mut RateLimit, now| (0..100).filter(|_| rate.allows(now)).count();
        assert_eq!(allowed(&mut rate, start), 20);
        assert_eq!(allowed(&mut rate, start + DRAW_INTERVAL), 1);
        assert_eq!(allowed(&mut rate, start + DRAW_INTERVAL * 4), 3);
        assert_eq!(allowed(&mut rate, start + Duration::from_secs(3600)), 20);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn frame_replaces_previous_lines() {
        let mut terminal = vt100::Parser::new(5, 20, 0);
        let frames: [&[String]; 3] = [&["one".into(), "two".into()], &["three".into()], &[]];
        let shown = frames.map(|frame| {
            let lines = terminal.screen().cursor_position().0;
            let text = format_frame(lines.into(), frame);
            terminal.process(text.replace('\n', "\r\n").as_bytes());
            terminal.screen().contents()
        });
        assert_eq!(shown, ["one\ntwo", "three", ""]);
    }
}
