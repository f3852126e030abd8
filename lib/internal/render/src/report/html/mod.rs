//! The page `report.html`: a single file that loads nothing from the network.
//!
//! The sentences, the table, the host, the changes and the warnings are in the document and
//! readable without a script. The pictures are drawn by the files in `script/` from the samples
//! that `data` encodes.

mod data;
mod table;
mod why;

use cli::time::format_unsigned_time;
use cli::units::format_exact_ns;
use cli::words::{capitalize, end_sentence, pluralize, prefix_or_empty};
use files::fitness::MIN_GAP_NS;
use files::report::{Change, Clock, Host, Report, Subject, Warning};

use crate::document::html::{escape, frame};
use crate::picture::palette::Sign;
use crate::report::command::Command;
use crate::report::label::{Labels, is_program, labels, late_failure_notes, signs};
use crate::report::origin::{self, origin};
use crate::report::ranking::Ranking;
use crate::report::stalls::{self, STALLED_ROUND_NOTE};
use crate::report::table::{early_end_note, warning_sentences};
use crate::report::trust::Trust;
use crate::report::{fitness, overflow, settings, subject_sentences, summary};
use files::quantity::is_gaps;

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
    let mut content = "<button id=\"theme\" type=\"button\">light / dark</button>\n".to_owned();
    for (report, signs) in reports.iter().zip(signs(reports)) {
        content += &section(report, &signs);
    }
    frame(&page_title(reports), &content, SCRIPT)
}

/// Returns the title of the page, by which tabs of a browser differ: subjects, period, date and
/// machine of a report, or the dates of several.
fn page_title(reports: &[Report]) -> String {
    const MAX_DATES: usize = 3;
    let title = match reports {
        [report] => report_title(report),
        several => {
            let dates: Vec<String> = several.iter().take(MAX_DATES).map(date).collect();
            let more = if several.len() > MAX_DATES { ", ..." } else { "" };
            format!("{} reports: {}{more}", several.len(), dates.join(", "))
        }
    };
    format!("{title} - osjitter")
}

fn report_title(report: &Report) -> String {
    let mut periods: Vec<u64> = report.subjects.iter().map(|s| s.period_ns).collect();
    periods.sort_by_key(|ns| *ns);
    periods.dedup();
    let periods: Vec<String> =
        periods.into_iter().filter(|ns| *ns > 0).map(format_exact_ns).collect();
    let host = &report.host;
    let machine = host.cpu_model.as_ref().unwrap_or(&host.os);
    let mut parts = vec![title_subjects(report)];
    parts.extend([periods.join(", "), date(report), machine.clone()]);
    parts.retain(|part| !part.is_empty());
    parts.join(", ")
}

/// Names the first program of the user, or the subject that is ranked first, and counts the others.
fn title_subjects(report: &Report) -> String {
    let sentences = subject_sentences::sentences(&Ranking::new(report));
    let ranked = sentences.into_iter().map(|(index, _)| &report.subjects[index]);
    let program = report.subjects.iter().find(|subject| is_program(report, subject));
    let Some(first) = program.or(ranked.into_iter().next()) else { return String::new() };
    match report.subjects.len() - 1 {
        0 => first.name.clone(),
        others => format!("{} and {others} more", first.name),
    }
}

/// Returns the date and time of a report to the minute.
fn date(report: &Report) -> String {
    let minutes: String = report.started_utc.chars().take("2026-11-21T08:44".len()).collect();
    minutes.replace('T', " ")
}

fn section(report: &Report, signs: &[Sign]) -> String {
    let Labels { names, shared } = labels(report);
    let ranking = Ranking::new(report);
    let measured = report.subjects.iter().any(|s| s.summary.is_some());
    let switches = if measured { "<div class=\"switches\"></div>\n" } else { "" };
    let (price, others): (Vec<_>, Vec<_>) =
        picture_sections(&ranking).into_iter().partition(|section| section.class == TRADEOFF);
    format!(
        "<section class=\"report\">\n{}{}{}{}{}{}{switches}{}{}{}{}{}\
         <script type=\"application/json\" class=\"data\">{}</script>\n</section>\n",
        heading(&ranking),
        fitness_note(report),
        origin_note(report, &shared),
        table::render(report, &names, &shared) + &table_notes(report),
        details(&ranking),
        warnings(report),
        pictures(&price),
        why::section(report),
        pictures(&others),
        answers(&ranking, &names),
        facts(report),
        data::json(&ranking, &names, signs).replace('<', "\\u003c")
    )
}

