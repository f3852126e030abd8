//! The contents of the live view of a run: a line for each subject, and the worst ticks so far.
//!
//! This module does no I/O; `live_terminal` draws the frames.

use std::ops::Range;

use cli::time::{format_share, format_time};
use cli::words::or_dash;
use hdrhistogram::Histogram;
use jitterstat::stats::quantile;
use render::document::align::align;

/// The columns that are dropped, in this order, until the table fits a narrow terminal.
const OPTIONAL_COLUMNS: [&str; 4] = ["ticks", "p50", "max", "missed"];
/// The number of lines that report the worst ticks of a run.
const MAX_NOTABLE_LINES: usize = 3;

/// The number of lines from which the answer is shown.
const MIN_LINES_WITH_ANSWER: usize = 8;

/// A subject so far.
#[derive(Clone, Debug)]
struct Row {
    name: String,
    planned_ticks: u64,
    period_ns: u64,
    missed: u64,
    skipped: u64,
    max_ns: Option<i64>,
    histogram: Histogram<u64>,
}

/// All subjects of a run so far.
#[derive(Clone, Debug, Default)]
pub struct LiveState {
    rows: Vec<Row>,
    current: Option<usize>,
    notable: Vec<String>,
    answer: Option<String>,
}

impl LiveState {
    /// Adds a subject with the number of its planned ticks.
    pub fn add(&mut self, name: &str, planned_ticks: u64, period_ns: u64) {
        self.rows.push(Row {
            name: name.to_owned(),
            planned_ticks,
            period_ns,
            missed: 0,
            skipped: 0,
            max_ns: None,
            histogram: files::histogram::empty(),
        });
    }

    /// Sets the answer so far, which is above the table if there are enough lines.
    pub fn set_answer(&mut self, answer: Option<&str>) {
        self.answer = answer.map(str::to_owned);
    }

    /// Marks the subject that runs next.
    pub fn start(&mut self, index: usize) {
        self.current = Some(index);
    }

    /// Records a round of a subject, counted from 0. `skipped` ticks of it never came.
    pub fn record(&mut self, index: usize, round: u64, lateness_ns: &[i64], skipped: u64) {
        let Some(row) = self.rows.get_mut(index) else { return };
        let period = i64::try_from(row.period_ns).unwrap_or(i64::MAX);
        row.skipped += skipped;
        row.missed += skipped + lateness_ns.iter().filter(|&&late| late >= period).count() as u64;
        for &late in lateness_ns {
            row.histogram
                .record(u64::try_from(late).unwrap_or(0))
                .expect("an auto-resizing histogram takes any i64");
        }
        let Some(&worst) = lateness_ns.iter().max() else { return };
        let previous = row.max_ns;
        row.max_ns = Some(worst.max(previous.unwrap_or(worst)));
        // The worst tick of a first round is not reported.
        if previous.is_some_and(|max| worst > max) {
            let (late, round) = (format_time(worst), round + 1);
            let line = format!("{}: {late} late in round {round}, the worst tick so far", row.name);
            self.notable.push(line);
            let excess = self.notable.len().saturating_sub(MAX_NOTABLE_LINES);
            self.notable.drain(..excess);
        }
    }

    /// Formats a frame of at most these columns and lines, without a line break at its end.
    ///
    /// Subjects that do not fit are counted. The running subject is always shown.
    pub fn frame(&self, columns: usize, lines: usize) -> String {
        let answer = self.answer.as_ref().filter(|_| lines >= MIN_LINES_WITH_ANSWER);
        let visible = self.visible_rows(lines - answer.iter().len());
        let mut cells = vec![HEADING.map(str::to_owned).to_vec()];
        for (i, row) in self.rows.iter().enumerate() {
            if visible.contains(&i) {
                cells.push(row.cells(self.current == Some(i)));
            }
        }
        drop_columns(&mut cells, columns);
        let mut text: Vec<String> = answer.into_iter().cloned().collect();
        text.extend(align(&cells, 1).lines().map(str::to_owned));
        let hidden = self.rows.len().saturating_sub(visible.end) + visible.start;
        if hidden > 0 {
            text.push(format!("  and {hidden} more"));
        }
        text.extend(self.notable.iter().cloned());
        text.truncate(lines.max(1));
        for line in &mut text {
            *line = line.chars().take(columns).collect();
        }
        text.join("\n")
    }

