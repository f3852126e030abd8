//! `report.html`: one file, no network, drawn in the browser by a script of our own from packed samples.
//!
//! What is text (the answer, the table, the host, changes, warnings) is in the document itself, readable without a
//! script; pictures are drawn by `page.js` from the data that [`data`] packs.

mod data;

use std::fmt::Write as _;

use jitterstat::report::{Distribution, Report, Status};

use crate::view::cost::core_percent;
use crate::view::label::labels;
use crate::view::reading;
use crate::view::scale::time;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

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
    let shared = if labels.shared.is_empty() { String::new() } else { format!("{}; ", labels.shared) };
    let _ = write!(
        page,
        "<section class=\"report\">\n<h1>How late were the ticks?</h1>\n<p class=\"where\">{}{}, {}, {}</p>\n",
        escaped(&shared),
        escaped(&report.started_utc),
        escaped(machine),
        escaped(kernel)
    );
    if report.partial {
        page.push_str("<p class=\"warning\">Interrupted: this is what was measured until then.</p>\n");
    }
    let _ = writeln!(page, "<p class=\"reading\">{}</p>", escaped(&reading::reading(report)));
    for warning in &report.warnings {
        let (code, message, hint) = (escaped(&warning.code), escaped(&warning.message), escaped(&warning.hint));
        let _ = writeln!(page, "<p class=\"warning\"><b>{code}</b> {message} {hint}</p>");
    }
    page.push_str(
        "<div class=\"pictures\"><noscript><p>The pictures need the script of this page.</p></noscript></div>\n",
    );
    table(page, report, &labels.names);
    facts(page, report);
    let _ = writeln!(
        page,
        "<script type=\"application/json\" class=\"data\">{}</script>\n</section>",
        data::json(report, &labels.names).replace('<', "\\u003c")
    );
}

fn table(page: &mut String, report: &Report, names: &[String]) {
    page.push_str(
        "<h2>Numbers</h2>\n<div class=\"scroll\"><table>\n<thead><tr><th>subject</th><th>p50</th><th>p90</th><th>p99</th>\
         <th>p99.9</th><th>p99.99</th><th>max</th><th>missed</th><th>ticks</th><th>CPU per tick</th><th>of a core</th></tr>\
         </thead>\n<tbody>\n",
    );
    for (subject, name) in report.subjects.iter().zip(names) {
        let _ = write!(page, "<tr><th>{}</th>", escaped(name));
        match (&subject.summary, &subject.status) {
            (Some(summary), _) => {
                let d = &summary.lateness_ns;
                let all = [("p50", d.p50), ("p90", d.p90), ("p99", d.p99), ("p99_9", d.p99_9), ("p99_99", d.p99_99)];
                for (percentile, value) in all {
                    let _ = write!(page, "<td>{}</td>", with_interval(d, percentile, value));
                }
                let cpu = summary.cpu_ns_per_tick.map_or("-".into(), |ns| time(ns as i64));
                let core = core_percent(subject).map_or("-".into(), |p| format!("{p:.1} %"));
                let (max, missed, ticks) = (time(d.max), summary.missed, summary.ticks);
                let _ = write!(page, "<td>{max}</td><td>{missed}</td><td>{ticks}</td><td>{cpu}</td><td>{core}</td>");
            }
            (None, Status::Failed { reason }) => {
                let _ = write!(page, "<td colspan=\"10\" class=\"left\">not measured: {}</td>", escaped(reason));
            }
            (None, _) => page.push_str("<td colspan=\"10\" class=\"left\">no tick came</td>"),
        }
        page.push_str("</tr>\n");
    }
    page.push_str(
        "</tbody>\n</table></div>\n<p class=\"note\">Lateness is wake time minus deadline. Small: the 95 % confidence \
         interval over rounds. A dash: fewer than five ticks lie above.</p>\n",
    );
}

fn with_interval(d: &Distribution, name: &str, value: Option<i64>) -> String {
    let Some(value) = value else { return "-".to_owned() };
    let interval = d
        .ci95
        .get(name)
        .map_or(String::new(), |[low, high]| format!("<small>{} &#8211; {}</small>", time(*low), time(*high)));
    format!("{}{interval}", time(value))
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
    fact("virtualisation", host.virtualisation.clone());
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
