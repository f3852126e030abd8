//! Why the latest ticks were late: causes, round by round, and the stories of the longest.

use cli::time::format_time;
use files::report::Report;
use files::report::why::{Class, Why, WhyRound};

use crate::render::html::escape::escaped;
use crate::render::why::{Answer, Cause, answers, part_of_round};

/// Of the stacked bars, in units of the drawing.
const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 120.0;

/// Empty where nobody asked.
pub(super) fn section(report: &Report) -> String {
    let all: String = answers(report).map(|answer| one(&answer)).collect();
    if all.is_empty() {
        String::new()
    } else {
        format!("<h2>Why the latest ticks were late</h2>\n{all}")
    }
}

fn one(answer: &Answer<'_>) -> String {
    let cause = |c: Cause| {
        let (share, evidence) = (escaped(&c.share), escaped(&c.evidence));
        let swatch = format!(
            "<svg width=\"10\" height=\"10\"><rect width=\"10\" height=\"10\" fill=\"{}\"/></svg>",
            colour(c.class)
        );
        format!(
            "<tr><td>{swatch}</td><td>{share}</td><td class=\"left\">{}</td><td class=\"left\">{evidence}</td></tr>\n",
            c.words
        )
    };
    let causes: String = answer.causes().into_iter().map(cause).collect();
    let causes = if causes.is_empty() {
        causes
    } else {
        format!("<table class=\"causes\"><tbody>\n{causes}</tbody></table>\n")
    };
    let bars = if answer.why.shares_ns.is_some() { bars(answer.why) } else { String::new() };
    let stories: String = answer
        .stories()
        .filter_map(|story| {
            let (tick, causes) =
                story.split_once(": ").map(|(t, c)| (t.to_owned(), c.to_owned()))?;
            let (tick, causes) = (escaped(&tick), escaped(&causes));
            Some(format!("<details><summary>{tick}</summary><p>{causes}</p></details>\n"))
        })
        .collect();
    let next = answer
        .next()
        .map_or(String::new(), |next| format!("<p class=\"note\">{}</p>\n", escaped(&next)));
    let way = answer.way().map_or(String::new(), |way| format!("<p>{}</p>\n", escaped(&way)));
    format!("<p>{}</p>\n{causes}{bars}{stories}{way}{next}", escaped(&answer.heading()))
}

/// A bar a round, as high as the lateness of its late ticks, made of its causes.
fn bars(why: &Why) -> String {
    let most = why.rounds.iter().map(|r| r.lateness_ns).max().unwrap_or(0).max(1) as f64;
    let width = WIDTH / why.rounds.len().max(1) as f64;
    let bar = |(i, round): (usize, &WhyRound)| {
        let mut top = HEIGHT;
        let part = |class: Class| {
            let height = round.shares_ns.ns(class) as f64 / most * HEIGHT;
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
        let told: Vec<String> = large.map(|class| part_of_round(&round.shares_ns, class)).collect();
        let title = format!(
            "round {}: {} in {} late ticks; {}",
            round.index,
            format_time(round.lateness_ns as i64),
            round.late_ticks,
            told.join(", ")
        );
        if parts.is_empty() {
            parts
        } else {
            format!("<g><title>{}</title>{parts}</g>\n", escaped(&title))
        }
    };
    let all: String = why.rounds.iter().enumerate().map(bar).collect();
    format!(
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"lateness by cause, round by round\">\n{all}</svg>\n\
         <p class=\"note\">Lateness of the late ticks by cause, round by round; the highest bar: {}. Point at one for its parts.</p>\n",
        format_time(most as i64)
    )
}

/// Dark enough on light, and light enough on dark.
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
    use crate::render::why::words;

    #[test]
    fn every_cause_has_a_colour_and_words_of_its_own() {
        let distinct = |of: fn(Class) -> &'static str| {
            Class::ALL.map(of).into_iter().collect::<std::collections::BTreeSet<_>>()
        };
        assert_eq!(
            (distinct(colour).len(), distinct(words).len()),
            (Class::ALL.len(), Class::ALL.len())
        );
    }
}
