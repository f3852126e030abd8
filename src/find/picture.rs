//! Lateness and cost over the period: what was measured at each, and where the goals lie.

use std::collections::BTreeMap;

use files::find::{Find, Look};
use plotters::element::DashedPathElement;
use plotters::prelude::*;

use crate::find::text::names;
use crate::picture::canvas::{
    Area, DrawResult, FONT, LABEL_PX, Picture, SIZE, TITLE_PX, chart, colour, draw_sized, line,
    logarithmic, mark, marks, time_label, with_legend, within,
};
use crate::picture::palette::{Sign, Signs};

const HEIGHT: u32 = 800;
const HEAD: i32 = 60;
/// What the axes leave free around the points, as a factor.
const ROOM: f64 = 1.35;

/// A look's value, and its interval.
type Shown = dyn Fn(&Look) -> Option<(f64, Option<[f64; 2]>)>;

/// One of the two charts.
struct Chart {
    of: String,
    label: fn(&f64) -> String,
    limit: Option<f64>,
    value: Box<Shown>,
}

/// `None` where nothing was measured.
pub fn picture(find: &Find) -> Option<Picture> {
    find.tickers.iter().any(|t| !t.looks.is_empty()).then(|| {
        draw_sized("find", (SIZE.0, HEIGHT), |area| {
            let (head, body) = area.split_vertically(HEAD);
            let title = "Lateness and cost over the period";
            head.draw_text(title, &(FONT, TITLE_PX).into_text_style(&head), (12, 8))?;
            let machine = find.host.cpu_model.as_deref().unwrap_or(&find.host.os);
            let note = format!(
                "Dashed: the goals. Bars: the interval of each look. {}, {machine}",
                find.started_utc
            );
            head.draw_text(&note, &(FONT, LABEL_PX - 2).into_text_style(&head), (12, 36))?;
            let names = names(find);
            let signs = Signs::from_names(find.tickers.iter().enumerate().map(|(i, t)| {
                let twins =
                    find.tickers[..i].iter().filter(|other| other.subject == t.subject).count();
                (t.subject.as_str(), twins)
            }));
            let sign = |i: usize| {
                let twins = find.tickers[..i]
                    .iter()
                    .filter(|t| t.subject == find.tickers[i].subject)
                    .count();
                signs.sign(&find.tickers[i].subject, twins)
            };
            let signs: Vec<Sign> = (0..find.tickers.len()).map(sign).collect();
            let entries: Vec<(Sign, &str)> =
                signs.iter().copied().zip(names.iter().map(String::as_str)).collect();
            let body = with_legend(&body, &entries, |legend, sign, (x, y)| {
                legend.draw(&line(sign, vec![(x, y), (x + 24, y)]))?;
                legend.draw(&(EmptyElement::at((x + 12, y)) + mark(sign, (0, 0))))
            })?;
            let cells = body.split_evenly((2, 1));
            cells
                .iter()
                .zip([lateness(find), cpu(find)])
                .try_for_each(|(cell, chart)| panel(cell, find, &signs, &chart))
        })
    })
}

/// The first goal that is of lateness; p99 without one.
fn lateness(find: &Find) -> Chart {
    let place = find.goals.iter().position(|goal| goal.unit == "ns" && goal.limit.is_some());
    let goal = place.map(|place| &find.goals[place]);
    let value = move |look: &Look| match place {
        Some(place) => Some((look.checks[place].value?, look.checks[place].interval)),
        None => Some((look.p99_ns? as f64, None)),
    };
    let of = format!("lateness, {}", goal.map_or("p99", |goal| &goal.name));
    Chart { of, label: time_label, limit: goal.and_then(|goal| goal.limit), value: Box::new(value) }
}

fn cpu(find: &Find) -> Chart {
    let limit = find.goals.iter().find(|goal| goal.name == "cpu").and_then(|goal| goal.limit);
    let label = |percent: &f64| format!("{percent} %");
    Chart {
        of: "CPU, of one core".to_owned(),
        label,
        limit,
        value: Box::new(|look| Some((look.cpu_percent?, None))),
    }
}

fn panel(area: &Area<'_>, find: &Find, signs: &[Sign], what: &Chart) -> DrawResult {
    let looks = || find.tickers.iter().flat_map(|t| &t.looks);
    let drawn = |value: f64| value.clamp(1e-3, 1e12);
    let values = looks()
        .filter_map(|look| (what.value)(look))
        .flat_map(|(value, ci)| [value].into_iter().chain(ci.into_iter().flatten()));
    let y = around(values.chain(what.limit).map(drawn));
    let x =
        around(looks().map(|look| look.period_ns as f64).chain(find.range_ns.map(|ns| ns as f64)));
    let mut chart = chart(area).build_cartesian_2d(
        x.clone().log_scale().with_key_points(marks(&x)),
        y.clone().log_scale().with_key_points(marks(&y)),
    )?;
    chart
        .configure_mesh()
        .x_desc("period")
        .y_desc(&what.of)
        .max_light_lines(0)
        .x_label_formatter(&time_label)
        .y_label_formatter(&what.label)
        .label_style((FONT, LABEL_PX))
        .draw()?;
    let pixel = |x: f64, y: f64| within(area, chart.backend_coord(&(x, drawn(y))));
    if let Some(limit) = what.limit {
        let ends = vec![pixel(x.start, limit), pixel(x.end, limit)];
        area.draw(&DashedPathElement::new(ends, 6, 4, BLACK.stroke_width(1)))?;
    }
    for (ticker, sign) in find.tickers.iter().zip(signs) {
        // Of a period that was looked at again, the last look: it has the most ticks.
        let points: BTreeMap<u64, (f64, Option<[f64; 2]>)> = ticker
            .looks
            .iter()
            .filter_map(|look| (what.value)(look).map(|value| (look.period_ns, value)))
            .collect();
        area.draw(&line(
            *sign,
            points.iter().map(|(period, value)| pixel(*period as f64, value.0)).collect(),
        ))?;
        for (period, (value, interval)) in points {
            let period = logarithmic(i64::try_from(period).unwrap_or(i64::MAX));
            if let Some([low, high]) = interval {
                let bar = vec![pixel(period, low), pixel(period, high)];
                area.draw(&PathElement::new(bar, colour(*sign).stroke_width(1)))?;
            }
            area.draw(&(EmptyElement::at(pixel(period, value)) + mark(*sign, (0, 0))))?;
        }
    }
    Ok(())
}

/// A range with room on both sides; a decade where there is nothing.
fn around(values: impl Iterator<Item = f64>) -> std::ops::Range<f64> {
    let (low, high) = values.fold((f64::MAX, 0.0_f64), |(l, h), v| (l.min(v), h.max(v)));
    if low > high { 1.0..10.0 } else { low / ROOM..high * ROOM }
}
