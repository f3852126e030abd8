//! The picture made for sharing: the answer, the verdict on the machine, the most important subjects
//! with bars of their lateness, the machine, and the shortest command. Its text is readable at a third of its size.

use cli::time::format_time;
use cli::words::or_dash;
use cli::wrap::wrap;
use files::report::{PERCENTILES, Percentile, Report, Subject, Summary};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::picture::canvas::{Area, DrawResult, FONT, Picture, colour, draw_sized, mark};
use crate::report::command::Command;
use crate::report::cost::core_percent;
use crate::report::label::{has_failed_late, labels};
use crate::report::ranking::Ranking;
use crate::report::svg::{Drawable, by_importance, drawables};
use crate::report::trust::Trust;
use crate::report::{fitness, subject_sentences, summary};

/// Size of the picture that sites show for a link.
const SIZE: (u32, u32) = (1200, 630);
const LEFT: i32 = 48;
const RIGHT: i32 = 1152;

/// A size of text, with the numbers of characters in a line and of lines for which it is chosen.
struct TextSize {
    px: u32,
    width: usize,
    max_lines: usize,
}

const fn size(px: u32, width: usize, max_lines: usize) -> TextSize {
    TextSize { px, width, max_lines }
}

/// Sizes of the answer and of the command, from the largest.
const ANSWER_SIZES: [TextSize; 3] = [size(48, 48, 3), size(38, 61, 4), size(30, 75, 5)];
const COMMAND_SIZES: [TextSize; 3] = [size(32, 68, 2), size(26, 84, 3), size(22, 100, 4)];
/// Right ends of the columns of the table.
const COLUMNS: [i32; 3] = [750, 950, RIGHT];
const MIN_ROWS: i32 = 3;
const MAX_ROWS: i32 = 5;
const VERDICT_HEIGHT: i32 = 40;
const HEADING_HEIGHT: i32 = 46;
const ROW_HEIGHT: i32 = 55;
const ROW_PX: u32 = 36;
const SMALL_PX: u32 = 32;
const MAX_NAME_CHARS: usize = 30;

/// Draws the card; `None` if nothing was measured.
pub(super) fn picture(ranking: &Ranking<'_>) -> Option<Picture> {
    let report = ranking.report();
    let measured = drawables(ranking);
    measured.first()?;
    let answer = summary::answer(ranking);
    Some(draw_sized("card", &answer, SIZE, |area| {
        let bottom = draw_origin(area, report)?;
        let mut top = draw_answer(area, &answer)? + 8;
        if let Some(verdict) = fitness::brief(report) {
            let small = (FONT, SMALL_PX).into_text_style(area);
            area.draw_text(&verdict, &small, (LEFT, top))?;
            top += VERDICT_HEIGHT;
        }
        top += 12;
        let max_rows = (bottom - top - HEADING_HEIGHT) / ROW_HEIGHT;
        let rows = rows(ranking, &measured, max_rows.clamp(MIN_ROWS, MAX_ROWS) as usize);
        draw_table(area, ranking, &rows, top)
    }))
}

/// Returns the most important subjects, at most `max_rows`, in the order of their ranking.
fn rows<'a>(
    ranking: &Ranking<'_>,
    measured: &'a [Drawable<'a>],
    max_rows: usize,
) -> Vec<&'a Drawable<'a>> {
    let ranked: Vec<usize> =
        subject_sentences::sentences(ranking).iter().map(|(index, _)| *index).collect();
    let mut kept = by_importance(ranking, measured);
    kept.truncate(max_rows);
    kept.sort_by_key(|drawable| ranked.iter().position(|index| *index == drawable.index));
    kept
}

/// Writes the answer, and returns its lower edge.
fn draw_answer(area: &Area<'_>, answer: &str) -> DrawResult<i32> {
    let fits = |size: &&TextSize| wrap(answer, size.width).lines().count() <= size.max_lines;
    let smallest = &ANSWER_SIZES[ANSWER_SIZES.len() - 1];
    let size = ANSWER_SIZES.iter().find(fits).unwrap_or(smallest);
    let font = (FONT, size.px).into_font().style(FontStyle::Bold).into_text_style(area);
    let text = wrap(answer, size.width);
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    if lines.len() > size.max_lines {
        lines.truncate(size.max_lines);
        if let Some(last) = lines.last_mut() {
            last.push_str(" ...");
        }
    }
    let mut y = 32;
    for line in lines {
        area.draw_text(&line, &font, (LEFT, y))?;
        y += size.px as i32 * 9 / 8;
    }
    Ok(y)
}