/// Renders the answer as a heading, or below one if it is long.
fn heading(ranking: &Ranking<'_>) -> String {
    const MAX_HEADING_CHARS: usize = 200;
    let answer = escape(&summary::answer(ranking));
    if answer.chars().count() <= MAX_HEADING_CHARS {
        return format!("<h1>{answer}</h1>\n");
    }
    let title = if is_gaps(ranking.report()) { "Gaps of a busy loop" } else { "Lateness of ticks" };
    format!("<h1>{title}</h1>\n<p class=\"reading\">{answer}</p>\n")
}

/// Renders the provenance of the numbers, and the command that repeats the measurement.
fn origin_note(report: &Report, shared: &str) -> String {
    let shared = if shared.is_empty() { String::new() } else { format!("{}; ", escape(shared)) };
    let mut html = format!("<p class=\"where\">{shared}{}</p>\n", escape(&origin(report)));
    if let Some(command) = Command::from_report(report) {
        // A line breaks between the parts only.
        let spans = command.parts().iter().map(|part| format!("<span>{}</span>", escape(part)));
        let spans: Vec<String> = spans.collect();
        html += &format!("<pre class=\"command\">{}</pre>\n", spans.join(" "));
    }
    if let Some(note) = early_end_note(report) {
        html += &format!("<p class=\"warning\">{}.</p>\n", capitalize(&note));
    }
    html
}

/// Renders the summary after the answer.
fn details(ranking: &Ranking<'_>) -> String {
    match summary::details(ranking) {
        details if details.is_empty() => String::new(),
        details => format!("<p class=\"reading\">{}</p>\n", escape(&details)),
    }
}

fn fitness_note(report: &Report) -> String {
    match fitness::describe_report(report) {
        Some((word, why)) => {
            format!("<p class=\"fitness\"><b>{word}</b>: {}</p>\n", escape(&why))
        }
        None => String::new(),
    }
}

/// Renders the failures of subjects that have numbers, and the settings in which subjects differ
/// from the control.
fn table_notes(report: &Report) -> String {
    let settings = settings::notes(report).into_iter().map(|note| capitalize(&note));
    let notes = late_failure_notes(report).chain(settings);
    notes.map(|note| format!("<p class=\"note\">{}</p>\n", escape(&end_sentence(&note)))).collect()
}

/// Renders a sentence for each subject.
fn answers(ranking: &Ranking<'_>, names: &[String]) -> String {
    let report = ranking.report();
    let mut html = String::new();
    for (i, sentence) in subject_sentences::sentences(ranking) {
        let (id, name) = (escape(&report.subjects[i].id), escape(&names[i]));
        let sentence = escape(&sentence);
        html += &format!("<li data-id=\"{id}\"><span><b>{name}</b> {sentence}</span></li>\n");
    }
    format!("<h2>In words</h2>\n<ul class=\"answers\">\n{html}</ul>\n")
}

/// Maximum number of warnings shown in full. More are folded under a list of their codes.
const MAX_OPEN_WARNINGS: usize = 2;

fn warnings(report: &Report) -> String {
    let warnings = &report.warnings;
    if warnings.len() <= MAX_OPEN_WARNINGS {
        return render_warnings(warnings, " class=\"warning\"");
    }
    let mut codes: Vec<String> = warnings.iter().map(|w| escape(&w.code)).collect();
    codes.dedup();
    let (n, codes) = (warnings.len(), codes.join(", "));
    format!(
        "<details class=\"warning\"><summary><b>{n} warnings:</b> {codes}</summary>\n{}</details>\n",
        render_warnings(warnings, "")
    )
}

