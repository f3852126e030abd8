//! The code that ran while ticks were late, in words and as a picture.

use std::collections::BTreeMap;

use cli::printable::to_printable_message;
use cli::time::format_time;
use cli::words::{pluralize, pluralize_grouped};
use files::report::why::{FoldedStack, LateCode, LateFunction, SampledCode};

use crate::document::Table;
use crate::document::html::escape;

/// Maximum number of functions in a heading.
const MAX_HEADING_FUNCTIONS: usize = 2;
/// Minimum share of a function in a heading.
const MIN_HEADING_SHARE: f64 = 0.2;
/// Size of the picture of the stacks, in units of the drawing.
const WIDTH: f64 = 900.0;
const ROW_HEIGHT: f64 = 18.0;
const MAX_ROWS: usize = 24;
/// Width of a character, and minimum width of a function that is drawn.
const CHARACTER_WIDTH: f64 = 7.0;
const MIN_WIDTH: f64 = 0.5;
const COLOURS: [&str; 4] = ["#d98324", "#c98a4b", "#b5651d", "#e0a458"];

/// Describes the function that ran while a tick was late.
pub fn describe(code: &LateCode) -> String {
    format!("{} of it in {}", format_share(code.share), path(&code.function, &code.callers))
}

/// Joins a function and its callers.
fn path(function: &str, callers: &[String]) -> String {
    let names = std::iter::once(function).chain(callers.iter().map(String::as_str));
    names.map(to_printable_message).collect::<Vec<_>>().join(" ← ")
}

fn format_share(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// Describes the functions with the largest shares of the lateness; empty if none has a large one.
pub fn heading(code: &SampledCode) -> String {
    let large = code.functions.iter().filter(|function| function.share >= MIN_HEADING_SHARE);
    let mut parts = Vec::new();
    for LateFunction { function, callers, share, .. } in large.take(MAX_HEADING_FUNCTIONS) {
        let of_lateness = if parts.is_empty() { " of their lateness" } else { "" };
        parts.push(format!("{}{of_lateness} in {}", format_share(*share), path(function, callers)));
    }
    parts.join(", ")
}

/// Lists the functions; empty if there are none.
pub fn table(code: &SampledCode) -> Table {
    let mut table = Table::new(["share", "function", "ticks"], 2).with_words_last();
    for LateFunction { function, callers, ticks, share } in &code.functions {
        table.row([format_share(*share), path(function, callers), pluralize(*ticks, "tick")]);
    }
    table
}

/// Describes how much of the lateness was sampled, and what is missing.
pub fn notes(code: &SampledCode) -> impl Iterator<Item = String> {
    let coverage = match &code.missing {
        Some(reason) => {
            format!("The functions that ran are not known; {}.", to_printable_message(reason))
        }
        None => format!(
            "Functions are from {} of the stacks of the threads, one every {} of CPU time, which cover {} of the lateness.",
            pluralize_grouped(code.samples, "sample"),
            format_time(code.interval_ns as i64),
            format_share(code.coverage)
        ),
    };
    let hint = code.hint.as_ref().filter(|_| code.samples > 0);
    [Some(coverage), hint.map(|hint| format!("{}.", to_printable_message(hint)))]
        .into_iter()
        .flatten()
}

/// A function with the functions that it called.
#[derive(Default)]
struct Call<'a> {
    samples: u64,
    callees: BTreeMap<&'a str, Call<'a>>,
}

/// Draws stacks: the width of a function is its number of samples, below its caller. Empty if there
/// are none.
pub fn flame(stacks: &[FoldedStack]) -> String {
    let mut root = Call::default();
    let mut rows = 0;
    for stack in stacks {
        rows = rows.max(stack.frames.len().min(MAX_ROWS));
        root.samples += stack.samples;
        let mut call = &mut root;
        for name in stack.frames.iter().take(MAX_ROWS) {
            call = call.callees.entry(name).or_default();
            call.samples += stack.samples;
        }
    }
    if root.samples == 0 {
        return String::new();
    }
    let mut boxes = String::new();
    draw_callees(&root, 0.0, 0, WIDTH / root.samples as f64, &mut boxes);
    let height = rows as f64 * ROW_HEIGHT;
    format!(
        "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"stacks while ticks were late\">\n{boxes}</svg>\n\
         <p class=\"note\">Stacks while ticks were late, each function below its caller; the width is the number of its \
         samples. Point at one for its name.</p>\n"
    )
}

