//! What a person sees while a run goes on: a line for each subject, and the latest ticks so far.
//! Pure: `live_terminal` draws it.

use cli::align::align;
use cli::time::{format_share, format_time};
use hdrhistogram::Histogram;
use jitterstat::stats::quantile;

/// Digits that the running figures keep.
const DIGITS: u8 = 3;
/// Columns that a terminal too narrow for all goes without, the first of them first.
const FIRST_TO_GO: [&str; 4] = ["ticks", "p50", "max", "missed"];
/// The latest ticks of a run are shown as they come, so many lines of them.
const NOTABLE: usize = 3;

#[derive(Clone, Debug)]
struct Row {
    name: String,
    asked: u64,
    period_ns: u64,
    missed: u64,
    skipped: u64,
    max_ns: Option<i64>,
    seen: Histogram<u64>,
}

/// All subjects of a run so far.
#[derive(Clone, Debug, Default)]
pub struct Live {
    rows: Vec<Row>,
    current: Option<usize>,
    notable: Vec<String>,
}

impl Live {
    /// Adds a subject and the number of its ticks.
    pub fn add(&mut self, name: &str, asked: u64, period_ns: u64) {
        let seen = Histogram::new(DIGITS).expect("3 digits are within the bounds");
        self.rows.push(Row {
            name: name.to_owned(),
            asked,
            period_ns,
            missed: 0,
            skipped: 0,
            max_ns: None,
            seen,
        });
    }

    /// The subject that runs next.
    pub fn start(&mut self, place: usize) {
        self.current = Some(place);
    }

    /// Takes what a subject did in one round, counted from 0; `skipped` ticks never came.
    pub fn take(&mut self, place: usize, round: u64, lateness_ns: &[i64], skipped: u64) {
        let Some(row) = self.rows.get_mut(place) else { return };
        let period = i64::try_from(row.period_ns).unwrap_or(i64::MAX);
        row.skipped += skipped;
        row.missed += skipped + lateness_ns.iter().filter(|&&late| late >= period).count() as u64;
        for &late in lateness_ns {
            row.seen
                .record(u64::try_from(late).unwrap_or(0))
                .expect("an auto-resizing histogram takes any i64");
        }
        let Some(&latest) = lateness_ns.iter().max() else { return };
        if row.max_ns.is_none_or(|max| latest > max) {
            // The latest of a first round is no news.
            if row.max_ns.is_some() {
                let line = format!(
                    "{}: {} late in round {}, its latest so far",
                    row.name,
                    format_time(latest),
                    round + 1
                );
                self.notable.push(line);
                let drop = self.notable.len().saturating_sub(NOTABLE);
                self.notable.drain(..drop);
            }
            row.max_ns = Some(latest);
        }
    }

    /// The picture, at most so many columns and lines large; without a line break at its end.
    /// Subjects for which there is no room are counted; the one that runs is always shown.
    pub fn frame(&self, columns: usize, lines: usize) -> String {
        let room = lines.saturating_sub(1 + NOTABLE).max(1);
        let first = match self.current {
            _ if self.rows.len() <= room => 0,
            // The last line of the room says how many are not shown.
            current => current.unwrap_or(0).saturating_sub(room.saturating_sub(2)),
        };
        let shown = if self.rows.len() <= room { room } else { room.saturating_sub(1).max(1) };
        let mut cells = vec![vec![
            "lateness".to_owned(),
            "ticks".to_owned(),
            "p50".to_owned(),
            "p99".to_owned(),
            "max".to_owned(),
            "missed".to_owned(),
        ]];
        for (i, row) in self.rows.iter().enumerate().skip(first).take(shown) {
            let figure = |ns: Option<i64>| ns.map_or("-".to_owned(), format_time);
            let mark = if self.current == Some(i) { ">" } else { " " };
            cells.push(vec![
                format!("{mark} {}", row.name),
                format!("{}/{}", row.seen.len(), row.asked),
                figure(percentile(row, 0.5)),
                figure(percentile(row, 0.99)),
                figure(row.max_ns),
                format_share(row.missed, row.seen.len() + row.skipped),
            ]);
        }
        for goes in FIRST_TO_GO {
            let too_wide = align(&cells, 1).lines().any(|line| line.chars().count() > columns);
            if let Some(place) =
                cells[0].iter().position(|heading| heading == goes).filter(|_| too_wide)
            {
                cells.iter_mut().for_each(|row| drop(row.remove(place)));
            }
        }
        let mut text: Vec<String> = align(&cells, 1).lines().map(str::to_owned).collect();
        let hidden = self.rows.len().saturating_sub(first + shown) + first;
        if hidden > 0 {
            text.push(format!("  and {hidden} more"));
        }
        text.extend(self.notable.iter().cloned());
        text.truncate(lines.max(1));
        let cut: Vec<String> =
            text.iter().map(|line| line.chars().take(columns).collect()).collect();
        cut.join("\n")
    }
}

fn percentile(row: &Row, q: f64) -> Option<i64> {
    let n = usize::try_from(row.seen.len()).unwrap_or(usize::MAX);
    quantile::is_supported(n, q)
        .then(|| i64::try_from(row.seen.value_at_quantile(q)).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn two() -> Live {
        let mut live = Live::default();
        live.add("os-interval", 40, 500_000);
        live.add("tokio-interval", 40, 500_000);
        live
    }

    #[test]
    fn counts_percentiles_and_the_latest_so_far() {
        let mut live = two();
        live.start(1);
        live.take(0, 0, &[14_000; 20], 0);
        live.take(1, 0, &[1_200_000; 20], 0);
        live.take(0, 1, &[15_000, 16_000], 1);
        let frame = live.frame(80, 24);
        let lines: Vec<&str> = frame.lines().collect();
        assert_eq!(lines[0], "lateness          ticks      p50  p99      max  missed");
        assert_eq!(lines[1], "  os-interval     22/40  14.0 us    -  16.0 us  4.35 %");
        assert_eq!(lines[2], "> tokio-interval  20/40  1.20 ms    -  1.20 ms   100 %");
        assert_eq!(lines[3..], ["os-interval: 16.0 us late in round 2, its latest so far"]);
    }

    #[test]
    fn a_narrow_terminal_goes_without_whole_columns() {
        let mut live = two();
        live.take(0, 0, &[14_000; 20], 0);
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

    proptest! {
        #[test]
        fn a_frame_keeps_to_the_terminal_and_shows_what_runs(
            subjects in 1_usize..40, current in any::<prop::sample::Index>(), columns in 1_usize..200, lines in 1_usize..60,
            late in proptest::collection::vec(any::<i64>(), 1..20),
        ) {
            let mut live = Live::default();
            (0..subjects).for_each(|i| live.add(&format!("subject-{i}-of-many"), u64::MAX, 1));
            let current = current.index(subjects);
            live.start(current);
            (0..5).for_each(|round| live.take(current, round, &late[..late.len().min(1 + round as usize)], 3));
            let frame = live.frame(columns, lines);
            prop_assert!(frame.lines().count() <= lines);
            prop_assert!(frame.lines().all(|l| l.chars().count() <= columns));
            if lines >= 2 && columns >= 30 {
                prop_assert!(frame.contains(&format!("> subject-{current}-of")), "{frame}");
            }
        }
    }
}