/// Draws a row for each subject, with a bar of its lateness at the percentile of the ranking.
fn draw_table(
    area: &Area<'_>,
    ranking: &Ranking<'_>,
    rows: &[&Drawable<'_>],
    top: i32,
) -> DrawResult {
    let (report, shown) = (ranking.report(), ranking.shown());
    let trust = Trust::from_report(report);
    // The percentile next to the median: that of the ranking, or p99.
    let ranked = PERCENTILES[1..].iter().find(|percentile| percentile.key == shown);
    let tail = *ranked.unwrap_or(&PERCENTILES[2]);
    let headings = [trust.heading(PERCENTILES[0]), trust.heading(tail), "CPU".to_owned()];
    write_row(area, &labels(report).shared, &headings, (LEFT, top), SMALL_PX)?;
    let late = |row: &&Drawable<'_>| late_at(row.subject, shown);
    let largest = rows.iter().map(late).max().unwrap_or(0).max(1);
    // Bars that give no ranking are pale.
    let strength = if ranking.percentile().is_some() { 1.0 } else { 0.3 };
    for (row, n) in rows.iter().zip(0..) {
        let y = top + HEADING_HEIGHT + n * ROW_HEIGHT;
        area.draw(&(EmptyElement::at((LEFT + 8, y + 14)) + mark(row.sign, (0, 0))))?;
        let failure = if has_failed_late(row.subject) { " (failed)" } else { "" };
        let name = row.name.chars().take(MAX_NAME_CHARS - failure.len());
        let name: String = name.chain(failure.chars()).collect();
        write_row(area, &name, &cells(row.subject, tail), (LEFT + 28, y), ROW_PX)?;
        let width = (late(row) as f64 / largest as f64 * f64::from(RIGHT - LEFT)).max(2.0) as i32;
        let bar = [(LEFT, y + 36), (LEFT + width, y + 43)];
        area.draw(&Rectangle::new(bar, colour(row.sign).mix(strength).filled()))?;
    }
    Ok(())
}

/// Writes a name at `start`, and its values in columns.
fn write_row(
    area: &Area<'_>,
    name: &str,
    values: &[String; 3],
    (x, y): (i32, i32),
    px: u32,
) -> DrawResult {
    let font = (FONT, px).into_text_style(area);
    area.draw_text(name, &font, (x, y))?;
    let font = font.pos(Pos::new(HPos::Right, VPos::Top));
    for (value, x) in values.iter().zip(COLUMNS) {
        area.draw_text(value, &font, (x, y))?;
    }
    Ok(())
}

fn cells(subject: &Subject, tail: Percentile) -> [String; 3] {
    let lateness = subject.summary.as_ref().map(|Summary { lateness_ns, .. }| lateness_ns);
    let time = |value: Option<i64>| or_dash(value.map(format_time));
    let core = core_percent(subject).map(|percent| format!("{percent:.1} %"));
    let tail = lateness.and_then(|d| d.percentile(tail.key));
    [time(lateness.and_then(|d| d.p50)), time(tail), or_dash(core)]
}

fn late_at(subject: &Subject, key: &str) -> i64 {
    let summary = subject.summary.as_ref();
    summary.map_or(0, |s| s.lateness_ns.percentile(key).unwrap_or(s.lateness_ns.max))
}

/// Writes the machine, the date and the command at the bottom, and returns their upper edge.
fn draw_origin(area: &Area<'_>, report: &Report) -> DrawResult<i32> {
    let machine = report.host.cpu_model.as_deref().unwrap_or(&report.host.os);
    let date = report.started_utc.split('T').next().unwrap_or_default();
    let (px, lines) = command_lines(report);
    let line_height = px as i32 * 9 / 8;
    let top = SIZE.1 as i32 - 72 - line_height * lines.len() as i32;
    let small = (FONT, SMALL_PX).into_text_style(area);
    area.draw_text(&format!("{machine} · {date}"), &small, (LEFT, top))?;
    let code = ("monospace", px).into_text_style(area);
    for (line, n) in lines.iter().zip(0..) {
        area.draw_text(line, &code, (LEFT, top + 42 + n * line_height))?;
    }
    Ok(top)
}

/// Returns the command in the largest size that has space for it.
fn command_lines(report: &Report) -> (u32, Vec<String>) {
    let Some(command) = Command::from_report(report) else {
        return (SMALL_PX, vec![format!("{} {}", report.tool.name, report.tool.version)]);
    };
    for TextSize { px, width, max_lines } in COMMAND_SIZES {
        if let Some(lines) = command.lines(width, max_lines) {
            return (px, lines);
        }
    }
    (SMALL_PX, vec![Command::repeat_plan()])
}
