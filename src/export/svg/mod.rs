//! Static pictures of a report, each a pure function of it.

mod histogram;
mod over_time;
mod percentiles;
mod tradeoff;

use jitterstat::report::{Report, Subject};
use plotters::coord::Shift;
use plotters::prelude::*;

use crate::view::palette::{self, Shape};

/// Size of a picture in pixels.
const SIZE: (u32, u32) = (960, 540);
/// Generic family: the reader's own font.
const FONT: &str = "sans-serif";
const TITLE_PX: u32 = 20;
const LABEL_PX: u32 = 14;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), DrawingAreaErrorKind<std::io::Error>>;

/// A picture and the name of its file.
#[derive(Debug)]
pub struct Picture {
    /// File name, without a directory.
    pub name: String,
    /// The SVG document.
    pub svg: String,
}

/// Every picture of a report.
pub fn pictures(report: &Report) -> Vec<Picture> {
    let measured: Vec<(usize, &Subject)> =
        report.subjects.iter().enumerate().filter(|(_, s)| s.summary.is_some()).collect();
    if measured.is_empty() {
        return Vec::new();
    }
    let mut pictures = vec![
        draw("percentiles", |area| percentiles::draw(area, &measured)),
        draw("tradeoff", |area| tradeoff::draw(area, &measured)),
    ];
    for &(i, subject) in measured.iter().filter(|(_, s)| s.rounds.iter().any(|r| !r.lateness_ns.is_empty())) {
        let file = file_name(&subject.id);
        pictures.push(draw(&format!("time-{file}"), |area| over_time::draw(area, i, subject)));
        pictures.push(draw(&format!("histogram-{file}"), |area| histogram::draw(area, i, subject)));
    }
    pictures
}

fn draw(name: &str, picture: impl FnOnce(&Area<'_>) -> Drawn) -> Picture {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        area.fill(&WHITE)
            .and_then(|()| picture(&area))
            .and_then(|()| area.present())
            .expect("a string takes any picture");
    }
    Picture { name: format!("{name}.svg"), svg }
}

/// An id with nothing in it that a file system or a shell minds.
fn file_name(id: &str) -> String {
    id.chars().map(|c| if c.is_ascii_alphanumeric() || matches!(c, '-' | '.') { c } else { '_' }).collect()
}

fn colour(i: usize) -> RGBColor {
    let ((r, g, b), _) = palette::style(i);
    RGBColor(r, g, b)
}

fn mark<'a>(i: usize, at: (i32, i32)) -> DynElement<'static, SVGBackend<'a>, (i32, i32)> {
    let (_, shape) = palette::style(i);
    let style = colour(i).filled();
    match shape {
        Shape::Circle => Circle::new(at, 5, style).into_dyn(),
        Shape::Triangle => TriangleMarker::new(at, 6, style).into_dyn(),
        Shape::Cross => plotters::element::Cross::new(at, 5, colour(i).stroke_width(3)).into_dyn(),
    }
}

/// A value on a logarithmic axis: early and punctual ticks lie on its lower edge.
fn logarithmic(ns: i64) -> f64 {
    ns.max(1) as f64
}

/// Label of a logarithmic axis in nanoseconds: a unit that suits the value.
fn time_label(ns: &f64) -> String {
    match *ns {
        v if v < 1e3 => format!("{} ns", round(v)),
        v if v < 1e6 => format!("{} us", round(v / 1e3)),
        v if v < 1e9 => format!("{} ms", round(v / 1e6)),
        v => format!("{} s", round(v / 1e9)),
    }
}

fn round(value: f64) -> String {
    format!("{:.1}", value).trim_end_matches(".0").to_owned()
}

/// Whole decades around the values, so that the axis begins and ends on a line.
fn decades(values: impl Iterator<Item = i64>) -> std::ops::Range<f64> {
    let (low, high) = values.map(logarithmic).fold((f64::MAX, 1.0_f64), |(l, h), v| (l.min(v), h.max(v)));
    let floor = 10_f64.powf(low.log10().floor());
    let ceiling = 10_f64.powf(high.log10().ceil());
    floor..ceiling.max(floor * 10.0)
}