/// Renders a paragraph with these attributes for each warning.
fn render_warnings(warnings: &[Warning], attributes: &str) -> String {
    let mut html = String::new();
    for warning in warnings {
        let (code, sentences) = (escape(&warning.code), escape(&warning_sentences(warning)));
        html += &format!("<p{attributes}><b>{code}</b> {sentences}</p>\n");
    }
    html
}

/// A picture that the script draws, with its heading and the note above it.
struct PictureSection {
    class: &'static str,
    title: &'static str,
    note: String,
}

const OVER_TIME_NOTE: &str = "Darker: more ticks. Every tick above p99 is a dot of its own. Point at one to see which it is; drag to look \
     closer, double-click for the whole run.";
/// Maximum number of subjects in one histogram, where pale lines replace the grey zones.
const MAX_SHARED_HISTOGRAM: usize = 4;
/// Explains grey zones.
const DISTRUST_NOTE: &str = " Grey: unreliable, because the machine itself was late there.";
/// Explains pale lines in a picture of several subjects.
const PALE_NOTE: &str = " Pale: unreliable, because the machine itself was late there.";
/// Explains pale dots in the picture of rounds.
const PALE_DOTS_NOTE: &str = " Pale dots: unreliable, because the machine itself was late.";
const SPLIT_NOTE: &str = "Solid: from the deadline until the runtime's thread woke, including what the runtime asked of the kernel. \
     Dashed: from there until the task ran.";
const ROUNDS_NOTE: &str = "Median (line) and maximum (dots) of each round; thin grey lines: the medians of the controls in the same rounds.";

/// Class of the picture of lateness and cost.
const TRADEOFF: &str = "tradeoff";

/// Renders the headings, notes and containers of pictures.
fn pictures(sections: &[PictureSection]) -> String {
    let mut html = String::new();
    for PictureSection { class, title, note } in sections {
        let note = escape(note);
        html += &format!(
            "<h2>{title}</h2>\n<p class=\"note\">{note}</p>\n<div class=\"chart {class}\">\
             <noscript>The pictures need the script of this page.</noscript></div>\n"
        );
    }
    html
}

/// Returns the pictures for which the report has data.
fn picture_sections(ranking: &Ranking<'_>) -> Vec<PictureSection> {
    let report = ranking.report();
    if report.subjects.iter().all(|subject| subject.summary.is_none()) {
        return Vec::new();
    }
    let hatched = describe_hatching(report);
    let mut sections = Vec::new();
    let mut add = |class, title, note| sections.push(PictureSection { class, title, note });
    if !ranking.points().is_empty() {
        add(TRADEOFF, "Lateness against cost", tradeoff_note(ranking));
    }
    let distrusted = if Trust::from_report(report).covers_max() { "" } else { DISTRUST_NOTE };
    let note =
        format!("Each gridline to the right leaves one tenth as many ticks.{distrusted}{hatched}");
    add("percentiles", "Percentiles", note);
    if report.subjects.iter().any(Subject::has_samples) {
        let note = format!("{OVER_TIME_NOTE}{}{distrusted}", describe_stalls(report));
        add("over-time", "Over time", note);
    }
    let measured = report.subjects.iter().filter(|subject| subject.summary.is_some()).count();
    let is_shared = (2..=MAX_SHARED_HISTOGRAM).contains(&measured);
    let shaded = if is_shared && !distrusted.is_empty() { PALE_NOTE } else { distrusted };
    let note = format!(
        "Share of the ticks in each of sixteen bins a decade, both axes logarithmic: single late ticks stay visible.{shaded}{hatched}"
    );
    add("histogram", "Histogram", note);
    if report.subjects.iter().any(has_wake_ups) {
        let title = "Wake-up of the thread, and time to reach the task";
        add("split", title, format!("{SPLIT_NOTE}{distrusted}"));
    }
    if report.subjects.iter().any(|subject| subject.rounds.len() > 1) {
        let pale = if distrusted.is_empty() { "" } else { PALE_DOTS_NOTE };
        add("rounds", "Round by round", format!("{ROUNDS_NOTE}{pale}"));
    }
    sections
}

