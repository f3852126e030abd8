//! The result of a search as text: a table with a line for each ticker, and notes.

use std::time::Duration;

use cli::time::{format_number, format_rate, format_time, trim_zeros};
use cli::units::{format_exact_ns, format_rounded_duration};
use cli::words::or_dash;
use files::find::{Check, Find, Finding, Goal, Look, StopReason, Ticker};
use files::gate::limit::Quantity;
use files::report::Warning;
use files::subjects::is_control;

use render::document::{Document, Table};
use render::report::fitness;

/// Describes the result of a search.
pub fn document(find: &Find) -> Document {
    let mut document = Document::new();
    document.title(answer(find));
    document.paragraph(describe_failed_control(find).unwrap_or_default());
    document.paragraph(fitness::sentence(find.fitness.as_ref()).unwrap_or_default());
    document.section(title(find));
    document.table(table(find));
    document.notes(notes(find));
    document
}

/// States the shortest period at which the goals hold, or the best goals that hold at the period,
/// with the tickers of which this is known, and names those whose search failed after some looks.
pub fn answer(find: &Find) -> String {
    let is_incomplete = |ticker: &Ticker| ticker.failure.is_some() && !ticker.looks.is_empty();
    let tickers = find.tickers.iter().zip(names(find));
    let incomplete: Vec<String> =
        tickers.filter(|(ticker, _)| is_incomplete(ticker)).map(|(_, name)| name).collect();
    let known = known_answer(find);
    match incomplete.is_empty() {
        true => known,
        false => format!("{known} The search of {} is incomplete.", incomplete.join(", ")),
    }
}

fn known_answer(find: &Find) -> String {
    if let Some(control) = find.failed_control() {
        return no_answer(control).to_owned();
    }
    let competitors = || {
        let named = find.tickers.iter().zip(names(find));
        named.filter(|(ticker, _)| !is_control(&ticker.subject))
    };
    if let Some(period) = promise_period(find) {
        let mut best = Vec::new();
        for (i, goal) in find.goals.iter().enumerate() {
            let limits = competitors().filter_map(|(ticker, name)| {
                let [_, high] = ticker.looks.first()?.checks[i].interval?;
                Some((high, name))
            });
            if let Some((high, name)) = limits.min_by(|a, b| a.0.total_cmp(&b.0)) {
                best.push(format!("{} <= {} with {name}", goal.name, format_value(goal, high)));
            }
        }
        return match best.is_empty() {
            true => format!("No goal is known to hold at {period}."),
            false => format!("The best goals at {period}: {}.", best.join("; ")),
        };
    }
    let goals = if find.goals.len() > 1 { "all goals" } else { "the goal" };
    let shortest = competitors().filter_map(|(ticker, _)| ticker.kept_ns).min();
    let Some(shortest) = shortest else {
        return format!("No ticker was shown to hold {goals} at any period tried.");
    };
    let holding = competitors().filter(|(ticker, _)| ticker.kept_ns == Some(shortest));
    let holding: Vec<String> = holding.map(|(_, name)| name).collect();
    format!(
        "The shortest period shown to hold {goals} is {}, with {}.",
        format_period(shortest),
        holding.join(", ")
    )
}

fn title(find: &Find) -> String {
    let percent = format_number(find.confidence * 100.0);
    let percent = trim_zeros(&percent);
    let load = match &find.load {
        Some(load) => format!(" under load {}", load.load),
        None => String::new(),
    };
    if let Some(period) = promise_period(find) {
        return format!(
            "The best goals that hold at {period}{load}; those of a row hold together with {percent} % confidence"
        );
    }
    let goals: Vec<String> = find.goals.iter().map(goal).collect();
    let goals = goals.join(" and ");
    let [from, to] = find.range_ns.map(format_period);
    format!(
        "The shortest period with {goals}{load}, {from} to {to}, each with {percent} % confidence"
    )
}

/// The answer if this control has failed.
fn no_answer(control: &Ticker) -> &'static str {
    match control.failure {
        Some(_) => "No answer: the control was not measured",
        None => "No answer: the machine was too late for the search",
    }
}

