//! What was found, in words: a line a ticker, and a sentence for what no line can say.

use std::time::Duration;

use cli::align::fit;
use cli::markdown::{self, escape_cell};
use cli::time::{format_number, format_time};
use cli::units;
use cli::wrap::{wrap, wrap_paragraph};
use files::find::{Check, Find, Finding, Goal, Look, StopReason, Ticker};

use crate::render::fitness;

pub fn table(find: &Find, columns: usize) -> String {
    let paragraph = |text: &str| wrap_paragraph(text, columns);
    let mut text = wrap(&title(find), columns) + &fit(&rows(find), columns);
    for note in notes(find) {
        text += &format!("\n{}", paragraph(&note));
    }
    text
}

pub fn markdown(find: &Find) -> String {
    let notes: String =
        notes(find).iter().map(|note| format!("\n- {}", escape_cell(note))).collect();
    format!(
        "### {}\n\n{}{notes}\n",
        escape_cell(&title(find)),
        markdown::format_table(&rows(find), 1)
    )
}

fn title(find: &Find) -> String {
    let percent = format_number(find.confidence * 100.0)
        .trim_end_matches('0')
        .trim_end_matches('.')
        .to_owned();
    let beside = find.load.as_ref().map_or(String::new(), |load| format!(" beside {}", load.load));
    match promised_at(find) {
        Some(period) => {
            format!(
                "The best goals that hold at {period}{beside}, all of a line with {percent} % confidence"
            )
        }
        None => {
            let goals: Vec<String> = find.goals.iter().map(goal).collect();
            let [from, to] = find.range_ns.map(short);
            let goals = goals.join(" and ");
            format!(
                "The shortest period with {goals}{beside}, {from} to {to}, each with {percent} % confidence"
            )
        }
    }
}

/// The period of what can be promised, where no goals were given.
fn promised_at(find: &Find) -> Option<String> {
    find.goals.iter().any(|goal| goal.limit.is_none()).then(|| short(find.range_ns[0]))
}

/// A goal as on the command line.
pub fn goal(goal: &Goal) -> String {
    goal.limit.map_or_else(
        || goal.name.clone(),
        |limit| format!("{} <= {}", goal.name, limited(goal, limit)),
    )
}

/// A value in the unit of its goal.
fn limited(goal: &Goal, value: f64) -> String {
    if goal.unit == "ns" { format_time(value.round() as i64) } else { share(value) }
}

fn share(percent: f64) -> String {
    match percent {
        0.0 => "0 %".to_owned(),
        p if p < 0.01 => "<0.01 %".to_owned(),
        p => format!("{} %", format_number(p)),
    }
}

/// A period as people write it: `35.6us` for what is not a whole number of them.
fn short(ns: u64) -> String {
    if ns.is_multiple_of(1_000) {
        units::format_exact_duration(Duration::from_nanos(ns))
    } else {
        format!("{}us", ns as f64 / 1e3)
    }
}

/// How tickers are called: with their runtime where they differ in it.
pub fn names(find: &Find) -> Vec<String> {
    let all: std::collections::BTreeSet<_> =
        find.tickers.iter().filter_map(|t| t.runtime.as_deref()).collect();
    let on = |t: &Ticker| {
        t.runtime.as_ref().filter(|_| all.len() > 1).map_or(String::new(), |r| format!("/{r}"))
    };
    find.tickers.iter().map(|ticker| format!("{}{}", ticker.subject, on(ticker))).collect()
}

fn rows(find: &Find) -> Vec<Vec<String>> {
    let promised = promised_at(find).is_some();
    let mut heading = vec!["ticker".to_owned()];
    if promised {
        heading.extend(find.goals.iter().map(|goal| format!("{} <=", goal.name)));
        heading.push("ticks".to_owned());
    } else {
        heading.extend(["holds at", "not at"].map(str::to_owned));
        heading.extend(find.goals.iter().map(|goal| format!("{} there", goal.name)));
        heading.push("looks".to_owned());
    }
    let line = |(ticker, name): (&Ticker, String)| {
        let mut cells = vec![name];
        if promised {
            let look = ticker.looks.first();
            cells.extend(
                find.goals
                    .iter()
                    .enumerate()
                    .map(|(i, goal)| dash(look.and_then(|l| promise(goal, &l.checks[i])))),
            );
            cells.push(dash(look.map(|l| l.ticks.to_string())));
        } else {
            let look = kept(ticker);
            cells.extend([dash(ticker.kept_ns.map(short)), dash(ticker.broken_ns.map(short))]);
            let value = |(i, goal): (usize, &Goal)| {
                dash(look.and_then(|l| Some(limited(goal, l.checks[i].value?))))
            };
            cells.extend(find.goals.iter().enumerate().map(value));
            cells.push(ticker.looks.len().to_string());
        }
        cells
    };
    std::iter::once(heading).chain(find.tickers.iter().zip(names(find)).map(line)).collect()
}

fn dash(cell: Option<String>) -> String {
    cell.unwrap_or_else(|| "-".to_owned())
}

