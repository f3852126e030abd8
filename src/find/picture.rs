//! Draws lateness and cost over the period, with the goals as dashed lines.

use std::collections::BTreeMap;

use files::find::{Find, Look, Ticker};
use plotters::element::DashedPathElement;
use plotters::prelude::*;

use crate::find::text::names;
use render::picture::canvas::{
    Area, DrawResult, FONT, LABEL_PX, Picture, SIZE, TITLE_PX, chart, colour, draw_sized, line,
    logarithmic, mark, marks, time_label, with_legend, within,
};
use render::picture::palette::{Sign, Signs};

const HEIGHT: u32 = 800;
const HEAD: i32 = 60;
/// The free space of the axes around the points, as a factor.
const AXIS_MARGIN: f64 = 1.35;

/// A value of a measurement, with its confidence interval.
#[derive(Clone, Copy)]
struct Point {
    value: f64,
    interval: Option<(f64, f64)>,
}

impl Point {
    fn ends(self) -> impl Iterator<Item = f64> {
        let interval = self.interval.into_iter().flat_map(|(low, high)| [low, high]);
        std::iter::once(self.value).chain(interval)
    }
}

type ReadPoint = dyn Fn(&Look) -> Option<Point>;

/// One of the two charts.
struct Chart {
    title: String,
    label: fn(&f64) -> String,
    limit: Option<f64>,
    point: Box<ReadPoint>,
}

/// Draws the picture. Returns `None` if nothing was measured.
pub fn picture(find: &Find) -> Option<Picture> {
    let has_looks = find.tickers.iter().any(|t| !t.looks.is_empty());
    has_looks.then(|| draw_sized("find", (SIZE.0, HEIGHT), |area| draw(area, find)))
}

fn draw(area: &Area<'_>, find: &Find) -> DrawResult {
    let (head, body) = area.split_vertically(HEAD);
    let title = "Lateness and cost over the period";
    head.draw_text(title, &(FONT, TITLE_PX).into_text_style(&head), (12, 8))?;
    let machine = find.host.cpu_model.as_deref().unwrap_or(&find.host.os);
    let note = format!(
        "Dashed: the goals. Bars: the interval of each look. {}, {machine}",
        find.started_utc
    );
    head.draw_text(&note, &(FONT, LABEL_PX - 2).into_text_style(&head), (12, 36))?;
    let (names, signs) = (names(find), ticker_signs(find));
    let entries: Vec<(Sign, &str)> =
        signs.iter().copied().zip(names.iter().map(String::as_str)).collect();
    let body = with_legend(&body, &entries, |legend, sign, (x, y)| {
        legend.draw(&line(sign, vec![(x, y), (x + 24, y)]))?;
        legend.draw(&(EmptyElement::at((x + 12, y)) + mark(sign, (0, 0))))
    })?;
    let cells = body.split_evenly((2, 1));
    let charts = [lateness_chart(find), cpu_chart(find)];
    cells.iter().zip(charts).try_for_each(|(cell, chart)| draw_chart(cell, find, &signs, &chart))
}

/// Assigns a sign to each ticker. Tickers of one subject on different runtimes differ.
fn ticker_signs(find: &Find) -> Vec<Sign> {
    let numbered: Vec<(&str, usize)> = find
        .tickers
        .iter()
        .enumerate()
        .map(|(i, ticker)| {
            let previous = &find.tickers[..i];
            let number = previous.iter().filter(|other| other.subject == ticker.subject).count();
            (ticker.subject.as_str(), number)
        })
        .collect();
    let signs = Signs::from_names(numbered.iter().copied());
    numbered.iter().map(|&(subject, number)| signs.sign(subject, number)).collect()
}

