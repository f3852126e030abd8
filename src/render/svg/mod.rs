//! Static pictures of a report, each a pure function of it, and each fit to be shown alone: its
//! foot says where its numbers are from.

mod histogram;
mod over_time;
mod percentiles;
mod tradeoff;

use files::report::{Report, Subject};
use plotters::prelude::*;

use crate::picture::canvas::{Area, Drawn, FONT, Picture, SIZE, TITLE_PX, draw_sized, file_name};
use crate::picture::palette::Sign;
use crate::render::label::{labels, signs};
use crate::render::origin;
use crate::render::tradeoff::{percentile, points};

/// A subject with what a picture needs beside it.
struct Drawable<'a> {
    sign: Sign,
    name: String,
    subject: &'a Subject,
}

/// So many lines are told apart in one chart.
const MAX_TOGETHER: usize = 12;
/// Height of what stands above a chart, and of its foot.
const HEAD: u32 = 56;
const FOOT: u32 = 44;
const SMALL_PX: u32 = 13;
/// Characters of small print that fit in a line.
const SMALL_CHARACTERS: usize = 145;

pub fn pictures(report: &Report) -> Vec<Picture> {
    let labels = labels(report);
    let signs = signs(std::slice::from_ref(report)).remove(0);
    let measured: Vec<Drawable<'_>> = report
        .subjects
        .iter()
        .zip(labels.names)
        .zip(signs)
        .filter(|((s, _), _)| s.summary.is_some())
        .map(|((subject, name), sign)| Drawable { sign, name, subject })
        .collect();
    if measured.is_empty() {
        return Vec::new();
    }
    let shared = &labels.shared;
    let foot = origin::foot(report);
    let mut pictures = vec![percentiles::picture(&measured, shared, &foot)];
    let points = points(report);
    if !points.is_empty() {
        let named: Vec<(&_, Sign)> =
            points.iter().map(|p| (p, sign_of(&measured, &report.subjects[p.subject]))).collect();
        pictures.push(tradeoff::picture(percentile(report), &named, shared, &foot));
    }
    for drawable in &measured {
        let file = file_name(&drawable.subject.id);
        if drawable.subject.rounds.iter().any(|r| !r.lateness_ns.is_empty()) {
            pictures.push(over_time::picture(&format!("time-{file}"), drawable, &foot));
        }
        pictures.push(histogram::picture(&format!("histogram-{file}"), drawable, &foot));
    }
    pictures
}

fn sign_of(measured: &[Drawable<'_>], subject: &Subject) -> Sign {
    let found = measured.iter().find(|d| std::ptr::eq(d.subject, subject));
    found.expect("what has a point was measured").sign
}

/// What a picture says in words.
struct Words<'a> {
    title: String,
    /// How to read it.
    note: &'a str,
    foot: &'a [String; 2],
}

/// A picture of so many pixels of charts, between its words.
fn page(
    name: &str,
    height: u32,
    words: &Words<'_>,
    charts: impl FnOnce(&Area<'_>) -> Drawn,
) -> Picture {
    draw_sized(name, (SIZE.0, HEAD + height + FOOT), |area| {
        let (head, rest) = area.split_vertically(HEAD);
        let (body, foot) = rest.split_vertically(height);
        let ink = BLACK.mix(0.7);
        let small = (FONT, SMALL_PX).with_color(ink).into_text_style(&SIZE);
        head.draw_text(&words.title, &(FONT, TITLE_PX).into_text_style(&head), (16, 10))?;
        head.draw_text(words.note, &small, (16, 38))?;
        for (y, line) in [6, 24].into_iter().zip(words.foot) {
            let line: String = match line.char_indices().nth(SMALL_CHARACTERS) {
                Some((end, _)) => format!("{}...", &line[..end]),
                None => line.clone(),
            };
            foot.draw_text(&line, &small, (16, y))?;
        }
        charts(&body)
    })
}

/// What is drawn in one chart: a subject at two periods has one sign, so that each period has a
/// chart of its own.
fn by_period<T>(all: &[T], of: impl Fn(&T) -> (u64, Sign)) -> Vec<Vec<&T>> {
    let mut periods: Vec<u64> = all.iter().map(|one| of(one).0).collect();
    periods.sort_unstable();
    periods.dedup();
    let again = all
        .iter()
        .enumerate()
        .any(|(i, one)| all[..i].iter().any(|other| of(other).1 == of(one).1));
    if !again || periods.len() < 2 {
        return vec![all.iter().collect()];
    }
    periods
        .into_iter()
        .map(|period| all.iter().filter(|one| of(one).0 == period).collect())
        .collect()
}

/// How many columns and rows so many charts take, side by side.
fn grid(charts: usize, most_columns: usize) -> (usize, usize) {
    let columns = charts.clamp(1, most_columns);
    (charts.div_ceil(columns), columns)
}
