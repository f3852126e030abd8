//! The page `report.html`: a single file that loads nothing from the network.
//!
//! The sentences, the table, the host, the changes and the warnings are in the document and
//! readable without a script. The pictures are drawn by the files in `script/` from the samples
//! that [`data`] encodes.

mod data;
mod table;
mod why;

use cli::time::format_time;
use files::report::{Change, Report, Subject, Warning};

use crate::document::html::{escape, frame};
use crate::picture::palette::Sign;
use crate::report::label::{Labels, labels, signs};
use crate::report::origin::{self, origin};
use crate::report::quantity::is_gaps;
use crate::report::{fitness, overflow, summary, tradeoff};

/// The script of the page, wrapped in a function so that the files share a scope and define no
/// globals.
const SCRIPT: &str = concat!(
    "(() => {\n\"use strict\";\n",
    include_str!("script/draw.js"),
    include_str!("script/unpack.js"),
    include_str!("script/tradeoff.js"),
    include_str!("script/curves.js"),
    include_str!("script/strips.js"),
    include_str!("script/rounds.js"),
    include_str!("script/page.js"),
    "})();\n",
);

/// Renders the page of one or several reports, one section each.
pub fn page(reports: &[Report]) -> String {
    let title = match reports {
        [report] => format!("osjitter: {}", report.started_utc),
        several => format!("osjitter: {} reports", several.len()),
    };
    let mut content = "<button id=\"theme\" type=\"button\">light / dark</button>\n".to_owned();
    for (report, signs) in reports.iter().zip(signs(reports)) {
        content += &section(report, &signs);
    }
    frame(&title, &content, SCRIPT)
}

fn section(report: &Report, signs: &[Sign]) -> String {
    let Labels { names, shared } = labels(report);
    let question =
        if is_gaps(report) { "How long was a busy loop away?" } else { "How late were the ticks?" };
    let shared = if shared.is_empty() { String::new() } else { format!("{}; ", escape(&shared)) };
    let partial = if report.partial {
        "<p class=\"warning\">Interrupted: this is what was measured until then.</p>\n"
    } else {
        ""
    };
    let item = |(i, sentence): (usize, String)| {
        let (id, name) = (escape(&report.subjects[i].id), escape(&names[i]));
        format!("<li data-id=\"{id}\"><span><b>{name}</b> {}</span></li>\n", escape(&sentence))
    };
    let fit = fitness::describe_report(report).map_or(String::new(), |(word, why)| {
        format!("<p class=\"fitness\"><b>{word}</b>: {}</p>\n", escape(&why))
    });
    format!(
        "<section class=\"report\">\n<h1>{question}</h1>\n<p class=\"where\">{shared}{}</p>\n{partial}{fit}\
         <ul class=\"answers\">\n{}</ul>\n{}{}{}{}{}\
         <script type=\"application/json\" class=\"data\">{}</script>\n</section>\n",
        escape(&origin(report)),
        summary::sentences(report).into_iter().map(item).collect::<String>(),
        warnings(report),
        why::section(report),
        pictures(report),
        table::render(report, &names),
        facts(report),
        data::json(report, &names, signs).replace('<', "\\u003c")
    )
}

/// Maximum number of warnings shown in full. More are folded under a list of their codes.
const MAX_OPEN_WARNINGS: usize = 2;

fn warnings(report: &Report) -> String {
    let warnings = &report.warnings;
    let full = |class: &str| {
        let paragraph = |w: &Warning| {
            let (code, message, hint) = (escape(&w.code), escape(&w.message), escape(&w.hint));
            format!("<p{class}><b>{code}</b> {message} {hint}</p>\n")
        };
        warnings.iter().map(paragraph).collect::<String>()
    };
    if warnings.len() <= MAX_OPEN_WARNINGS {
        return full(" class=\"warning\"");
    }
    let mut codes: Vec<String> = warnings.iter().map(|w| escape(&w.code)).collect();
    codes.dedup();
    let (n, codes) = (warnings.len(), codes.join(", "));
    format!(
        "<details class=\"warning\"><summary><b>{n} warnings:</b> {codes}</summary>\n{}</details>\n",
        full("")
    )
}