/// Shows the first goal of lateness, or p99 if there is none.
fn lateness_chart(find: &Find) -> Chart {
    let index = find.goals.iter().position(|goal| goal.unit == "ns" && goal.limit.is_some());
    let goal = index.map(|index| &find.goals[index]);
    let point = move |look: &Look| match index {
        Some(index) => {
            let check = &look.checks[index];
            let interval = check.interval.map(|[low, high]| (low, high));
            Some(Point { value: check.value?, interval })
        }
        None => Some(Point { value: look.p99_ns? as f64, interval: None }),
    };
    Chart {
        title: format!("lateness, {}", goal.map_or("p99", |goal| &goal.name)),
        label: time_label,
        limit: goal.and_then(|goal| goal.limit),
        point: Box::new(point),
    }
}

fn cpu_chart(find: &Find) -> Chart {
    let goal = find.goals.iter().find(|goal| goal.name == "cpu");
    Chart {
        title: "CPU, of one core".to_owned(),
        label: |percent| format!("{percent} %"),
        limit: goal.and_then(|goal| goal.limit),
        point: Box::new(|look| Some(Point { value: look.cpu_percent?, interval: None })),
    }
}

/// Limits a value to a range that a logarithmic axis can show.
fn clamp(value: f64) -> f64 {
    value.clamp(1e-3, 1e12)
}

fn draw_chart(area: &Area<'_>, find: &Find, signs: &[Sign], content: &Chart) -> DrawResult {
    let looks = || find.tickers.iter().flat_map(|t| &t.looks);
    let points = looks().filter_map(|look| (content.point)(look));
    let y = axis_range(points.flat_map(Point::ends).chain(content.limit).map(clamp));
    let periods = looks().map(|look| look.period_ns).chain(find.range_ns);
    let x = axis_range(periods.map(|ns| ns as f64));
    let mut chart = chart(area).build_cartesian_2d(
        x.clone().log_scale().with_key_points(marks(&x)),
        y.clone().log_scale().with_key_points(marks(&y)),
    )?;
    chart
        .configure_mesh()
        .x_desc("period")
        .y_desc(&content.title)
        .max_light_lines(0)
        .x_label_formatter(&time_label)
        .y_label_formatter(&content.label)
        .label_style((FONT, LABEL_PX))
        .draw()?;
    let pixel = |x: f64, y: f64| within(area, chart.backend_coord(&(x, clamp(y))));
    if let Some(limit) = content.limit {
        let ends = vec![pixel(x.start, limit), pixel(x.end, limit)];
        area.draw(&DashedPathElement::new(ends, 6, 4, BLACK.stroke_width(1)))?;
    }
    for (ticker, sign) in find.tickers.iter().zip(signs) {
        let points = final_points(ticker, content);
        let vertices = points.iter().map(|(ns, point)| pixel(*ns as f64, point.value));
        area.draw(&line(*sign, vertices.collect()))?;
        for (period_ns, point) in points {
            let period = logarithmic(i64::try_from(period_ns).unwrap_or(i64::MAX));
            if let Some((low, high)) = point.interval {
                let bar = vec![pixel(period, low), pixel(period, high)];
                area.draw(&PathElement::new(bar, colour(*sign).stroke_width(1)))?;
            }
            area.draw(&(EmptyElement::at(pixel(period, point.value)) + mark(*sign, (0, 0))))?;
        }
    }
    Ok(())
}

/// Returns the last point of each period of a ticker, which has the most ticks.
fn final_points(ticker: &Ticker, content: &Chart) -> BTreeMap<u64, Point> {
    let points = ticker.looks.iter();
    points.filter_map(|look| Some((look.period_ns, (content.point)(look)?))).collect()
}

/// Returns a range with a margin around the values, or a decade if there are none.
fn axis_range(values: impl Iterator<Item = f64>) -> std::ops::Range<f64> {
    let (low, high) = values.fold((f64::MAX, 0.0_f64), |(l, h), v| (l.min(v), h.max(v)));
    if low > high { 1.0..10.0 } else { low / AXIS_MARGIN..high * AXIS_MARGIN }
}
