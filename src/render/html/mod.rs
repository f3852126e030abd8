//! `report.html`: one file, no network, drawn in the browser by a script of our own from packed samples.
//!
//! What is text (the answers, the table, the host, changes, warnings) is in the document itself, readable without a
//! script; pictures are drawn by the files below `script/` from the data that [`data`] packs.

mod data;

use std::fmt::Write as _;

use jitterstat::report::{Report, Status, Subject, Summary, Warning};

use crate::render::cost::{core_percent, per_tick_interval};
use crate::render::label::labels;
use crate::render::quantity::is_gaps;
use crate::render::{reading, tradeoff};
use crate::text::time::time;

const STYLE: &str = include_str!("page.css");
/// One function, so that the parts share a scope and leave none behind.
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

/// Nothing may be loaded: the browser itself enforces that the file is self-contained.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:";

/// The page of one or several reports, a section each.
pub fn page(reports: &[Report]) -> String {
    let title = match reports {
        [one] => format!("osjitter: {}", one.started_utc),
        several => format!("osjitter: {} reports", several.len()),
    };
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <link rel=\"icon\" href=\"data:,\">\n<title>{}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
         <button id=\"theme\" type=\"button\">light / dark</button>\n",
        escaped(&title)
    );
    for report in reports {
        section(&mut page, report);
    }
    let _ = write!(page, "<script>\n{SCRIPT}</script>\n</body>\n</html>\n");
    page
}

fn section(page: &mut String, report: &Report) {
    let labels = labels(report);
    let machine = report.host.cpu_model.as_deref().unwrap_or("unknown CPU");
    let kernel = report.host.kernel.as_deref().unwrap_or(&report.host.os);
    let question = if is_gaps(report) { "How long was a busy loop away?" } else { "How late were the ticks?" };
    let shared = if labels.shared.is_empty() { String::new() } else { format!("{}; ", labels.shared) };
    let _ = write!(
        page,
        "<section class=\"report\">\n<h1>{question}</h1>\n<p class=\"where\">{}{}, {}, {}</p>\n",
        escaped(&shared),
        escaped(&report.started_utc),
        escaped(machine),
        escaped(kernel)
    );
    if report.partial {
        page.push_str("<p class=\"warning\">Interrupted: this is what was measured until then.</p>\n");
    }
    page.push_str("<ul class=\"answers\">\n");
    for (i, sentence) in reading::sentences(report) {
        let (id, name) = (escaped(&report.subjects[i].id), escaped(&labels.names[i]));
        let _ = writeln!(page, "<li data-id=\"{id}\"><span><b>{name}</b> {}</span></li>", escaped(&sentence));
    }
    page.push_str("</ul>\n");
    warnings(page, report);
    pictures(page, report);
    table(page, report, &labels.names);
    facts(page, report);
    let _ = writeln!(
        page,
        "<script type=\"application/json\" class=\"data\">{}</script>\n</section>",
        data::json(report, &labels.names).replace('<', "\\u003c")
    );
}

/// Warnings in full; where they would push the pictures away, their names, and the rest for those who open them.
const FEW: usize = 2;

fn warnings(page: &mut String, report: &Report) {
    let full = |w: &Warning| {
        let (code, message, hint) = (escaped(&w.code), escaped(&w.message), escaped(&w.hint));
        format!("<b>{code}</b> {message} {hint}")
    };
    if report.warnings.len() <= FEW {
        for warning in &report.warnings {
            let _ = writeln!(page, "<p class=\"warning\">{}</p>", full(warning));
        }
        return;
    }
    let mut codes: Vec<String> = report.warnings.iter().map(|w| escaped(&w.code)).collect();
    codes.dedup();
    let (n, codes) = (report.warnings.len(), codes.join(", "));
    let _ = writeln!(page, "<details class=\"warning\"><summary><b>{n} warnings:</b> {codes}</summary>");
    for warning in &report.warnings {
        let _ = writeln!(page, "<p>{}</p>", full(warning));
    }
    page.push_str("</details>\n");
}

