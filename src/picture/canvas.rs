//! The canvas that every room draws on: sizes, axes, labels, the colours of series.

use plotters::coord::Shift;
use plotters::prelude::*;

use crate::picture::palette::{Dash, Shape, Sign};

/// Size of a picture in pixels.
pub const SIZE: (u32, u32) = (960, 540);
/// Generic family: the reader's own font.
pub const FONT: &str = "sans-serif";
pub const TITLE_PX: u32 = 22;
pub const LABEL_PX: u32 = 16;
/// Column of the names, to the right of a chart with several subjects: names never cover the
/// curves.
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
    draw_sized(name, SIZE, picture)
}

/// A picture of another size.
pub fn draw_sized(
    name: &str,
    size: (u32, u32),
    picture: impl FnOnce(&Area<'_>) -> Drawn,
) -> Picture {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        area.fill(&WHITE)
            .and_then(|()| picture(&area))
            .and_then(|()| area.present())
            .expect("a string takes any picture");
    }
    Picture { name: format!("{name}.svg"), svg: well_formed(&with_dark_theme(&svg)) }
}

/// XML has no place for most control characters, not even escaped.
fn well_formed(svg: &str) -> String {
    let impossible = |c: char| {
        c.is_control() && !matches!(c, '\n' | '\t') || matches!(c, '\u{fffe}' | '\u{ffff}')
    };
    svg.chars().map(|c| if impossible(c) { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

/// What the painter wrote in black and white follows the reader's theme, as far as the program that
/// shows it has one; the background is the picture's own, so that it can be read on any page.
pub const DARK: &str = "<style>@media (prefers-color-scheme: dark) {\
[fill=\"#FFFFFF\"] {fill: #14171a} [fill=\"#000000\"] {fill: #e8e8e8} [stroke=\"#000000\"] {stroke: #e8e8e8}\
[stroke=\"#DDDDDD\"] {stroke: #3a4046} [stroke=\"#0072B2\"] {stroke: #3a9bdc} [fill=\"#0072B2\"] {fill: #3a9bdc}}</style>";

pub fn with_dark_theme(svg: &str) -> String {
    match svg.split_once('>') {
        Some((head, body)) => format!("{head}>\n{DARK}{body}"),
        None => svg.to_owned(),
    }
}

/// An id with nothing in it that a file system or a shell minds.
pub fn file_name(id: &str) -> String {
    id.chars()
        .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '-' | '.') { c } else { '_' })
        .collect()
}

pub fn colour(sign: Sign) -> RGBColor {
    let (r, g, b) = sign.colour;
    RGBColor(r, g, b)
}

pub fn mark<'a>(sign: Sign, at: (i32, i32)) -> DynElement<'static, SVGBackend<'a>, (i32, i32)> {
    let style = colour(sign).filled();
    match sign.shape {
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
    entries: &[(Sign, &str)],
    key: impl Fn(&Area<'a>, Sign, (i32, i32)) -> Drawn,
) -> Result<Area<'a>, DrawingAreaErrorKind<std::io::Error>> {
    let (width, _) = area.dim_in_pixel();
    let (chart, legend) =
        area.split_horizontally(i32::try_from(width).unwrap_or(i32::MAX) - LEGEND_WIDTH);
    let mut y = 56;
    for &(sign, name) in entries {
        key(&legend, sign, (6, y))?;
        // Under a name there may be small print.
        for (n, line) in (0..).zip(name.lines()) {
            let px = if n == 0 { LABEL_PX } else { LABEL_PX - 4 };
            legend.draw_text(line, &(FONT, px).into_text_style(&legend), (36, y - 7 + 18 * n))?;
        }
        y += LEGEND_LINE + 18 * i32::try_from(name.lines().count().saturating_sub(1)).unwrap_or(0);
    }
    Ok(chart)
}

/// A chart with room for the labels of its axes.
pub fn chart<'a, 'b>(area: &'b Area<'a>) -> ChartBuilder<'b, 'b, SVGBackend<'a>> {
    let mut chart = ChartBuilder::on(area);
    chart.margin(12).x_label_area_size(44).y_label_area_size(76);
    chart
}

/// A title, and what all that is drawn has in common.
pub fn title(what: &str, shared: &str) -> String {
    if shared.is_empty() { what.to_owned() } else { format!("{what} ({shared})") }
}

/// A line in the colour and dash of a series.
pub fn line<'a>(
    sign: Sign,
    points: Vec<(i32, i32)>,
) -> DynElement<'static, SVGBackend<'a>, (i32, i32)> {
    let style = colour(sign).stroke_width(2);
    match sign.dash {
        Dash::Solid => PathElement::new(points, style).into_dyn(),
        Dash::Dashed { on, off } => {
            plotters::element::DashedPathElement::new(points, on, off, style).into_dyn()
        }
    }
}

/// Where a point of a chart lies in the area that the chart is drawn on.
pub fn within(area: &Area<'_>, (x, y): (i32, i32)) -> (i32, i32) {
    let (across, down) = area.get_pixel_range();
    (x - across.start, y - down.start)
}

/// Behind what is looked at.
pub const GHOST: RGBColor = RGBColor(0xdd, 0xdd, 0xdd);

/// Pixels between two lines of a hatched zone.
const HATCH: i32 = 8;

/// A zone between two corners of which nothing more is known: its edge, and lines across it.
pub fn hatched(area: &Area<'_>, [(x0, y0), (x1, y1)]: [(i32, i32); 2], sign: Sign) -> Drawn {
    let (left, right, top, bottom) = (x0.min(x1), x0.max(x1), y0.min(y1), y0.max(y1));
    let style = colour(sign).mix(0.6).stroke_width(1);
    area.draw(&Rectangle::new([(left, top), (right, bottom)], style))?;
    // Along each of these lines x + y is the same.
    let lines = (left + top..right + bottom).step_by(HATCH as usize);
    for sum in lines {
        let ends = [(sum - top).min(right), (sum - bottom).max(left)];
        area.draw(&PathElement::new(ends.map(|x| (x, sum - x)).to_vec(), style))?;
    }
    Ok(())
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

/// Where a logarithmic axis has its lines: at the decades, and at 2 and 5 of each where there are
/// few of those.
pub fn marks(range: &std::ops::Range<f64>) -> Vec<f64> {
    let within: &[f64] = if range.end / range.start < 1e3 { &[1.0, 2.0, 5.0] } else { &[1.0] };
    let decades = range.start.log10().floor() as i32..=range.end.log10().floor() as i32;
    let all = decades.flat_map(|decade| within.iter().map(move |m| m * 10_f64.powi(decade)));
    all.filter(|v| range.contains(v)).collect()
}

/// Whole decades around the values, so that the axis begins and ends on a line.
pub fn decades(values: impl Iterator<Item = i64>) -> std::ops::Range<f64> {
    let (low, high) =
        values.map(logarithmic).fold((f64::MAX, 1.0_f64), |(l, h), v| (l.min(v), h.max(v)));
    // Without a value any decade will do, but one that ends.
    let low = low.min(high);
    let floor = 10_f64.powf(low.log10().floor());
    let ceiling = 10_f64.powf(high.log10().ceil());
    floor..ceiling.max(floor * 10.0)
}
