//! The canvas of all pictures: sizes, axes, labels and themes.

use std::ops::Range;

use cli::printable::to_printable;
use cli::wrap::wrap;
use plotters::chart::MeshStyle;
use plotters::coord::Shift;
use plotters::element::DashedPathElement;
use plotters::prelude::*;

use crate::document::html::escape;
use crate::picture::axis::Axis;
use crate::picture::palette::{Dash, Shape, Sign};

/// Size of a picture in pixels.
pub const SIZE: (u32, u32) = (960, 540);
/// Generic font family, for which the viewer chooses a font.
pub const FONT: &str = "sans-serif";
const HEADLINE_PX: u32 = 22;
/// Upper edge of the first line of the headline, and distance between its lines.
const HEADLINE_TOP: u32 = 10;
const HEADLINE_LINE: u32 = 26;
/// Number of characters of a headline that fit in a line, even in a wide font.
const HEADLINE_CHARACTERS: usize = 92;
const MAX_HEADLINE_LINES: usize = 3;
pub const LABEL_PX: u32 = 16;
const SMALL_PX: u32 = 16;
const SMALL_LINE: u32 = 20;
/// Number of characters of small print that fit in a line, even in a wide font.
pub const SMALL_CHARACTERS: usize = 135;
/// Width of the column of names to the right of a chart, where they cannot cover the curves.
pub const LEGEND_WIDTH: i32 = 240;
pub const LEGEND_LINE: i32 = 24;

/// The area on which a picture is drawn.
pub type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// A chart with two axes.
pub type Chart<'c, 's> = ChartContext<'c, SVGBackend<'s>, Cartesian2d<Axis, Axis>>;

/// The result of drawing.
pub type DrawResult<T = ()> = Result<T, DrawingAreaErrorKind<std::io::Error>>;

/// A picture and the name of its file.
#[derive(Debug)]
pub struct Picture {
    /// File name, without a directory.
    pub name: String,
    pub svg: String,
}

