//! Draws lateness and cost over the period, with the goals as wide lines.

use std::collections::BTreeMap;
use std::ops::Range;

use files::find::{Find, Goal, Look, Ticker};
use plotters::prelude::*;

use crate::find::text::{self, names};
use render::picture::canvas::{
    Area, DrawResult, LABEL_PX, Picture, SIZE, chart_builder, colour, draw_label,
    draw_line_and_mark_key, draw_small_print, draw_with_captions, extremes, line, logarithmic,
    logarithmic_axis, mark, mesh, small_print_height, time_label, with_legend, within,
};
use render::picture::palette::{Sign, Signs};
use render::report::fitness;

const HEIGHT: u32 = 770;
/// Width of the line of a goal, which is wider than those of tickers.
const GOAL_WIDTH: u32 = 6;
/// The free space of the axes around the points, as a factor.
const AXIS_MARGIN: f64 = 1.35;

/// A value of a measurement, with its confidence interval.
#[derive(Clone, Copy)]
struct Point {
    value: f64,
    interval: Option<[f64; 2]>,
}

/// The number of a measurement that a chart shows.
#[derive(Clone, Copy)]
enum Quantity {
    /// The number of a goal, by its index.
    Goal(usize),
    P99,
    Cpu,
}

impl Quantity {
    fn point(self, look: &Look) -> Option<Point> {
        let (value, interval) = match self {
            Self::Goal(index) => (look.checks[index].value?, look.checks[index].interval),
            Self::P99 => (look.p99_ns? as f64, None),
            Self::Cpu => (look.cpu_percent?, None),
        };
        Some(Point { value, interval })
    }
}

/// One of the two charts.
struct ChartContent {
    title: String,
    label: fn(&f64) -> String,
    /// The value of the goal, and its description.
    limit: Option<(f64, String)>,
    quantity: Quantity,
}

/// Draws the picture. Returns `None` if nothing was measured.
pub fn picture(find: &Find) -> Option<Picture> {
    let has_looks = find.tickers.iter().any(|t| !t.looks.is_empty());
    if has_looks {
        let machine = find.host.cpu_model.as_deref().unwrap_or(&find.host.os);
        let mut footer = vec![format!("{}, {machine}", find.started_utc)];
        footer.extend(fitness::sentence(find.fitness.as_ref()));
        let draw = |area: &Area<'_>| draw(area, find);
        Some(draw_with_captions("find", &text::answer(find), (SIZE.0, HEIGHT), &footer, draw))
    } else {
        None
    }
}

fn draw(area: &Area<'_>, find: &Find) -> DrawResult {
    let (head, body) = area.split_vertically(small_print_height(1));
    let charts = [lateness_chart(find), cpu_chart(find)];
    draw_small_print(&head, std::iter::once(note(find, &charts).as_str()), 0)?;
    let (ticker_names, signs) = (names(find), ticker_signs(find));
    let entries: Vec<(Sign, &str)> =
        signs.iter().copied().zip(ticker_names.iter().map(String::as_str)).collect();
    let body = with_legend(&body, &entries, draw_line_and_mark_key)?;
    for (cell, chart) in body.split_evenly((2, 1)).iter().zip(charts) {
        draw_chart(cell, find, &signs, &chart)?;
    }
    Ok(())
}

/// Explains what the charts contain.
fn note(find: &Find, charts: &[ChartContent]) -> String {
    let mut note = "Lateness and cost over the period.".to_owned();
    if charts.iter().any(|chart| chart.limit.is_some()) {
        note += " Wide grey line: the goal.";
    }
    let mut looks = find.tickers.iter().flat_map(|ticker| &ticker.looks);
    let has_bars = |quantity: Quantity, look: &Look| {
        quantity.point(look).is_some_and(|point| point.interval.is_some())
    };
    if looks.any(|look| charts.iter().any(|chart| has_bars(chart.quantity, look))) {
        note += " Bars: the interval of each measurement.";
    }
    note
}

/// Assigns a sign to each ticker. Tickers of one subject on different runtimes differ.
fn ticker_signs(find: &Find) -> Vec<Sign> {
    let mut numbered: Vec<(&str, usize)> = Vec::new();
    for ticker in &find.tickers {
        let name = ticker.subject.as_str();
        let earlier = numbered.iter().filter(|(other, _)| *other == name).count();
        numbered.push((name, earlier));
    }
    let signs = Signs::from_names(numbered.iter().copied());
    numbered.iter().map(|&(name, number)| signs.sign(name, number)).collect()
}

