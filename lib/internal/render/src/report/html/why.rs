//! The section on why the latest ticks were late: the causes, their shares in each round, and the
//! longest late ticks.

use cli::time::format_time;
use files::report::Report;
use files::report::why::{Class, Why, WhyRound};

use crate::document::html::escape;
use crate::report::why::{Cause, Diagnosis, diagnoses, format_class_share};

/// Size of the stacked bars, in units of the drawing.
const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 120.0;

/// Renders all diagnoses; empty if no subject was profiled.
pub(super) fn section(report: &Report) -> String {
    let text: String = diagnoses(report).map(|diagnosis| render_diagnosis(&diagnosis)).collect();
    if text.is_empty() {
        String::new()
    } else {
        format!("<h2>Why the latest ticks were late</h2>\n{text}")
    }
}

fn render_diagnosis(diagnosis: &Diagnosis<'_>) -> String {
    let cause = |c: Cause| {
        let (share, evidence) = (escape(&c.share), escape(&c.evidence));
        let swatch = format!(
            "<svg width=\"10\" height=\"10\"><rect width=\"10\" height=\"10\" fill=\"{}\"/></svg>",
            colour(c.class)
        );
        format!(
            "<tr><td>{swatch}</td><td>{share}</td><td class=\"left\">{}</td><td class=\"left\">{evidence}</td></tr>\n",
            c.words
        )
    };
    let causes: String = diagnosis.causes().into_iter().map(cause).collect();
    let causes = if causes.is_empty() {
        causes
    } else {
        format!("<table class=\"causes\"><tbody>\n{causes}</tbody></table>\n")
    };
    let bars = if diagnosis.why.shares_ns.is_some() { bars(diagnosis.why) } else { String::new() };
    let longest: String = diagnosis
        .longest_ticks()
        .filter_map(|text| {
            let (tick, causes) =
                text.split_once(": ").map(|(t, c)| (t.to_owned(), c.to_owned()))?;
            let (tick, causes) = (escape(&tick), escape(&causes));
            Some(format!("<details><summary>{tick}</summary><p>{causes}</p></details>\n"))
        })
        .collect();
    let next = diagnosis
        .next_tier()
        .map_or(String::new(), |next| format!("<p class=\"note\">{}</p>\n", escape(&next)));
    let path =
        diagnosis.wakeup_path().map_or(String::new(), |path| format!("<p>{}</p>\n", escape(&path)));
    format!("<p>{}</p>\n{causes}{bars}{longest}{path}{next}", escape(&diagnosis.heading()))
}

/// Renders one bar per round: its height is the lateness of the late ticks, and its parts are the
/// causes.
fn bars(why: &Why) -> String {
    let max_ns = why.rounds.iter().map(|r| r.lateness_ns).max().unwrap_or(0).max(1) as f64;
    let width = WIDTH / why.rounds.len().max(1) as f64;
    let bar = |(i, round): (usize, &WhyRound)| {
        let mut top = HEIGHT;
        let part = |class: Class| {
            let height = round.shares_ns.ns(class) as f64 / max_ns * HEIGHT;
            top -= height;
            let (x, w) = (i as f64 * width, (width * 0.9).max(0.2));
            let colour = colour(class);
            if height < 0.05 {
                String::new()
            } else {
                format!(
                    "<rect x=\"{x:.2}\" y=\"{top:.2}\" width=\"{w:.2}\" height=\"{height:.2}\" fill=\"{colour}\"/>"
                )
            }
        };
        let parts: String = Class::ALL.into_iter().map(part).collect();
        let large = Class::ALL.into_iter().filter(|&class| round.shares_ns.ns(class) > 0);
        let shares: Vec<String> =
            large.map(|class| format_class_share(&round.shares_ns, class)).collect();
        let title = format!(
            "round {}: {} in {} late ticks; {}",
            round.index,
            format_time(round.lateness_ns as i64),
            round.late_ticks,
            shares.join(", ")
        );
        if parts.is_empty() {
            parts
        } else {
            format!("<g><title>{}</title>{parts}</g>\n", escape(&title))
        }
    };
    let bars: String = why.rounds.iter().enumerate().map(bar).collect();
    format!(
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"lateness by cause, round by round\">\n{bars}</svg>\n\
         <p class=\"note\">Lateness of the late ticks by cause, round by round; the highest bar: {}. Point at one for its parts.</p>\n",
        format_time(max_ns as i64)
    )
}

/// Returns the colour of a cause, with enough contrast on light and on dark backgrounds.
fn colour(class: Class) -> &'static str {
    match class {
        Class::Queue => "#3b82c4",
        Class::Quota => "#8e5bb5",
        Class::OwnCpu => "#d98324",
        Class::Faults => "#b5651d",
        Class::Blocked => "#c2453d",
        Class::Stopped => "#7a1f3d",
        Class::Slack => "#5d9c59",
        Class::Host => "#555d8a",
        Class::Below => "#8a8f98",
        Class::Path => "#b8c4a0",
        Class::Unexplained => "#c9c9c9",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::why::class_name;

    #[test]
    fn causes_have_distinct_colours_and_names() {
        let distinct = |property: fn(Class) -> &'static str| {
            Class::ALL.map(property).into_iter().collect::<std::collections::BTreeSet<_>>()
        };
        assert_eq!(
            (distinct(colour).len(), distinct(class_name).len()),
            (Class::ALL.len(), Class::ALL.len())
        );
    }
}