/// The upper end of the interval: the least limit that would be kept.
fn promise(goal: &Goal, check: &Check) -> Option<String> {
    check.interval.map(|[_, high]| limited(goal, high))
}

fn kept(ticker: &Ticker) -> Option<&Look> {
    ticker
        .looks
        .iter()
        .find(|look| Some(look.period_ns) == ticker.kept_ns && look.finding == Some(Finding::Kept))
}

fn notes(find: &Find) -> Vec<String> {
    let said = |(ticker, name): (&Ticker, String)| {
        let says = match (&ticker.failure, promised_at(find)) {
            (Some(why), _) => format!("not measured: {why}."),
            (None, None) => sentence(find, ticker),
            (None, Some(_)) if ticker.looks.is_empty() => "no look was complete.".to_owned(),
            (None, Some(_)) => return None,
        };
        Some(format!("{name}: {says}"))
    };
    let mut notes: Vec<String> = find.tickers.iter().zip(names(find)).filter_map(said).collect();
    if find.tickers.iter().any(|ticker| ticker.stopped == StopReason::Time) {
        let time = short(find.max_time_ns);
        notes.push(format!(
            "The time of {time} was up before all brackets were narrow; a longer --max-time narrows them."
        ));
    }
    notes.extend(fitness::sentence(find.fitness.as_ref()));
    notes.extend(find.warnings.iter().map(|w| format!("{}: {}; {}.", w.code, w.message, w.hint)));
    if find.partial {
        notes.push("Interrupted: this is what was measured until then.".to_owned());
    }
    notes
}

/// What the looks at one ticker say together.
fn sentence(find: &Find, ticker: &Ticker) -> String {
    let at = |finding| {
        ticker.looks.iter().filter(move |l| l.finding == Some(finding)).map(|l| l.period_ns)
    };
    let tried = ticker.looks.iter().map(|l| l.period_ns);
    let range = tried
        .clone()
        .min()
        .zip(tried.max())
        .map(|both| format!("{} to {}", short(both.0), short(both.1)));
    let Some(range) = range else { return "no look was complete.".to_owned() };
    let open = |below: Option<u64>| -> String {
        let unclear =
            |ns: &u64| below.is_none_or(|below| *ns < below) && Some(*ns) > ticker.broken_ns;
        let mut open: Vec<u64> = at(Finding::Open).filter(unclear).collect();
        open.sort_unstable();
        open.dedup();
        let all: Vec<String> = open.into_iter().map(short).collect();
        if all.is_empty() { String::new() } else { format!("; undecided at {}", all.join(", ")) }
    };
    let again = match ticker.broken_above_ns.as_slice() {
        [] => String::new(),
        above => {
            let all: Vec<String> = above.iter().map(|ns| short(*ns)).collect();
            format!(" But not at {}: a longer period is not always better here.", all.join(", "))
        }
    };
    match (ticker.broken_ns, ticker.kept_ns) {
        (Some(broken), Some(kept)) => format!(
            "at {} {}; at {} {} hold{}. With {:.0} % confidence the limit is in between{}.{again}",
            short(broken),
            why_broken(find, ticker, broken),
            short(kept),
            if find.goals.len() > 1 { "all goals" } else { "the goal" },
            if find.goals.len() > 1 { "" } else { "s" },
            find.confidence * 100.0,
            open(Some(kept)),
        ),
        (Some(broken), None) if open(None).is_empty() => {
            format!(
                "holds at none of the periods tried, {range}: at {} {}.",
                short(broken),
                why_broken(find, ticker, broken)
            )
        }
        (Some(broken), None) => format!(
            "shown to hold at none of the periods tried, {range}: at {} {}{}.",
            short(broken),
            why_broken(find, ticker, broken),
            open(None)
        ),
        (None, Some(kept)) if kept == find.range_ns[0] => {
            format!(
                "holds at every period tried, {range}; a shorter --from may find where it ends.{again}"
            )
        }
        (None, Some(kept)) => format!("holds at {}{}.{again}", short(kept), open(Some(kept))),
        (None, None) => format!(
            "undecided at every period tried, {range}: too noisy, or too few ticks for the goals."
        ),
    }
}

/// Which goals were broken at a period, and by what.
fn why_broken(find: &Find, ticker: &Ticker, period_ns: u64) -> String {
    let broken =
        |look: &&Look| look.period_ns == period_ns && look.finding == Some(Finding::Broken);
    let Some(look) = ticker.looks.iter().find(broken) else { return String::new() };
    let broken = find
        .goals
        .iter()
        .zip(&look.checks)
        .filter(|(_, check)| check.finding == Some(Finding::Broken));
    let all: Vec<String> = broken
        .map(|(goal, check)| {
            let value =
                check.value.map_or(String::new(), |value| format!(" ({})", limited(goal, value)));
            let limit = goal.limit.map_or(String::new(), |limit| limited(goal, limit));
            format!("{} exceeds {limit}{value}", goal.name)
        })
        .collect();
    all.join(" and ")
}