/// Draws a picture of a given size. The title is for readers who do not see the picture.
pub fn draw_sized(
    name: &str,
    title: &str,
    size: (u32, u32),
    picture: impl FnOnce(&Area<'_>) -> DrawResult,
) -> Picture {
    let mut svg = String::new();
    draw_svg(&mut svg, size, picture).expect("a string takes any picture");
    // XML does not allow control characters, even escaped, nor these two.
    let svg = to_printable(&with_title_and_theme(&svg, title));
    let svg = svg.replace(['\u{fffe}', '\u{ffff}'], "\u{fffd}");
    Picture { name: format!("{name}.svg"), svg }
}

/// Draws a picture of a given size, below a headline that states what it shows, and above
/// paragraphs of small print.
pub fn draw_with_captions(
    name: &str,
    headline: &str,
    (width, height): (u32, u32),
    paragraphs: &[String],
    picture: impl FnOnce(&Area<'_>) -> DrawResult,
) -> Picture {
    let lines = headline_lines(headline);
    let header = headline_height(&lines) + 4;
    let text: String = paragraphs.iter().map(|text| wrap(text, SMALL_CHARACTERS)).collect();
    let footer = small_print_height(text.lines().count()) + 8;
    draw_sized(name, headline, (width, header + height + footer), |area| {
        let (head, rest) = area.split_vertically(header);
        let (body, foot) = rest.split_vertically(height);
        draw_headline(&head, &lines)?;
        draw_small_print(&foot, text.lines(), 0)?;
        picture(&body)
    })
}

/// Breaks a headline into a few lines. The end of a longer one is left out.
pub fn headline_lines(headline: &str) -> Vec<String> {
    let text = wrap(headline, HEADLINE_CHARACTERS);
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    if lines.len() > MAX_HEADLINE_LINES {
        lines.truncate(MAX_HEADLINE_LINES);
        if let Some(last) = lines.last_mut() {
            last.push_str(" ...");
        }
    }
    lines
}

pub fn headline_height(lines: &[String]) -> u32 {
    HEADLINE_TOP + u32::try_from(lines.len()).unwrap_or(0) * HEADLINE_LINE
}

/// Writes a headline at the top of an area.
pub fn draw_headline(area: &Area<'_>, lines: &[String]) -> DrawResult {
    for (line, y) in lines.iter().zip((HEADLINE_TOP..).step_by(HEADLINE_LINE as usize)) {
        draw_label(area, line, HEADLINE_PX, (16, y.try_into().unwrap_or(i32::MAX)))?;
    }
    Ok(())
}

fn draw_svg(
    svg: &mut String,
    size: (u32, u32),
    picture: impl FnOnce(&Area<'_>) -> DrawResult,
) -> DrawResult {
    let area = SVGBackend::with_string(svg, size).into_drawing_area();
    area.fill(&WHITE)?;
    picture(&area)?;
    area.present()
}

/// Style that adapts black, white and grey to a dark theme, if the viewer has one. The background
/// is part of the picture, so that it is readable on any page.
const DARK: &str = "<style>@media (prefers-color-scheme: dark) {\
[fill=\"#FFFFFF\"] {fill: #14171a} [fill=\"#000000\"] {fill: #e8e8e8} [stroke=\"#000000\"] {stroke: #e8e8e8}\
[stroke=\"#DDDDDD\"] {stroke: #3a4046} [stroke=\"#0072B2\"] {stroke: #3a9bdc} [fill=\"#0072B2\"] {fill: #3a9bdc}}</style>";

fn with_title_and_theme(svg: &str, title: &str) -> String {
    let title = escape(title);
    match svg.split_once('>') {
        Some((head, body)) => {
            format!("{head} role=\"img\">\n<title>{title}</title>\n{DARK}{body}")
        }
        None => svg.to_owned(),
    }
}

/// Replaces characters of an id that are special to a file system or a shell.
pub fn file_name(id: &str) -> String {
    let is_special = |c: char| !c.is_ascii_alphanumeric() && !matches!(c, '-' | '.');
    id.replace(is_special, "_")
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

/// Writes text of a size in pixels.
pub fn draw_label(area: &Area<'_>, text: &str, px: u32, at: (i32, i32)) -> DrawResult {
    area.draw_text(text, &(FONT, px).into_text_style(area), at)
}

/// Returns the height of lines of small print.
pub fn small_print_height(lines: usize) -> u32 {
    u32::try_from(lines).unwrap_or(0) * SMALL_LINE
}

/// Writes lines of small print from a height on.
pub fn draw_small_print<'t>(
    area: &Area<'_>,
    lines: impl Iterator<Item = &'t str>,
    from: u32,
) -> DrawResult {
    let small = (FONT, SMALL_PX).with_color(BLACK.mix(0.7)).into_text_style(&SIZE);
    for (line, y) in lines.zip((from..).step_by(SMALL_LINE as usize)) {
        area.draw_text(line, &small, (16, y.try_into().unwrap_or(i32::MAX)))?;
    }
    Ok(())
}

/// Draws a sample of the line of a series for a legend.
pub fn draw_line_key(legend: &Area<'_>, sign: Sign, (x, y): (i32, i32)) -> DrawResult {
    legend.draw(&line(sign, vec![(x, y), (x + 24, y)]))
}

/// Draws a sample of the mark of a series for a legend.
pub fn draw_mark_key(legend: &Area<'_>, sign: Sign, (x, y): (i32, i32)) -> DrawResult {
    legend.draw(&(EmptyElement::at((x + 12, y)) + mark(sign, (0, 0))))
}

/// Draws a sample of the line of a series, with its mark, for a legend.
pub fn draw_line_and_mark_key(legend: &Area<'_>, sign: Sign, at: (i32, i32)) -> DrawResult {
    draw_line_key(legend, sign, at)?;
    draw_mark_key(legend, sign, at)
}

/// Draws a legend to the right, in which `draw_key` draws the sample of each entry, and returns the
/// area to the left.
pub fn with_legend<'a>(
    area: &Area<'a>,
    entries: &[(Sign, &str)],
    draw_key: impl Fn(&Area<'a>, Sign, (i32, i32)) -> DrawResult,
) -> DrawResult<Area<'a>> {
    let (width, _) = area.dim_in_pixel();
    let (chart, legend) =
        area.split_horizontally(i32::try_from(width).unwrap_or(i32::MAX) - LEGEND_WIDTH);
    let mut y = 56;
    for &(sign, name) in entries {
        draw_key(&legend, sign, (6, y))?;
        // A name may be followed by lines of small print.
        for (n, line) in (0..).zip(name.lines()) {
            let px = if n == 0 { LABEL_PX } else { LABEL_PX - 4 };
            draw_label(&legend, line, px, (36, y - 7 + 18 * n))?;
        }
        y += LEGEND_LINE + 18 * i32::try_from(name.lines().count().saturating_sub(1)).unwrap_or(0);
    }
    Ok(chart)
}

/// Returns a chart builder with space for the labels of its axes.
pub fn chart_builder<'a, 'b>(area: &'b Area<'a>) -> ChartBuilder<'b, 'b, SVGBackend<'a>> {
    let mut builder = ChartBuilder::on(area);
    builder.margin(12).x_label_area_size(44).y_label_area_size(76);
    builder
}

/// Returns the mesh of a chart with the style of all pictures.
pub fn mesh<'c, 'm, 's>(
    chart: &'m mut Chart<'c, 's>,
) -> MeshStyle<'c, 'm, Axis, Axis, SVGBackend<'s>> {
    let mut style = chart.configure_mesh();
    style.label_style((FONT, LABEL_PX)).light_line_style(BLACK.mix(0.06));
    style
}