/// Returns the error of a search whose control has failed.
pub fn control_error(find: &Find) -> Option<String> {
    let control = find.failed_control()?;
    Some(format!("{}: {}", no_answer(control), describe_failed_control(find)?))
}

/// Explains that the control broke the goals or was not measured, if so: nothing is known about the
/// tickers then.
fn describe_failed_control(find: &Find) -> Option<String> {
    let control = find.failed_control()?;
    if let Some(failure) = &control.failure {
        return Some(format!(
            "The control, {}, was not measured: {failure}. Nothing is known about the tickers: measure again.",
            control.subject
        ));
    }
    let longest = control.looks.iter().max_by_key(|look| look.period_ns)?;
    let mut excesses = Vec::new();
    for (goal, check) in find.goals.iter().zip(&longest.checks) {
        if check.finding == Some(Finding::Broken) && goal.quantity() != Quantity::PartOfCore {
            excesses.push(describe_excess(goal, check));
        }
    }
    let example = match excesses.is_empty() {
        true => String::new(),
        false => {
            format!(", at {} since {}", format_period(longest.period_ns), excesses.join(" and "))
        }
    };
    Some(format!(
        "The control, {}, holds the {} at none of the periods tried{example}. Nothing is known about the tickers: use a quieter \
         machine, or a goal that the control holds.",
        control.subject,
        if find.goals.len() > 1 { "goals" } else { "goal" },
    ))
}

/// The period at which the best goals are found, if the search had no limits.
fn promise_period(find: &Find) -> Option<String> {
    find.goals.iter().any(|goal| goal.limit.is_none()).then(|| format_period(find.range_ns[0]))
}

/// Formats a goal, such as `p99 <= 100 us`.
pub fn goal(goal: &Goal) -> String {
    match goal.limit {
        Some(limit) if goal.rate => format!("{} < {}", goal.name, format_limit(goal, limit)),
        Some(limit) => format!("{} <= {}", goal.name, format_limit(goal, limit)),
        None => goal.name.clone(),
    }
}

fn format_limit(goal: &Goal, limit: f64) -> String {
    if goal.rate { format_rate(limit / 100.0) } else { format_value(goal, limit) }
}

/// Formats a value in the unit of its goal.
fn format_value(goal: &Goal, value: f64) -> String {
    if goal.unit == "ns" { format_time(value.round() as i64) } else { format_percentage(value) }
}

fn format_percentage(percent: f64) -> String {
    match percent {
        0.0 => "0 %".to_owned(),
        p if p < 0.01 => "<0.01 %".to_owned(),
        p => format!("{} %", format_number(p)),
    }
}

/// Formats a period, in microseconds with a fraction if it is not a whole number of them.
fn format_period(ns: u64) -> String {
    if ns.is_multiple_of(1_000) { format_exact_ns(ns) } else { format!("{}us", ns as f64 / 1e3) }
}

/// Returns the names of the tickers, with their runtimes if these differ.
pub fn names(find: &Find) -> Vec<String> {
    let mut runtimes: Vec<&str> =
        find.tickers.iter().filter_map(|ticker| ticker.runtime.as_deref()).collect();
    runtimes.sort_unstable();
    runtimes.dedup();
    let mut names = Vec::new();
    for Ticker { subject, runtime, .. } in &find.tickers {
        names.push(match runtime {
            Some(runtime) if runtimes.len() > 1 => format!("{subject}/{runtime}"),
            _ => subject.clone(),
        });
    }
    names
}

/// Returns a row for each ticker.
fn table(find: &Find) -> Table {
    let is_promise = promise_period(find).is_some();
    let heading = if is_promise { promise_heading(find) } else { bracket_heading(find) };
    let mut table = Table::new(heading, 1);
    for (ticker, name) in find.tickers.iter().zip(names(find)) {
        table.row(if is_promise {
            promise_row(find, ticker, name)
        } else {
            bracket_row(find, ticker, name)
        });
    }
    table
}

