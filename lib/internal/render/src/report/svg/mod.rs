//! Static pictures of a report. Each is a pure function of the report and has a footer with its
//! provenance, so that it can be shown alone.

mod histogram;
mod over_time;
mod percentiles;
mod tradeoff;

use files::report::{Report, Subject};
use plotters::prelude::*;

use crate::picture::canvas::{
    Area, DrawResult, FONT, Picture, SIZE, TITLE_PX, draw_sized, file_name,
};
use crate::picture::palette::Sign;
use crate::report::label::{labels, signs};
use crate::report::origin::{self, Footer};
use crate::report::tradeoff::{percentile, points};

/// A measured subject with its sign and name.
struct Drawable<'a> {
    sign: Sign,
    name: String,
    subject: &'a Subject,
}

/// Maximum number of lines that can be distinguished in one chart.
const MAX_SERIES: usize = 12;
/// Heights of the title above a chart, and of the footer.
const HEADER: u32 = 56;
const FOOTER: u32 = 44;
const SMALL_PX: u32 = 13;
/// Number of characters of small print that fit in a line.
const SMALL_CHARACTERS: usize = 145;

/// Draws all pictures of a report.
pub fn pictures(report: &Report) -> Vec<Picture> {
    let footer = origin::footer(report);
    let mut pictures = main_pictures(report);
    for drawable in measured_subjects(report) {
        let file = file_name(&drawable.subject.id);
        if drawable.subject.rounds.iter().any(|round| !round.lateness_ns.is_empty()) {
            pictures.push(over_time::picture(&format!("time-{file}"), &drawable, &footer));
        }
        pictures.push(histogram::picture(&format!("histogram-{file}"), &drawable, &footer));
    }
    pictures
}

/// Draws the pictures of all subjects together: lateness by percentile, and lateness against CPU
/// time.
pub fn main_pictures(report: &Report) -> Vec<Picture> {
    let measured = measured_subjects(report);
    if measured.is_empty() {
        return Vec::new();
    }
    let shared = labels(report).shared;
    let footer = origin::footer(report);
    let mut pictures = vec![percentiles::picture(&measured, &shared, &footer)];
    let points = points(report);
    if !points.is_empty() {
        let mut signed = Vec::new();
        for point in &points {
            signed.push((point, sign_of(&measured, &report.subjects[point.subject])));
        }
        pictures.push(tradeoff::picture(percentile(report), &signed, &shared, &footer));
    }
    pictures
}

fn measured_subjects(report: &Report) -> Vec<Drawable<'_>> {
    let signs = signs(std::slice::from_ref(report)).remove(0);
    let mut measured = Vec::new();
    for ((subject, name), sign) in report.subjects.iter().zip(labels(report).names).zip(signs) {
        if subject.summary.is_some() {
            measured.push(Drawable { sign, name, subject });
        }
    }
    measured
}

fn sign_of(measured: &[Drawable<'_>], subject: &Subject) -> Sign {
    let found = measured.iter().find(|d| std::ptr::eq(d.subject, subject));
    found.expect("a subject with a point was measured").sign
}

/// The text around the charts of a picture.
struct Captions<'a> {
    title: String,
    /// Explains how to read the picture.
    note: &'a str,
    footer: &'a Footer,
}

/// Draws a picture with charts of `height` pixels between its title and footer.
fn page(
    name: &str,
    height: u32,
    captions: &Captions<'_>,
    charts: impl FnOnce(&Area<'_>) -> DrawResult,
) -> Picture {
    draw_sized(name, (SIZE.0, HEADER + height + FOOTER), |area| {
        let (head, rest) = area.split_vertically(HEADER);
        let (body, foot) = rest.split_vertically(height);
        let ink = BLACK.mix(0.7);
        let small = (FONT, SMALL_PX).with_color(ink).into_text_style(&SIZE);
        head.draw_text(&captions.title, &(FONT, TITLE_PX).into_text_style(&head), (16, 10))?;
        head.draw_text(captions.note, &small, (16, 38))?;
        for (y, line) in [(6, &captions.footer.origin), (24, &captions.footer.content)] {
            let line: String = match line.char_indices().nth(SMALL_CHARACTERS) {
                Some((end, _)) => format!("{}...", &line[..end]),
                None => line.clone(),
            };
            foot.draw_text(&line, &small, (16, y))?;
        }
        charts(&body)
    })
}

/// Groups items by chart. A subject has the same sign at all periods, so that with several periods
/// each has a separate chart.
fn group_by_period<T>(items: &[T], key: impl Fn(&T) -> (u64, Sign)) -> Vec<Vec<&T>> {
    let mut periods: Vec<u64> = items.iter().map(|item| key(item).0).collect();
    periods.sort_unstable();
    periods.dedup();
    let has_duplicates = items
        .iter()
        .enumerate()
        .any(|(i, item)| items[..i].iter().any(|other| key(other).1 == key(item).1));
    if !has_duplicates || periods.len() < 2 {
        return vec![items.iter().collect()];
    }
    periods
        .into_iter()
        .map(|period| items.iter().filter(|item| key(item).0 == period).collect())
        .collect()
}

/// Returns the number of rows and columns of a grid of charts.
fn grid(charts: usize, max_columns: usize) -> (usize, usize) {
    let columns = charts.clamp(1, max_columns);
    (charts.div_ceil(columns), columns)
}