/// Shows the first goal of lateness, or p99 if there is none.
fn lateness_chart(find: &Find) -> ChartContent {
    let index = find.goals.iter().position(|goal| goal.unit == "ns" && goal.limit.is_some());
    let goal = index.map(|index| &find.goals[index]);
    ChartContent {
        title: format!("lateness, {}", goal.map_or("p99", |goal| &goal.name)),
        label: time_label,
        limit: goal.and_then(limit),
        quantity: index.map_or(Quantity::P99, Quantity::Goal),
    }
}

fn cpu_chart(find: &Find) -> ChartContent {
    let goal = find.goals.iter().find(|goal| goal.name == "cpu");
    ChartContent {
        title: "CPU, of one core".to_owned(),
        label: percent_label,
        limit: goal.and_then(limit),
        quantity: Quantity::Cpu,
    }
}

fn limit(goal: &Goal) -> Option<(f64, String)> {
    Some((goal.limit?, text::goal(goal)))
}

fn percent_label(percent: &f64) -> String {
    format!("{percent} %")
}

/// Limits a value to a range that a logarithmic axis can show.
fn clamp(value: f64) -> f64 {
    value.clamp(1e-3, 1e12)
}

/// Converts coordinates of a chart to pixels.
type ToPixel<'a> = &'a dyn Fn(f64, f64) -> (i32, i32);

fn draw_chart(area: &Area<'_>, find: &Find, signs: &[Sign], content: &ChartContent) -> DrawResult {
    let (periods, values) = (period_range(find), value_range(find, content));
    let (x, y) = (logarithmic_axis(&periods), logarithmic_axis(&values));
    let mut chart = chart_builder(area).build_cartesian_2d(x, y)?;
    mesh(&mut chart)
        .x_desc("period")
        .y_desc(&content.title)
        .max_light_lines(0)
        .x_label_formatter(&time_label)
        .y_label_formatter(&content.label)
        .draw()?;
    let pixel = |x: f64, y: f64| within(area, chart.backend_coord(&(x, clamp(y))));
    if let Some((limit, goal)) = &content.limit {
        let ends = [pixel(periods.start, *limit), pixel(periods.end, *limit)];
        let style = BLACK.mix(0.25).stroke_width(GOAL_WIDTH);
        area.draw(&PathElement::new(ends.to_vec(), style))?;
        draw_label(area, goal, LABEL_PX, (ends[0].0 + 6, ends[0].1 - 22))?;
    }
    for (ticker, sign) in find.tickers.iter().zip(signs) {
        draw_points(area, &final_points(ticker, content.quantity), *sign, &pixel)?;
    }
    Ok(())
}

/// Draws the points of a ticker, by period: the line, and for each point its interval and its mark.
fn draw_points(
    area: &Area<'_>,
    points: &BTreeMap<u64, Point>,
    sign: Sign,
    pixel: ToPixel<'_>,
) -> DrawResult {
    let vertices = points.iter().map(|(ns, point)| pixel(*ns as f64, point.value));
    area.draw(&line(sign, vertices.collect()))?;
    for (&period_ns, point) in points {
        let period = logarithmic(i64::try_from(period_ns).unwrap_or(i64::MAX));
        if let Some([low, high]) = point.interval {
            let bar = vec![pixel(period, low), pixel(period, high)];
            area.draw(&PathElement::new(bar, colour(sign).stroke_width(1)))?;
        }
        area.draw(&(EmptyElement::at(pixel(period, point.value)) + mark(sign, (0, 0))))?;
    }
    Ok(())
}

/// Returns the last point of each period of a ticker, which has the most ticks.
fn final_points(ticker: &Ticker, quantity: Quantity) -> BTreeMap<u64, Point> {
    let mut points = BTreeMap::new();
    for look in &ticker.looks {
        if let Some(point) = quantity.point(look) {
            points.insert(look.period_ns, point);
        }
    }
    points
}

fn period_range(find: &Find) -> Range<f64> {
    let looks = find.tickers.iter().flat_map(|ticker| &ticker.looks);
    let periods = looks.map(|look| look.period_ns).chain(find.range_ns);
    axis_range(periods.map(|ns| ns as f64))
}

fn value_range(find: &Find, content: &ChartContent) -> Range<f64> {
    let mut values = Vec::new();
    for look in find.tickers.iter().flat_map(|ticker| &ticker.looks) {
        if let Some(point) = content.quantity.point(look) {
            values.push(point.value);
            values.extend(point.interval.into_iter().flatten());
        }
    }
    values.extend(content.limit.iter().map(|(limit, _)| *limit));
    axis_range(values.into_iter().map(clamp))
}

/// Returns a range with a margin around the values, or a decade if there are none.
fn axis_range(values: impl Iterator<Item = f64>) -> Range<f64> {
    let (low, high) = extremes(values, 0.0);
    if low > high { 1.0..10.0 } else { low / AXIS_MARGIN..high * AXIS_MARGIN }
}