/// Renders the headings, notes and containers of the pictures.
fn pictures(report: &Report) -> String {
    if report.subjects.iter().all(|s| s.summary.is_none()) {
        return String::new();
    }
    let any_subject = |predicate: fn(&Subject) -> bool| report.subjects.iter().any(predicate);
    let cost = format!(
        "Lower left is better: the {} of the lateness against the CPU time of the process per tick; bars are 95 % \
         confidence intervals over rounds. Ringed: nothing else was both more punctual and cheaper. Hollow: the controls, \
         what the machine could do in the same rounds.",
        tradeoff::percentile(report)
    );
    let hatched = describe_hatching(report);
    let percentiles =
        format!("Each gridline to the right leaves one tenth as many ticks.{hatched}");
    let histogram = format!(
        "Share of the ticks in each of sixteen bins a decade, both axes logarithmic: single late ticks stay visible.{hatched}"
    );
    let pictures = [
        (!tradeoff::points(report).is_empty(), "tradeoff", "Lateness against cost", cost.as_str()),
        (true, "percentiles", "Percentiles", percentiles.as_str()),
        (
            any_subject(|s| s.rounds.iter().any(|r| !r.lateness_ns.is_empty())),
            "over-time",
            "Over time",
            "Darker: more ticks. Every tick above p99 is a dot of its own. Point at one to see which it is; drag to look \
             closer, double-click for the whole run.",
        ),
        (true, "histogram", "Histogram", histogram.as_str()),
        (
            any_subject(|s| {
                s.summary.as_ref().is_some_and(|m| m.until_unpark_ns.is_some())
                    && s.rounds.iter().any(|r| r.until_unpark_ns.is_some())
            }),
            "split",
            "Wake-up of the thread, and time to reach the task",
            "Solid: from the deadline until the runtime's thread woke, including what the runtime asked of the kernel. \
             Dashed: from there until the task ran.",
        ),
        (
            any_subject(|s| s.rounds.len() > 1),
            "rounds",
            "Round by round",
            "Median (line) and maximum (dots) of each round; thin grey lines: the medians of the controls in the same rounds.",
        ),
    ];
    let shown =
        pictures.into_iter().filter(|(is_shown, ..)| *is_shown).map(|(_, class, title, note)| {
            format!(
                "<h2>{title}</h2>\n<p class=\"note\">{}</p>\n<div class=\"chart {class}\"></div>\n",
                escape(note)
            )
        });
    format!(
        "<div class=\"switches\"></div>\n{}<noscript><p>The pictures need the script of this page.</p></noscript>\n",
        shown.collect::<String>()
    )
}

/// Describes the hatched zones: values above the last bin of their source, or their number if there
/// are many.
fn describe_hatching(report: &Report) -> String {
    const MAX_LISTED: usize = 4;
    let above: Vec<String> = report.subjects.iter().filter_map(overflow::describe).collect();
    match above.len() {
        0 => String::new(),
        1..=MAX_LISTED => format!(" Hatched: {}.", above.join("; ")),
        n => {
            format!(
                " Hatched: {n} subjects with ticks above the last bin of their source; point at one for its count."
            )
        }
    }
}

/// Renders the facts about the machine, the clock and the run.
fn facts(report: &Report) -> String {
    let (host, clock) = (&report.host, &report.clock);
    let ns = |ns: u64| format_time(i64::try_from(ns).unwrap_or(i64::MAX));
    let observer = origin::observer(report).map_or(String::new(), |cost| format!("; {cost}"));
    let stamps = format!(
        "{}, {:.0} Hz ({}), error at most {}{observer}",
        clock.source,
        clock.rate_hz,
        clock.rate_known_by,
        ns(clock.error_bound_ns)
    );
    let known = [
        ("system", Some(format!("{} {}", host.os, host.arch))),
        ("kernel", host.kernel.clone()),
        ("preemption", host.preempt.clone()),
        ("CPU", host.cpu_model.clone()),
        ("CPUs online", host.cpus_online.map(|n| n.to_string())),
        ("clock source", host.clock_source.clone()),
        ("timer slack", host.timer_slack_ns.map(ns)),
        ("governor", host.governor.clone()),
        ("idle driver", host.idle_driver.clone()),
        ("hypervisor", host.hypervisor.clone()),
        ("quota", host.quota_cpus.map(|n| format!("{n} CPUs"))),
        ("scheduling class", host.sched.clone()),
        ("clock", Some(stamps)),
        ("seed", Some(report.plan.seed.to_string())),
    ];
    let loads: Vec<String> = report.loads.iter().filter_map(origin::load).collect();
    let loads = (!loads.is_empty()).then(|| ("loads", Some(loads.join("; "))));
    let commands = origin::commands(report);
    let commands = (!commands.is_empty()).then(|| ("commands", Some(commands.join("; "))));
    let versions =
        host.versions.iter().map(|(name, version)| (name.as_str(), Some(version.clone())));
    let fact = |(name, value): (&str, Option<String>)| {
        value.map(|value| format!("<dt>{}</dt><dd>{}</dd>\n", escape(name), escape(&value)))
    };
    let facts = known.into_iter().chain(commands).chain(loads).chain(versions);
    let facts: String = facts.filter_map(fact).collect();
    let changes = changes(&report.changes);
    format!(
        "<h2>Machine</h2>\n<dl>\n{facts}</dl>\n<h2>What the tool changed while it ran</h2>\n{changes}"
    )
}

/// Renders the system settings that were changed during the run.
fn changes(changes: &[Change]) -> String {
    if changes.is_empty() {
        return "<p>Nothing.</p>\n".to_owned();
    }
    let mut items = String::new();
    for change in changes {
        let (what, from, to) = (escape(&change.what), escape(&change.from), escape(&change.to));
        items += &format!("<li>{what}: {from} &#8594; {to}</li>\n");
    }
    format!("<ul>\n{items}</ul>\n")
}