/// Explains the yellow zones of the lateness over time, if there are any.
fn describe_stalls(report: &Report) -> String {
    let mut note = String::new();
    if !stalls::stalls(report).is_empty() {
        let gap = format_exact_ns(MIN_GAP_NS.unsigned_abs());
        note += &format!(
            " Yellow: the spinning control did not run for more than {gap}. It sees only stalls in its own rounds; \
             \"as time passed\" shows them for all subjects."
        );
    }
    if report.subjects.iter().flat_map(|s| &s.rounds).any(stalls::has_counted_stall) {
        note += &format!(" Pale yellow: {STALLED_ROUND_NOTE}");
    }
    note
}

fn tradeoff_note(ranking: &Ranking<'_>) -> String {
    let at = ranking.shown();
    let rings = match ranking.percentile() {
        Some(_) => {
            "Ringed: no other ranked subject was clearly better in one and not clearly worse in the other; controls, and \
             subjects that missed most of their ticks, are not ranked."
        }
        None => "Not ranked: the machine itself was late there.",
    };
    format!(
        "Lower left is better: the {at} of the lateness against the CPU time of the process per tick. Bars: 95 % \
         confidence intervals over rounds. {rings} Hollow: the controls, which show what the machine could do in the same \
         rounds."
    )
}

/// Returns whether the report contains the moments at which the runtime woke up.
fn has_wake_ups(subject: &Subject) -> bool {
    let is_summarized = subject.summary.as_ref().is_some_and(|s| s.until_unpark_ns.is_some());
    is_summarized && subject.rounds.iter().any(|round| round.until_unpark_ns.is_some())
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
    let mut facts = host_facts(&report.host);
    facts.push(("clock", Some(describe_clock(report, &report.clock))));
    // Only osjitter draws from a seed.
    facts.push(("seed", report.is_own().then(|| report.plan.seed.to_string())));
    facts.push(("commands", join_or_none(origin::commands(report))));
    facts.push(("loads", join_or_none(report.loads.iter().filter_map(origin::load).collect())));
    for (name, version) in &report.host.versions {
        facts.push((name, Some(version.clone())));
    }
    let mut html = "<h2>Machine</h2>\n<dl>\n".to_owned();
    for (name, value) in facts {
        if let Some(value) = value {
            html += &format!("<dt>{}</dt><dd>{}</dd>\n", escape(name), escape(&value));
        }
    }
    html += "</dl>\n<h2>What the tool changed while it ran</h2>\n";
    html + &changes(&report.changes)
}

/// A name and its value, if this is known.
type Fact<'a> = (&'a str, Option<String>);

fn host_facts(host: &Host) -> Vec<Fact<'_>> {
    vec![
        ("system", Some(format!("{} {}", host.os, host.arch))),
        ("kernel", host.kernel.clone()),
        ("preemption", host.preempt.clone()),
        ("CPU", host.cpu_model.clone()),
        ("CPUs online", host.cpus_online.map(|n| n.to_string())),
        ("clock source", host.clock_source.clone()),
        ("timer slack", host.timer_slack_ns.map(format_unsigned_time)),
        ("governor", host.governor.clone()),
        ("idle driver", host.idle_driver.clone()),
        ("hypervisor", host.hypervisor.clone()),
        ("quota", host.quota_cpus.map(|n| pluralize(n, "CPU"))),
        ("scheduling class", host.sched.clone()),
    ]
}

/// Source of a clock that is not known, in reports of other tools.
const UNKNOWN_CLOCK: &str = "unknown";

fn describe_clock(report: &Report, clock: &Clock) -> String {
    if clock.source == UNKNOWN_CLOCK {
        return UNKNOWN_CLOCK.to_owned();
    }
    format!(
        "{}, {:.0} Hz ({}), error at most {}{}",
        clock.source,
        clock.rate_hz,
        clock.rate_known_by,
        format_unsigned_time(clock.error_bound_ns),
        prefix_or_empty("; ", origin::observer(report))
    )
}

fn join_or_none(texts: Vec<String>) -> Option<String> {
    if texts.is_empty() { None } else { Some(texts.join("; ")) }
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