/// Where the script draws: heading, what it shows, and the place.
fn pictures(page: &mut String, report: &Report) {
    if report.subjects.iter().all(|s| s.summary.is_none()) {
        return;
    }
    let (percentile, _) = tradeoff::percentile(report);
    let any = |what: fn(&Subject) -> bool| report.subjects.iter().any(what);
    page.push_str("<div class=\"switches\"></div>\n");
    let mut picture = |class: &str, title: &str, note: &str| {
        let _ = writeln!(page, "<h2>{title}</h2>\n<p class=\"note\">{note}</p>\n<div class=\"chart {class}\"></div>");
    };
    let cost = format!(
        "Lower left is better: {percentile} of the lateness against the CPU time of the process per tick; bars are 95 % \
         intervals over rounds. Ringed and joined: unbeaten, as nothing was both less late and cheaper. Hollow: the controls, \
         what the machine could give in the same rounds."
    );
    if !tradeoff::points(report).is_empty() {
        picture("tradeoff", "Lateness against cost", &cost);
    }
    picture("percentiles", "Percentiles", "Each step to the right leaves a tenth of the ticks.");
    if any(|s| s.rounds.iter().any(|r| !r.lateness_ns.is_empty())) {
        let note = "Darker: more ticks. Every tick above p99 is a dot of its own. Point at one to see which it is; drag \
                    to look closer, double-click for the whole run.";
        picture("over-time", "Over time", note);
    }
    let note =
        "Share of the ticks in each of sixteen bins a decade, both axes logarithmic: single late ticks stay visible.";
    picture("histogram", "Histogram", note);
    if any(|s| s.summary.as_ref().is_some_and(|m| m.until_unpark_ns.is_some()) && has_samples(s)) {
        let note = "Solid: from the deadline until the runtime came back from its park, the kernel and what the runtime asked \
                    of it. Dashed: from there until the task ran.";
        picture("split", "Until and after the runtime came back", note);
    }
    if any(|s| s.rounds.len() > 1) {
        let note = "Median (line) and maximum (dots) of each round; thin grey lines: the medians of the controls in the same \
                    rounds.";
        picture("rounds", "Round by round", note);
    }
    page.push_str("<noscript><p>The pictures need the script of this page.</p></noscript>\n");
}

fn has_samples(subject: &Subject) -> bool {
    subject.rounds.iter().any(|r| r.until_unpark_ns.is_some())
}

fn table(page: &mut String, report: &Report, names: &[String]) {
    let _ = write!(page, "<h2>Numbers</h2>\n<p class=\"reading\">{}</p>\n", escaped(&reading::reading(report)));
    page.push_str("<table>\n<thead><tr><th>subject</th>");
    for heading in COLUMNS {
        let _ = write!(page, "<th>{heading}</th>");
    }
    page.push_str("</tr></thead>\n<tbody>\n");
    for (subject, name) in report.subjects.iter().zip(names) {
        let _ = write!(page, "<tr><th>{}</th>", escaped(name));
        match (&subject.summary, &subject.status) {
            (Some(summary), _) => {
                for (heading, cell) in COLUMNS.iter().zip(row(subject, summary)) {
                    let _ = write!(page, "<td data-of=\"{heading}\">{cell}</td>");
                }
            }
            (None, Status::Failed { reason }) => {
                let _ = write!(page, "<td colspan=\"10\" class=\"left\">not measured: {}</td>", escaped(reason));
            }
            (None, _) => page.push_str("<td colspan=\"10\" class=\"left\">no tick came</td>"),
        }
        page.push_str("</tr>\n");
    }
    let what = if is_gaps(report) { "Gaps are turns of a busy loop" } else { "Lateness is wake time minus deadline" };
    let _ = writeln!(
        page,
        "</tbody>\n</table>\n<p class=\"note\">{what}. Small: the 95 % confidence interval over rounds. A dash: not \
         known, or fewer than five ticks lie above.</p>"
    );
}