/// Returns a builder of a chart of lanes, whose names are to the left of the chart.
pub fn lane_chart_builder<'a, 'b>(
    area: &'b Area<'a>,
    names_width: u32,
) -> ChartBuilder<'b, 'b, SVGBackend<'a>> {
    let mut builder = ChartBuilder::on(area);
    builder.margin(12).x_label_area_size(48).y_label_area_size(names_width);
    builder
}

/// Returns the mesh of a chart of lanes, which has no vertical axis.
pub fn lane_mesh<'c, 'm, 's>(
    chart: &'m mut Chart<'c, 's>,
) -> MeshStyle<'c, 'm, Axis, Axis, SVGBackend<'s>> {
    let mut style = mesh(chart);
    style.disable_y_mesh().disable_y_axis();
    style
}

/// Writes the name of a lane to the left of its chart. `start` is the start of the lane.
pub fn draw_lane_name(
    area: &Area<'_>,
    name: &str,
    style: &TextStyle<'_>,
    start: (i32, i32),
    names_width: u32,
) -> DrawResult {
    let left = start.0 - i32::try_from(names_width).unwrap_or(0) + 10;
    area.draw_text(name, style, (left, start.1 - 7))
}

/// Draws a curve in the colour and dash of a series.
pub fn draw_curve(chart: &mut Chart<'_, '_>, sign: Sign, points: Vec<(f64, f64)>) -> DrawResult {
    let style = colour(sign).stroke_width(2);
    match sign.dash {
        Dash::Solid => chart.draw_series(LineSeries::new(points, style))?,
        Dash::Dashed { on, off } => {
            chart.draw_series(DashedLineSeries::new(points, on, off, style))?
        }
    };
    Ok(())
}

/// Returns a title with the parameters shared by all series.
pub fn title(what: &str, shared: &str) -> String {
    if shared.is_empty() { what.to_owned() } else { format!("{what} ({shared})") }
}

/// Returns a line in the colour and dash of a series.
pub fn line<'a>(
    sign: Sign,
    points: Vec<(i32, i32)>,
) -> DynElement<'static, SVGBackend<'a>, (i32, i32)> {
    let style = colour(sign).stroke_width(2);
    match sign.dash {
        Dash::Solid => PathElement::new(points, style).into_dyn(),
        Dash::Dashed { on, off } => DashedPathElement::new(points, on, off, style).into_dyn(),
    }
}

/// Converts a point of a chart to the coordinates of the area on which the chart is drawn.
pub fn within(area: &Area<'_>, (x, y): (i32, i32)) -> (i32, i32) {
    let (across, down) = area.get_pixel_range();
    (x - across.start, y - down.start)
}

/// Colour of curves in the background.
pub const GHOST: RGBColor = RGBColor(0xdd, 0xdd, 0xdd);

/// Pixels between two lines of a hatched zone.
const HATCH_STEP: i32 = 8;

/// Draws a hatched zone between two corners, for values that are not known exactly.
pub fn draw_hatched(
    area: &Area<'_>,
    (x0, y0): (i32, i32),
    (x1, y1): (i32, i32),
    sign: Sign,
) -> DrawResult {
    let (left, right, top, bottom) = (x0.min(x1), x0.max(x1), y0.min(y1), y0.max(y1));
    let style = colour(sign).mix(0.6).stroke_width(1);
    area.draw(&Rectangle::new([(left, top), (right, bottom)], style))?;
    // On each of these lines, x + y is constant.
    let lines = (left + top..right + bottom).step_by(HATCH_STEP as usize);
    for sum in lines {
        let ends = [(sum - top).min(right), (sum - bottom).max(left)];
        area.draw(&PathElement::new(ends.map(|x| (x, sum - x)).to_vec(), style))?;
    }
    Ok(())
}