fn promise_heading(find: &Find) -> Vec<String> {
    let mut heading = vec!["ticker".to_owned()];
    heading.extend(find.goals.iter().map(|goal| format!("{} <=", goal.name)));
    heading.push("ticks".to_owned());
    heading
}

fn promise_row(find: &Find, ticker: &Ticker, name: String) -> Vec<String> {
    let look = ticker.looks.first();
    let mut cells = vec![name];
    for (i, goal) in find.goals.iter().enumerate() {
        cells.push(or_dash(look.and_then(|look| promise(goal, &look.checks[i]))));
    }
    cells.push(or_dash(look.map(|look| look.ticks.to_string())));
    cells
}

fn bracket_heading(find: &Find) -> Vec<String> {
    let mut heading = ["ticker", "holds at", "not at"].map(str::to_owned).to_vec();
    heading.extend(find.goals.iter().map(|goal| format!("{} there", goal.name)));
    heading.extend(["of a core", "looks"].map(str::to_owned));
    heading
}

fn bracket_row(find: &Find, ticker: &Ticker, name: String) -> Vec<String> {
    // The measurement of the shortest period that meets the goals.
    let mut kept_looks = ticker.looks.iter().filter(|look| look.finding == Some(Finding::Kept));
    let look = kept_looks.find(|look| Some(look.period_ns) == ticker.kept_ns);
    let [kept, broken] =
        [ticker.kept_ns, ticker.broken_ns].map(|ns| or_dash(ns.map(format_period)));
    let mut cells = vec![name, kept, broken];
    for (i, goal) in find.goals.iter().enumerate() {
        let value = look.and_then(|look| look.checks[i].value);
        cells.push(or_dash(value.map(|value| format_value(goal, value))));
    }
    let cpu = look.and_then(|look| look.cpu_percent);
    cells.extend([or_dash(cpu.map(format_percentage)), ticker.looks.len().to_string()]);
    cells
}

/// Formats the upper end of the interval: the lowest limit that holds.
fn promise(goal: &Goal, check: &Check) -> Option<String> {
    check.interval.map(|[_, high]| format_value(goal, high))
}

fn notes(find: &Find) -> Vec<String> {
    let mut notes = Vec::new();
    for (ticker, name) in find.tickers.iter().zip(names(find)) {
        if let Some(text) = describe_ticker(find, ticker) {
            notes.push(format!("{name}: {text}"));
        }
    }
    if find.tickers.iter().any(|ticker| ticker.stopped == StopReason::Time) {
        let time = format_period(find.max_time_ns);
        notes.push(format!(
            "The time limit of {time} ended the search early; a longer --max-time gives narrower results."
        ));
    }
    notes.extend(find.max_stall_ns.map(describe_stall));
    for Warning { code, message, hint } in &find.warnings {
        notes.push(format!("{code}: {message}; {hint}."));
    }
    if find.partial {
        notes.push("Interrupted: the values cover the time until then.".to_owned());
    }
    notes
}

/// Describes the stalls for which the bounds of a rate hold.
fn describe_stall(max_stall_ns: u64) -> String {
    let stall = format_rounded_duration(Duration::from_nanos(max_stall_ns));
    format!(
        "The bounds of missed ticks assume that no stall is longer than {stall} and that stalls are independent."
    )
}

/// Describes the result of a ticker, unless the table shows all of it.
fn describe_ticker(find: &Find, ticker: &Ticker) -> Option<String> {
    if let Some(why) = &ticker.failure {
        let extent = if ticker.looks.is_empty() { "" } else { " to the end" };
        return Some(format!("not measured{extent}: {why}."));
    }
    if promise_period(find).is_none() {
        return Some(sentence(find, ticker));
    }
    if ticker.looks.is_empty() { Some(NOT_MEASURED.to_owned()) } else { None }
}

