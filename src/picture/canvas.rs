//! The canvas that every room draws on: sizes, axes, labels, the colours of series.

use plotters::coord::Shift;
use plotters::prelude::*;

use crate::picture::palette::{self, Dash, Shape};

/// Size of a picture in pixels.
pub const SIZE: (u32, u32) = (960, 540);
/// Generic family: the reader's own font.
pub const FONT: &str = "sans-serif";
pub const TITLE_PX: u32 = 22;
pub const LABEL_PX: u32 = 16;
/// Column of the names, to the right of a chart with several subjects: names never cover the curves.
pub const LEGEND_WIDTH: i32 = 240;
pub const LEGEND_LINE: i32 = 24;

pub type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

pub type Drawn = Result<(), DrawingAreaErrorKind<std::io::Error>>;

/// A picture and the name of its file.
#[derive(Debug)]
pub struct Picture {
    /// File name, without a directory.
    pub name: String,
    pub svg: String,
}

pub fn draw(name: &str, picture: impl FnOnce(&Area<'_>) -> Drawn) -> Picture {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        area.fill(&WHITE)
            .and_then(|()| picture(&area))
            .and_then(|()| area.present())
            .expect("a string takes any picture");
    }
    Picture { name: format!("{name}.svg"), svg: with_dark_theme(&svg) }
}

/// What the painter wrote in black and white follows the reader's theme, as far as the program that shows it has one;
/// the background is the picture's own, so that it can be read on any page.
pub const DARK: &str = "<style>@media (prefers-color-scheme: dark) {\
[fill=\"#FFFFFF\"] {fill: #14171a} [fill=\"#000000\"] {fill: #e8e8e8} [stroke=\"#000000\"] {stroke: #e8e8e8}\
[stroke=\"#0072B2\"] {stroke: #3a9bdc} [fill=\"#0072B2\"] {fill: #3a9bdc}}</style>";

pub fn with_dark_theme(svg: &str) -> String {
    match svg.split_once('>') {
        Some((head, body)) => format!("{head}>\n{DARK}{body}"),
        None => svg.to_owned(),
    }
}

/// An id with nothing in it that a file system or a shell minds.
pub fn file_name(id: &str) -> String {
    id.chars().map(|c| if c.is_ascii_alphanumeric() || matches!(c, '-' | '.') { c } else { '_' }).collect()
}

pub fn colour(i: usize) -> RGBColor {
    let ((r, g, b), _) = palette::style(i);
    RGBColor(r, g, b)
}

pub fn mark<'a>(i: usize, at: (i32, i32)) -> DynElement<'static, SVGBackend<'a>, (i32, i32)> {
    let (_, shape) = palette::style(i);
    let style = colour(i).filled();
    match shape {
        Shape::Circle => Circle::new(at, 5, style).into_dyn(),
        Shape::Triangle => TriangleMarker::new(at, 6, style).into_dyn(),
        Shape::Diamond => {
            let (x, y) = at;
            Polygon::new(vec![(x, y - 6), (x + 6, y), (x, y + 6), (x - 6, y)], style).into_dyn()
        }
    }
}

/// A chart's area to the left, and the names to the right of it, each beside what `key` draws.
pub fn with_legend<'a>(
    area: &Area<'a>,
    entries: &[(usize, &str)],
    key: impl Fn(&Area<'a>, usize, (i32, i32)) -> Drawn,
) -> Result<Area<'a>, DrawingAreaErrorKind<std::io::Error>> {
    let (width, _) = area.dim_in_pixel();
    let (chart, legend) = area.split_horizontally(i32::try_from(width).unwrap_or(i32::MAX) - LEGEND_WIDTH);
    for (line, &(i, name)) in (0_i32..).zip(entries) {
        let y = 56 + line * LEGEND_LINE;
        key(&legend, i, (6, y))?;
        legend.draw_text(name, &(FONT, LABEL_PX).into_text_style(&legend), (36, y - 7))?;
    }
    Ok(chart)
}

/// A chart under a title, with room for the labels of its axes.
pub fn chart<'a, 'b>(area: &'b Area<'a>, title: impl AsRef<str>) -> ChartBuilder<'b, 'b, SVGBackend<'a>> {
    let mut chart = ChartBuilder::on(area);
    chart.caption(title, (FONT, TITLE_PX)).margin(12).x_label_area_size(44).y_label_area_size(76);
    chart
}

/// A title, and what all that is drawn has in common.
pub fn title(what: &str, shared: &str) -> String {
    if shared.is_empty() { what.to_owned() } else { format!("{what} ({shared})") }
}

/// A line in the colour and dash of series `i`.
pub fn line<'a>(i: usize, points: Vec<(i32, i32)>) -> DynElement<'static, SVGBackend<'a>, (i32, i32)> {
    let style = colour(i).stroke_width(2);
    match palette::dash(i) {
        Dash::Solid => PathElement::new(points, style).into_dyn(),
        Dash::Dashed { on, off } => plotters::element::DashedPathElement::new(points, on, off, style).into_dyn(),
    }
}

/// A value on a logarithmic axis: early and punctual ticks lie on its lower edge.
pub fn logarithmic(ns: i64) -> f64 {
    ns.max(1) as f64
}

/// Label of a logarithmic axis in nanoseconds: a unit that suits the value.
pub fn time_label(ns: &f64) -> String {
    match *ns {
        v if v < 1e3 => format!("{} ns", round(v)),
        v if v < 1e6 => format!("{} us", round(v / 1e3)),
        v if v < 1e9 => format!("{} ms", round(v / 1e6)),
        v => format!("{} s", round(v / 1e9)),
    }
}

pub fn round(value: f64) -> String {
    format!("{:.1}", value).trim_end_matches(".0").to_owned()
}

/// Where a logarithmic axis has its lines: at the decades, and at 2 and 5 of each where there are few of those.
pub fn marks(range: &std::ops::Range<f64>) -> Vec<f64> {
    let within: &[f64] = if range.end / range.start < 1e3 { &[1.0, 2.0, 5.0] } else { &[1.0] };
    let decades = range.start.log10().floor() as i32..=range.end.log10().floor() as i32;
    let all = decades.flat_map(|decade| within.iter().map(move |m| m * 10_f64.powi(decade)));
    all.filter(|v| range.contains(v)).collect()
}

/// Whole decades around the values, so that the axis begins and ends on a line.
pub fn decades(values: impl Iterator<Item = i64>) -> std::ops::Range<f64> {
    let (low, high) = values.map(logarithmic).fold((f64::MAX, 1.0_f64), |(l, h), v| (l.min(v), h.max(v)));
    // Without a value any decade will do, but one that ends.
    let low = low.min(high);
    let floor = 10_f64.powf(low.log10().floor());
    let ceiling = 10_f64.powf(high.log10().ceil());
    floor..ceiling.max(floor * 10.0)
}