/// What the table has of each subject, beside its name.
const COLUMNS: [&str; 10] =
    ["p50", "p90", "p99", "p99.9", "p99.99", "max", "missed", "ticks", "CPU per tick", "of a core"];

fn row(subject: &Subject, summary: &Summary) -> [String; 10] {
    let d = &summary.lateness_ns;
    let late = |name: &str, value: Option<i64>| {
        value.map_or("-".into(), |v| with_interval(time(v), d.ci95.get(name).map(|ci| ci.map(time))))
    };
    let cost = |ns: f64| time(ns as i64);
    [
        late("p50", d.p50),
        late("p90", d.p90),
        late("p99", d.p99),
        late("p99_9", d.p99_9),
        late("p99_99", d.p99_99),
        time(d.max),
        summary.missed.to_string(),
        summary.ticks.to_string(),
        summary
            .cpu_ns_per_tick
            .map_or("-".into(), |ns| with_interval(cost(ns), per_tick_interval(subject).map(|ci| ci.map(cost)))),
        core_percent(subject).map_or("-".into(), |p| format!("{p:.1} %")),
    ]
}

/// A value and, small, its interval; the unit is said once where both ends share it.
fn with_interval(value: String, interval: Option<[String; 2]>) -> String {
    let Some([low, high]) = interval else { return value };
    let bare = |text: &str| text.split_once(' ').map(|(number, unit)| (number.to_owned(), unit.to_owned()));
    let low = match (bare(&low), bare(&high)) {
        (Some((number, unit)), Some((_, other))) if unit == other => number,
        _ => low,
    };
    format!("{value}<small>{low} &#8211; {high}</small>")
}

fn facts(page: &mut String, report: &Report) {
    let host = &report.host;
    let mut rows: Vec<(&str, String)> = vec![("system", format!("{} {}", host.os, host.arch))];
    let mut fact = |name, value: Option<String>| rows.extend(value.map(|v| (name, v)));
    fact("kernel", host.kernel.clone());
    fact("preemption", host.preempt.clone());
    fact("CPU", host.cpu_model.clone());
    fact("CPUs online", host.cpus_online.map(|n| n.to_string()));
    fact("clock source", host.clock_source.clone());
    fact("timer slack", host.timer_slack_ns.map(|ns| time(i64::try_from(ns).unwrap_or(i64::MAX))));
    fact("governor", host.governor.clone());
    fact("idle driver", host.idle_driver.clone());
    fact("hypervisor", host.hypervisor.clone());
    fact("quota", host.quota_cpus.map(|n| format!("{n} CPUs")));
    fact("scheduling class", host.sched.clone());
    let clock = &report.clock;
    let bound = time(i64::try_from(clock.error_bound_ns).unwrap_or(i64::MAX));
    fact(
        "clock",
        Some(format!("{}, {:.0} Hz ({}), error at most {bound}", clock.source, clock.rate_hz, clock.rate_known_by)),
    );
    fact("seed", Some(report.plan.seed.to_string()));
    for (name, version) in &host.versions {
        rows.push((name, version.clone()));
    }
    page.push_str("<h2>Machine</h2>\n<dl>\n");
    for (name, value) in rows {
        let _ = writeln!(page, "<dt>{}</dt><dd>{}</dd>", escaped(name), escaped(&value));
    }
    page.push_str("</dl>\n<h2>What the tool changed while it ran</h2>\n");
    if report.changes.is_empty() {
        page.push_str("<p>Nothing.</p>\n");
        return;
    }
    page.push_str("<ul>\n");
    for change in &report.changes {
        let (what, from, to) = (escaped(&change.what), escaped(&change.from), escaped(&change.to));
        let _ = writeln!(page, "<li>{what}: {from} &#8594; {to}</li>");
    }
    page.push_str("</ul>\n");
}

/// Text that stays text.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