/// Describes the bracket of a ticker in a sentence.
fn sentence(find: &Find, ticker: &Ticker) -> String {
    let Some(range) = tried_range(ticker) else { return NOT_MEASURED.to_owned() };
    match (ticker.broken_ns, ticker.kept_ns) {
        (Some(broken), Some(kept)) => describe_bracket(find, ticker, broken, kept),
        (Some(broken), None) => describe_failure(find, ticker, broken, &range),
        (None, Some(kept)) if kept == find.range_ns[0] => describe_success(ticker, kept, &range),
        (None, Some(kept)) => {
            let (kept_text, undecided) =
                (format_period(kept), describe_undecided(ticker, Some(kept)));
            format!("holds at {kept_text}{undecided}.{}", describe_exceptions(ticker))
        }
        (None, None) => format!(
            "undecided at every period tried, {range}: too noisy, or too few ticks for the goals. A quieter machine or a \
             longer --max-time would decide it."
        ),
    }
}

/// Note on a ticker without a complete measurement.
const NOT_MEASURED: &str = "no measurement was complete.";

/// Describes the two periods between which the limit is.
fn describe_bracket(find: &Find, ticker: &Ticker, broken: u64, kept: u64) -> String {
    let excess = describe_broken(find, ticker, broken);
    let hold = if find.goals.len() > 1 { "all goals hold" } else { "the goal holds" };
    let percent = find.confidence * 100.0;
    let undecided = describe_undecided(ticker, Some(kept));
    let (broken, kept) = (format_period(broken), format_period(kept));
    format!(
        "at {broken} {excess}; at {kept} {hold}. With {percent:.0} % confidence the limit is in between{undecided}.{}",
        describe_exceptions(ticker)
    )
}

/// Describes a ticker that met the goals at no period.
fn describe_failure(find: &Find, ticker: &Ticker, broken: u64, range: &str) -> String {
    let undecided = describe_undecided(ticker, None);
    let holds = if undecided.is_empty() { "holds" } else { "shown to hold" };
    let excess = describe_broken(find, ticker, broken);
    let broken = format_period(broken);
    format!("{holds} at none of the periods tried, {range}: at {broken} {excess}{undecided}.")
}

/// Describes a ticker that met the goals at the shortest period that was tried.
fn describe_success(ticker: &Ticker, kept: u64, range: &str) -> String {
    let kept_periods = periods_with(ticker, Finding::Kept);
    let is_kept = |look: &Look| kept_periods.binary_search(&look.period_ns).is_ok();
    let holds_everywhere = ticker.broken_above_ns.is_empty() && ticker.looks.iter().all(is_kept);
    let periods = if holds_everywhere {
        format!("every period tried, {range}")
    } else {
        format!("{}, the shortest period tried", format_period(kept))
    };
    let undecided = describe_undecided_above(ticker, kept);
    let exceptions = describe_exceptions(ticker);
    format!("holds at {periods}{undecided}; a shorter --from may find the limit.{exceptions}")
}

/// Returns the periods of a ticker at which a look had this finding, in ascending order.
fn periods_with(ticker: &Ticker, finding: Finding) -> Vec<u64> {
    let looks = ticker.looks.iter().filter(|look| look.finding == Some(finding));
    let mut periods: Vec<u64> = looks.map(|look| look.period_ns).collect();
    periods.sort_unstable();
    periods.dedup();
    periods
}

/// Lists the periods above `kept_ns` at which no look decided.
fn describe_undecided_above(ticker: &Ticker, kept_ns: u64) -> String {
    let mut periods = periods_with(ticker, Finding::Open);
    for decided in [Finding::Kept, Finding::Broken] {
        let decided = periods_with(ticker, decided);
        periods.retain(|ns| *ns > kept_ns && decided.binary_search(ns).is_err());
    }
    list_undecided(&periods)
}

fn list_undecided(periods: &[u64]) -> String {
    let periods: Vec<String> = periods.iter().copied().map(format_period).collect();
    match periods.is_empty() {
        true => String::new(),
        false => format!("; undecided at {}", periods.join(", ")),
    }
}

