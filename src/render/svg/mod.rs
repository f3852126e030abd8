//! Static pictures of a report, each a pure function of it.

mod histogram;
mod over_time;
mod percentiles;
mod tradeoff;

use jitterstat::report::{Report, Subject};

use crate::picture::canvas::{Picture, draw, file_name};
use crate::render::label::labels;
use crate::render::tradeoff::{percentile, points};

/// A subject with what a picture needs beside it.
struct Drawable<'a> {
    /// Its place in the report: its colour, shape and dash.
    i: usize,
    name: String,
    subject: &'a Subject,
}

pub fn pictures(report: &Report) -> Vec<Picture> {
    let labels = labels(report);
    let measured: Vec<Drawable<'_>> = report
        .subjects
        .iter()
        .zip(labels.names)
        .enumerate()
        .filter(|(_, (s, _))| s.summary.is_some())
        .map(|(i, (subject, name))| Drawable { i, name, subject })
        .collect();
    if measured.is_empty() {
        return Vec::new();
    }
    let mut pictures = vec![draw("percentiles", |area| percentiles::draw(area, &measured, &labels.shared))];
    let points = points(report);
    if !points.is_empty() {
        let percentile = percentile(report);
        pictures.push(draw("tradeoff", |area| tradeoff::draw(area, percentile, &points, &labels.shared)));
    }
    for drawable in &measured {
        let file = file_name(&drawable.subject.id);
        if drawable.subject.rounds.iter().any(|r| !r.lateness_ns.is_empty()) {
            pictures.push(draw(&format!("time-{file}"), |area| over_time::draw(area, drawable)));
        }
        pictures.push(draw(&format!("histogram-{file}"), |area| histogram::draw(area, drawable)));
    }
    pictures
}