fn draw_callees(caller: &Call<'_>, left: f64, row: usize, scale: f64, boxes: &mut String) {
    let mut x = left;
    for (name, call) in &caller.callees {
        let width = call.samples as f64 * scale;
        if width >= MIN_WIDTH {
            let y = row as f64 * ROW_HEIGHT;
            let colour = COLOURS[name.len() % COLOURS.len()];
            let title = escape(&format!("{name}: {}", pluralize_grouped(call.samples, "sample")));
            *boxes += &format!(
                "<g><title>{title}</title><rect x=\"{x:.1}\" y=\"{y}\" width=\"{width:.1}\" height=\"{:.1}\" fill=\"{colour}\" \
                 stroke=\"var(--paper)\"/>{}</g>\n",
                ROW_HEIGHT - 1.0,
                draw_name(name, x, y, width)
            );
            draw_callees(call, x, row + 1, scale, boxes);
        }
        x += width;
    }
}

/// Draws the end of a name that fits into a box.
fn draw_name(name: &str, x: f64, y: f64, width: f64) -> String {
    let capacity = (width / CHARACTER_WIDTH) as usize;
    let length = name.chars().count();
    if capacity < 4 {
        return String::new();
    }
    let shown: String = match length <= capacity {
        true => name.to_owned(),
        false => std::iter::once('…').chain(name.chars().skip(length + 1 - capacity)).collect(),
    };
    format!(
        "<text x=\"{:.1}\" y=\"{:.1}\" style=\"fill:#1a1a1a\">{}</text>",
        x + 3.0,
        y + 13.0,
        escape(&shown)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(name: &str, share: f64) -> LateFunction {
        LateFunction {
            function: name.to_owned(),
            callers: vec!["main".to_owned()],
            ticks: 3,
            share,
        }
    }

    fn code(functions: Vec<LateFunction>) -> SampledCode {
        SampledCode {
            interval_ns: 997_000,
            samples: 1_200,
            coverage: 0.934,
            functions,
            stacks: Vec::new(),
            missing: None,
            hint: None,
        }
    }

    #[test]
    fn heading_names_large_shares() {
        let sampled =
            code(vec![function("parse\n", 0.6), function("drop", 0.25), function("f", 0.1)]);
        assert_eq!(
            heading(&sampled),
            "60 % of their lateness in parse ← main, 25 % in drop ← main"
        );
        assert_eq!(heading(&code(vec![function("f", 0.1)])), "");
    }

    #[test]
    fn notes_state_coverage_and_lacks() {
        let described = |code: SampledCode| notes(&code).collect::<Vec<_>>().join(" ");
        let known = described(code(Vec::new()));
        assert!(known.contains("1,200 samples") && known.contains("cover 93 %"), "{known}");
        let missing = Some("perf_event_open: denied".to_owned());
        let unknown = described(SampledCode { missing, samples: 0, ..code(Vec::new()) });
        assert_eq!(unknown, "The functions that ran are not known; perf_event_open: denied.");
        let hint = Some("svc has no symbols".to_owned());
        assert!(
            described(SampledCode { hint, ..code(Vec::new()) }).ends_with("svc has no symbols.")
        );
    }

    #[test]
    fn flame_has_a_box_per_call() {
        let stack = |frames: &[&str], samples| FoldedStack {
            frames: frames.iter().map(|name| (*name).to_owned()).collect(),
            samples,
        };
        let drawn = flame(&[
            stack(&["main", "<Session as Drop>::drop"], 30),
            stack(&["main", "parse"], 60),
            stack(&["main"], 10),
        ]);
        assert_eq!(drawn.matches("<rect").count(), 3, "{drawn}");
        assert!(drawn.contains("<title>main: 100 samples</title>"), "{drawn}");
        assert!(drawn.contains("&lt;Session as Drop&gt;::drop: 30 samples"), "{drawn}");
        assert!(drawn.contains("width=\"540.0\""), "{drawn}");
        assert_eq!(flame(&[]), "");
    }
}