/// Formats the shortest and the longest period that were tried.
fn tried_range(ticker: &Ticker) -> Option<String> {
    let periods = ticker.looks.iter().map(|look| look.period_ns);
    let (shortest, longest) = (periods.clone().min()?, periods.max()?);
    Some(format!("{} to {}", format_period(shortest), format_period(longest)))
}

/// Lists the undecided periods above the longest broken one, and below `end_ns` if there is one.
fn describe_undecided(ticker: &Ticker, end_ns: Option<u64>) -> String {
    let mut periods = periods_with(ticker, Finding::Open);
    periods.retain(|ns| end_ns.is_none_or(|end| *ns < end) && Some(*ns) > ticker.broken_ns);
    list_undecided(&periods)
}

/// Lists the longer periods at which a goal was broken.
fn describe_exceptions(ticker: &Ticker) -> String {
    if ticker.broken_above_ns.is_empty() {
        return String::new();
    }
    let periods: Vec<String> = ticker.broken_above_ns.iter().copied().map(format_period).collect();
    format!(" But not at {}: a longer period is not always better here.", periods.join(", "))
}

/// Lists the goals that were broken at a period, with the measured values.
fn describe_broken(find: &Find, ticker: &Ticker, period_ns: u64) -> String {
    let is_broken =
        |look: &&Look| look.period_ns == period_ns && look.finding == Some(Finding::Broken);
    let Some(look) = ticker.looks.iter().find(is_broken) else { return String::new() };
    let mut descriptions = Vec::new();
    for (goal, check) in find.goals.iter().zip(&look.checks) {
        if check.finding == Some(Finding::Broken) {
            descriptions.push(describe_excess(goal, check));
        }
    }
    descriptions.join(" and ")
}

fn describe_excess(goal: &Goal, check: &Check) -> String {
    let value =
        check.value.map_or(String::new(), |value| format!(" ({})", format_value(goal, value)));
    let limit = goal.limit.map_or(String::new(), |limit| format_limit(goal, limit));
    format!("{} exceeds {limit}{value}", goal.name)
}

#[cfg(test)]
mod tests {
    use files::file::File as _;
    use files::find::Check;

    use super::*;

    fn look(period_us: u64, finding: Finding) -> Look {
        Look {
            period_ns: period_us * 1_000,
            rounds: 10,
            ticks: 500,
            finding: Some(finding),
            checks: vec![Check { value: Some(1e6), interval: None, finding: Some(finding) }],
            p50_ns: None,
            p99_ns: None,
            cpu_percent: Some(3.25),
        }
    }

    fn describe(looks: Vec<Look>, broken_above_us: &[u64]) -> String {
        let text = include_str!("../../fuzz/corpus/find/find.json");
        let mut find = Find::from_json(text).unwrap();
        find.range_ns = [100_000, 900_000];
        find.goals = vec![Goal { limit: Some(1e6), ..Goal::new("p99", None).unwrap() }];
        let mut ticker = find.tickers[0].clone();
        ticker.broken_ns = None;
        ticker.kept_ns = Some(100_000);
        ticker.broken_above_ns = broken_above_us.iter().map(|us| us * 1_000).collect();
        ticker.looks = looks;
        sentence(&find, &ticker)
    }

    #[test]
    fn only_kept_periods_are_claimed() {
        use Finding::{Broken, Kept, Open};
        let hint = "; a shorter --from may find the limit.";
        let kept = vec![look(100, Kept), look(900, Open), look(900, Kept)];
        let expected = format!("holds at every period tried, 100us to 900us{hint}");
        assert_eq!(describe(kept, &[]), expected);
        let broken = vec![look(100, Kept), look(900, Broken)];
        let text = describe(broken, &[900]);
        let expected =
            format!("holds at 100us, the shortest period tried{hint} But not at 900us: ");
        assert!(text.starts_with(&expected), "{text}");
        let open = vec![look(100, Kept), look(900, Open)];
        let text = describe(open, &[]);
        let expected =
            format!("holds at 100us, the shortest period tried; undecided at 900us{hint}");
        assert_eq!(text, expected);
    }
}