    /// The rows that fit next to the heading and the notable lines.
    fn visible_rows(&self, lines: usize) -> Range<usize> {
        let capacity = lines.saturating_sub(1 + MAX_NOTABLE_LINES).max(1);
        if self.rows.len() <= capacity {
            return 0..capacity;
        }
        // The last line counts the hidden rows.
        let first = self.current.unwrap_or(0).saturating_sub(capacity.saturating_sub(2));
        first..first + capacity.saturating_sub(1).max(1)
    }
}

const HEADING: [&str; 6] = ["lateness", "ticks", "p50", "p99", "max", "missed"];

impl Row {
    fn cells(&self, is_running: bool) -> Vec<String> {
        let mark = if is_running { ">" } else { " " };
        vec![
            format!("{mark} {}", self.name),
            format!("{}/{}", self.histogram.len(), self.planned_ticks),
            or_dash(percentile(self, 0.5).map(format_time)),
            or_dash(percentile(self, 0.99).map(format_time)),
            or_dash(self.max_ns.map(format_time)),
            format_share(self.missed, self.histogram.len() + self.skipped),
        ]
    }
}

/// Drops optional columns until the table fits.
fn drop_columns(cells: &mut [Vec<String>], columns: usize) {
    for column in OPTIONAL_COLUMNS {
        let is_too_wide = align(cells, 1).lines().any(|line| line.chars().count() > columns);
        let index = cells[0].iter().position(|heading| heading == column);
        if let Some(index) = index.filter(|_| is_too_wide) {
            for row in cells.iter_mut() {
                row.remove(index);
            }
        }
    }
}

fn percentile(row: &Row, q: f64) -> Option<i64> {
    let n = usize::try_from(row.histogram.len()).unwrap_or(usize::MAX);
    quantile::is_supported(n, q)
        .then(|| i64::try_from(row.histogram.value_at_quantile(q)).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn two_subjects() -> LiveState {
        let mut live = LiveState::default();
        live.add("os-interval", 40, 500_000);
        live.add("tokio-interval", 40, 500_000);
        live
    }

    #[test]
    fn frame_shows_counts_and_percentiles() {
        let mut live = two_subjects();
        live.start(1);
        live.record(0, 0, &[14_000; 20], 0);
        live.record(1, 0, &[1_200_000; 20], 0);
        live.record(0, 1, &[15_000, 16_000], 1);
        let frame = live.frame(80, 24);
        let lines: Vec<&str> = frame.lines().collect();
        assert_eq!(lines[0], "lateness          ticks      p50  p99      max  missed");
        assert_eq!(lines[1], "  os-interval     22/40  14.0 us    -  16.0 us  4.35 %");
        assert_eq!(lines[2], "> tokio-interval  20/40  1.20 ms    -  1.20 ms   100 %");
        assert_eq!(lines[3..], ["os-interval: 16.0 us late in round 2, the worst tick so far"]);
    }

    #[test]
    fn narrow_terminal_drops_whole_columns() {
        let mut live = two_subjects();
        live.record(0, 0, &[14_000; 20], 0);
        let frame =
            |columns| live.frame(columns, 24).lines().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(
            frame(52)[..2],
            [
                "lateness              p50  p99      max  missed",
                "  os-interval     14.0 us    -  14.0 us       0"
            ]
        );
        assert_eq!(
            frame(30)[..2],
            ["lateness          p99  missed", "  os-interval       -       0"]
        );
    }

    #[test]
    fn answer_is_above_the_table() {
        let mut live = two_subjects();
        live.set_answer(Some("So far, os-interval is the least late"));
        assert!(live.frame(80, 24).starts_with("So far, os-interval is the least late\nlateness "));
        assert!(live.frame(80, 7).starts_with("lateness "), "rows come first");
    }

    proptest! {
        #[test]
        fn frame_fits_terminal(
            subjects in 1_usize..40, current in any::<prop::sample::Index>(), columns in 1_usize..200, lines in 1_usize..60,
            late in proptest::collection::vec(any::<i64>(), 1..20),
        ) {
            let mut live = LiveState::default();
            for i in 0..subjects {
                live.add(&format!("subject-{i}-of-many"), u64::MAX, 1);
            }
            let current = current.index(subjects);
            live.start(current);
            for round in 0..5 {
                live.record(current, round, &late[..late.len().min(1 + round as usize)], 3);
            }
            live.set_answer(Some("So far, subject-0-of-many is the least late at p50: 1 ns"));
            let frame = live.frame(columns, lines);
            prop_assert!(frame.lines().count() <= lines);
            prop_assert!(frame.lines().all(|l| l.chars().count() <= columns));
            if lines >= 2 && columns >= 30 {
                prop_assert!(frame.contains(&format!("> subject-{current}-of")), "{frame}");
            }
        }
    }
}
