//! The section on what delayed the worst ticks: the causes, their shares in each round, and the
//! longest late ticks.

use cli::time::format_time;
use files::report::Report;
use files::report::why::{Class, SampledCode, Why, WhyRound};

use crate::document::Document;
use crate::document::html::{escape, render};
use crate::report::late_code;
use crate::report::unexplained::GroupedDiagnoses;
use crate::report::why::{Cause, Diagnosis, diagnoses, format_class_share};

/// Size of the stacked bars, in units of the drawing.
const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 120.0;

/// Renders all diagnoses; empty if no subject was profiled.
pub(super) fn section(report: &Report) -> String {
    let GroupedDiagnoses { shown, sentences } = diagnoses(report);
    let mut text: String = shown.iter().map(render_diagnosis).collect();
    text.extend(sentences.iter().map(|sentence| format!("<p>{}</p>\n", escape(sentence))));
    if text.is_empty() {
        String::new()
    } else {
        format!("<h2>Why the worst ticks were late</h2>\n{text}")
    }
}

fn render_diagnosis(diagnosis: &Diagnosis<'_>) -> String {
    let mut html = format!("<p>{}</p>\n", escape(&diagnosis.heading()));
    html += &render_causes(diagnosis);
    if diagnosis.why.shares_ns.is_some() {
        html += &render_bars(diagnosis.why);
    }
    if let Some(code) = &diagnosis.why.code {
        html += &render_code(code);
    }
    for late in diagnosis.longest_ticks() {
        let (tick, causes) = (escape(&late.tick), escape(&late.causes));
        html += &format!("<details><summary>{tick}</summary><p>{causes}</p></details>\n");
    }
    if let Some(path) = diagnosis.wakeup_path() {
        html += &format!("<p>{}</p>\n", escape(&path));
    }
    for note in [diagnosis.losses(), diagnosis.next_tier()].into_iter().flatten() {
        html += &format!("<p class=\"note\">{}</p>\n", escape(&note));
    }
    html
}

/// Renders the functions that ran while ticks were late, with their stacks.
fn render_code(code: &SampledCode) -> String {
    let mut document = Document::new();
    let functions = late_code::table(code);
    if !functions.is_empty() {
        document.table(functions);
    }
    document.picture(late_code::flame(&code.stacks));
    document.notes(late_code::notes(code));
    render(&document)
}

/// Renders a table with a row per cause; empty if there are none.
fn render_causes(diagnosis: &Diagnosis<'_>) -> String {
    let rows: String = diagnosis.causes().iter().map(render_cause).collect();
    if rows.is_empty() {
        return rows;
    }
    format!("<table class=\"causes\"><tbody>\n{rows}</tbody></table>\n")
}

fn render_cause(cause: &Cause) -> String {
    let (share, evidence) = (escape(&cause.share), escape(&cause.evidence));
    let swatch = format!(
        "<svg width=\"10\" height=\"10\"><rect width=\"10\" height=\"10\" fill=\"{}\"/></svg>",
        colour(cause.class)
    );
    format!(
        "<tr><td>{swatch}</td><td>{share}</td><td class=\"left\">{}</td><td class=\"left\">{evidence}</td></tr>\n",
        cause.words
    )
}

/// Renders one bar per round: its height is the lateness of the late ticks, and its parts are the
/// causes.
fn render_bars(why: &Why) -> String {
    let max_ns = why.rounds.iter().map(|r| r.lateness_ns).max().unwrap_or(0).max(1) as f64;
    let mut bars = String::new();
    for (i, round) in why.rounds.iter().enumerate() {
        let parts = render_parts(round, i as f64, why.rounds.len() as f64, max_ns);
        if !parts.is_empty() {
            let title = escape(&describe_round(round));
            bars += &format!("<g><title>{title}</title>{parts}</g>\n");
        }
    }
    format!(
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"lateness by cause, round by round\">\n{bars}</svg>\n\
         <p class=\"note\">Lateness of the late ticks by cause, round by round; the highest bar: {}. Point at one for its parts.</p>\n",
        format_time(max_ns as i64)
    )
}

/// Renders the parts of the bar of a round, the first at the bottom. Parts that are too low to be
/// seen are left out.
fn render_parts(round: &WhyRound, index: f64, rounds: f64, max_ns: f64) -> String {
    let width = WIDTH / rounds;
    let (x, bar_width) = (index * width, (width * 0.9).max(0.2));
    let mut top = HEIGHT;
    let mut parts = String::new();
    for class in Class::ALL {
        let height = round.shares_ns.ns(class) as f64 / max_ns * HEIGHT;
        top -= height;
        if height >= 0.05 {
            let fill = colour(class);
            parts += &format!(
                "<rect x=\"{x:.2}\" y=\"{top:.2}\" width=\"{bar_width:.2}\" height=\"{height:.2}\" fill=\"{fill}\"/>"
            );
        }
    }
    parts
}

/// Describes a round for its tooltip.
fn describe_round(round: &WhyRound) -> String {
    let mut shares = Vec::new();
    for class in Class::ALL {
        if round.shares_ns.ns(class) > 0 {
            shares.push(format_class_share(&round.shares_ns, class));
        }
    }
    format!(
        "round {}: {} in {} late ticks; {}",
        round.index,
        format_time(round.lateness_ns as i64),
        round.late_ticks,
        shares.join(", ")
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