/// Converts a value for a logarithmic axis; early and punctual ticks are on its lower edge.
pub fn logarithmic(ns: i64) -> f64 {
    ns.max(1) as f64
}

/// Formats a label of a logarithmic axis in nanoseconds, with a suitable unit.
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

/// Steps of the marks within a decade, from the coarsest.
const MARK_STEPS: [&[f64]; 4] = [
    &[1.0],
    &[1.0, 3.0],
    &[1.0, 2.0, 5.0],
    &[1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0],
];

/// Returns the marks of a logarithmic axis: the decades, and steps of each if there are few decades.
/// There are at least two, which are the ends of a very short axis. Labels do not overlap in a chart
/// of half the usual width.
fn marks(range: &Range<f64>) -> Vec<f64> {
    let first = match range.end / range.start {
        span if span < 1e2 => 2,
        span if span < 1e3 => 1,
        _ => 0,
    };
    let candidates = MARK_STEPS[first..].iter().map(|steps| step_marks(range, steps));
    candidates.into_iter().find(|marks| marks.len() > 1).unwrap_or(vec![range.start, range.end])
}

/// Returns the steps of every decade that are in a range.
fn step_marks(range: &Range<f64>, steps: &[f64]) -> Vec<f64> {
    let mut marks = Vec::new();
    for decade in range.start.log10().floor() as i32..=range.end.log10().floor() as i32 {
        for step in steps {
            marks.push(step * 10_f64.powi(decade));
        }
    }
    // The end may be a mark, and is a little too large or too small after the computation.
    marks.retain(|mark| (range.start..=range.end * (1.0 + 1e-9)).contains(mark));
    marks
}

/// Returns a logarithmic axis with few marks.
pub fn logarithmic_axis(range: &Range<f64>) -> Axis {
    Axis::logarithmic_with_marks(range.clone(), marks(range))
}

/// Returns the range of whole decades around the values.
pub fn decades(values: impl Iterator<Item = i64>) -> Range<f64> {
    let (low, high) = extremes(values.map(logarithmic), 1.0);
    // Without a value, any bounded decade is valid.
    let low = low.min(high);
    let floor = 10_f64.powf(low.log10().floor());
    let ceiling = 10_f64.powf(high.log10().ceil());
    floor..ceiling.max(floor * 10.0)
}

/// Returns the minimum and the maximum of values. Without a value, the minimum is `f64::MAX`; the
/// maximum is at least `min_high`.
pub fn extremes(values: impl Iterator<Item = f64>, min_high: f64) -> (f64, f64) {
    let (mut low, mut high) = (f64::MAX, min_high);
    for value in values {
        (low, high) = (low.min(value), high.max(value));
    }
    (low, high)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn pictures_have_printable_text() {
        let name = "a\u{202e}b\u{1b}\u{2028}\u{ffff}<";
        let Picture { svg, .. } =
            draw_sized("name", name, SIZE, |area| draw_label(area, name, LABEL_PX, (0, 0)));
        let shown = "a\u{fffd}b\u{fffd}\u{fffd}\u{fffd}&lt;";
        assert_eq!(svg.matches(shown).count(), 2, "the title and the label: {svg}");
    }

    #[test]
    fn marks_are_coarse_if_possible() {
        assert_eq!(marks(&(8.0..120.0)), [10.0, 20.0, 50.0, 100.0]);
        assert_eq!(marks(&(21.0..60.0)), [25.0, 30.0, 40.0, 50.0, 60.0]);
        assert_eq!(marks(&(0.9..2e4)), [1.0, 10.0, 100.0, 1_000.0, 10_000.0]);
        assert_eq!(marks(&(2.1..2.2)), [2.1, 2.2], "the ends of a very short axis");
        assert_eq!(marks(&(10.0..1e4)), [10.0, 100.0, 1_000.0, 10_000.0], "with the end");
    }

    proptest! {
        #[test]
        fn axes_have_two_labels(start in 0.5_f64..1e9, factor in 1.8_f64..1e6) {
            let range = start..start * factor;
            let marks = marks(&range);
            let labels: Vec<String> = marks.iter().map(time_label).collect();
            prop_assert!(labels.len() > 1 && labels[0] != labels[1], "{:?}: {:?}", range, labels);
            prop_assert!(marks.iter().all(|mark| (start..=range.end * 1.000_1).contains(mark)));
        }
    }
}
