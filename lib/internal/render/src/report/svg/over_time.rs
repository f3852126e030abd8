//! Lateness over time: of all subjects at the times of their rounds, and of a single subject with
//! its rounds joined.

mod panel;

use cli::time::{format_time, format_unsigned_time};
use cli::units::format_exact_ns;
use files::fitness::MIN_GAP_NS;
use files::report::{Report, Subject};
use files::subjects::is_control;

use crate::picture::canvas::{Picture, title};
use crate::report::label::concurrent_cpus;
use crate::report::ranking::Ranking;
use crate::report::stalls::{self, STALLED_ROUND_NOTE, Stall};
use crate::report::svg::over_time::panel::{
    Axes, MAX_MARKED_ROUNDS, NAME_HEIGHT, Panel, TIME_LABELS_HEIGHT, TimeAxis, draw_name,
    draw_panel,
};
use crate::report::svg::timeline::Timeline;
use crate::report::svg::{Captions, DISTRUST_NOTE, Drawable, MAX_SERIES, by_importance, page};
use crate::report::trust::{Trust, UNRELIABLE};

/// Height of all panels together, unless they become too low.
const PANELS_HEIGHT: u32 = 600;
const MIN_PANEL_HEIGHT: u32 = 84;
const MAX_PANEL_HEIGHT: u32 = 200;
/// Height of the chart of a single subject.
const SINGLE_HEIGHT: u32 = 440;

/// Maximum number of subjects without a panel that are named.
const MAX_NAMED: usize = 40;

const BAND_NOTE: &str =
    "Band: the lower 90 % of the ticks in a column of pixels; dot: the worst tick of the column";
const PERIOD_NOTE: &str = "; line: the period, above which ticks are missed";

/// Draws the lateness of the most important subjects over the time of the run. `None` if no ticks
/// with a period were recorded.
pub(super) fn overview(
    ranking: &Ranking<'_>,
    measured: &[Drawable<'_>],
    shared: &str,
    footer: &[String],
) -> Option<Picture> {
    let report = ranking.report();
    let trust = Trust::from_report(report);
    let known_stalls = stalls::stalls(report);
    let shown = select_subjects(ranking, measured);
    let mut panels = Vec::new();
    for &drawable in &shown {
        panels.push(Panel::in_run(report, drawable, &known_stalls, trust));
    }
    let axes = Axes::new(&panels, TimeAxis::Run)?;
    let note = overview_note(report, measured, &panels, trust);
    let captions = Captions {
        headline: headline(report, measured, &known_stalls, trust),
        what: title("Lateness over time", shared),
        note: &note,
        footer,
    };
    let count = u32::try_from(panels.len()).unwrap_or(u32::MAX);
    let panel_height = (PANELS_HEIGHT / count).clamp(MIN_PANEL_HEIGHT, MAX_PANEL_HEIGHT);
    let height = panel_height * count + TIME_LABELS_HEIGHT;
    Some(page("over-time", height, &captions, |area| {
        let mut rest = area.clone();
        for (n, panel) in (1..).zip(&panels) {
            let is_last = n == count;
            let labels = if is_last { TIME_LABELS_HEIGHT } else { 0 };
            let (cell, below) = rest.split_vertically(panel_height + labels);
            let (name, body) = cell.split_vertically(NAME_HEIGHT);
            draw_name(&name, panel, trust)?;
            draw_panel(&body, panel, &axes, labels)?;
            rest = below;
        }
        Ok(())
    }))
}

/// Draws the lateness of a single subject, whose rounds are joined.
pub(super) fn single(
    name: &str,
    drawable: &Drawable<'_>,
    report: &Report,
    footer: &[String],
) -> Picture {
    let distrusted = drawable.first_distrusted(Trust::from_report(report));
    let panel = Panel { drawable, timeline: Timeline::joined(drawable.subject), distrusted };
    let panels = [panel];
    let time = if drawable.subject.period_ns > 0 { TimeAxis::Rounds } else { TimeAxis::Ticks };
    let axes = Axes::new(&panels, time);
    let [panel] = &panels;
    let note = single_note(panel);
    let captions = Captions {
        headline: drawable.describe(report),
        what: "Lateness over time".to_owned(),
        note: &note,
        footer,
    };
    page(name, SINGLE_HEIGHT, &captions, |area| match &axes {
        Some(axes) => draw_panel(area, panel, axes, TIME_LABELS_HEIGHT),
        None => Ok(()),
    })
}

/// Returns the measured subjects with a panel, in their order: at most [`MAX_SERIES`] of those
/// whose ticks have a time. The subject with the worst tick and one of each control are kept.
fn select_subjects<'a>(
    ranking: &Ranking<'_>,
    measured: &'a [Drawable<'a>],
) -> Vec<&'a Drawable<'a>> {
    let mut chosen = by_importance(ranking, measured);
    chosen.retain(|drawable| drawable.has_time());
    let mut kept: Vec<usize> =
        worst_tick(measured).iter().map(|worst| worst.drawable.index).collect();
    for (n, drawable) in chosen.iter().enumerate() {
        let name = &drawable.subject.name;
        if is_control(name) && chosen[..n].iter().all(|earlier| earlier.subject.name != *name) {
            kept.push(drawable.index);
        }
    }
    chosen.sort_by_key(|drawable| !kept.contains(&drawable.index));
    chosen.truncate(MAX_SERIES);
    chosen.sort_by_key(|drawable| drawable.index);
    chosen
}

/// The worst tick of a run.
struct WorstTick<'a> {
    drawable: &'a Drawable<'a>,
    late_ns: i64,
    /// Time of its deadline in the run.
    due: f64,
}

fn worst_tick<'a>(measured: &'a [Drawable<'a>]) -> Option<WorstTick<'a>> {
    let mut worst: Option<WorstTick<'a>> = None;
    for drawable in measured.iter().filter(|drawable| drawable.has_time()) {
        for round in &drawable.subject.rounds {
            for (i, &late_ns) in round.lateness_ns.iter().enumerate() {
                if worst.as_ref().is_none_or(|worst| late_ns > worst.late_ns) {
                    let due = round.deadline_ns(i, drawable.subject.period_ns) as f64 / 1e9;
                    worst = Some(WorstTick { drawable, late_ns, due });
                }
            }
        }
    }
    worst
}

/// Names the worst tick of the run and the longest stall that the spinning control saw.
fn headline(
    report: &Report,
    measured: &[Drawable<'_>],
    known_stalls: &[Stall],
    trust: Trust,
) -> String {
    let Some(WorstTick { drawable, late_ns, due }) = worst_tick(measured) else {
        return String::new();
    };
    let (late, name) = (format_time(late_ns), &drawable.name);
    let remark = if trust.covers_max() { "" } else { UNRELIABLE };
    let worst =
        format!("The worst tick was {late} late{remark}: {name}, {due:.1} s after the start");
    if !report.subjects.iter().any(stalls::is_observer) {
        return format!("{worst}.");
    }
    match known_stalls.iter().map(|stall| stall.end_ns - stall.start_ns).max() {
        Some(longest) => {
            format!(
                "{worst}. The machine itself stalled for up to {}.",
                format_unsigned_time(longest)
            )
        }
        None => format!("{worst}. The machine itself did not stall while the control spun."),
    }
}

fn overview_note(
    report: &Report,
    measured: &[Drawable<'_>],
    panels: &[Panel<'_>],
    trust: Trust,
) -> String {
    let mut note = BAND_NOTE.to_owned();
    note += PERIOD_NOTE;
    note += ".";
    note += &describe_stalls(report, panels);
    if !trust.covers_max() {
        note += " Grey and ?: unreliable, because the machine itself was late there.";
    }
    let is_shown = |d: &Drawable<'_>| panels.iter().any(|panel| panel.drawable.index == d.index);
    let others = measured.iter().filter(|drawable| !is_shown(drawable));
    let others: Vec<&str> = others.map(|drawable| drawable.name.as_str()).collect();
    if !others.is_empty() {
        note += &format!(
            " Left out: {}; `osjitter report FILE --format svg --out DIR` draws each.",
            list_names(&others)
        );
    }
    note
}

/// Explains the yellow zones of the overview.
fn describe_stalls(report: &Report, panels: &[Panel<'_>]) -> String {
    let observers: Vec<&Subject> =
        report.subjects.iter().filter(|subject| stalls::is_observer(subject)).collect();
    let gap = format_exact_ns(MIN_GAP_NS.unsigned_abs());
    let is_concurrent = concurrent_cpus(report).iter().any(Option::is_some);
    let mut note = match (observers.is_empty(), is_concurrent) {
        (true, _) => " Without a spinning control that runs without a load, the times of stalls are not known."
            .to_owned(),
        (false, true) => {
            format!(" Yellow: the spinning control on this CPU did not run for more than {gap}.")
        }
        (false, false) => format!(
            " Yellow in all panels: the spinning control did not run for more than {gap}. Subjects take turns, so it \
             sees only stalls in its own rounds."
        ),
    };
    if panels.iter().any(|panel| !panel.timeline.stalled_rounds.is_empty()) {
        note += &format!(" Pale yellow in one panel: {STALLED_ROUND_NOTE}");
    }
    note
}

fn single_note(panel: &Panel<'_>) -> String {
    let timeline = &panel.timeline;
    let mut note = BAND_NOTE.to_owned();
    if panel.drawable.subject.period_ns > 0 {
        note += PERIOD_NOTE;
    }
    note += ".";
    note += match timeline.joints.len() {
        0 => "",
        n if n < MAX_MARKED_ROUNDS => {
            " The rounds are joined at the thin lines; the time between them is left out."
        }
        _ => " The rounds are joined; the time between them is left out.",
    };
    if !timeline.stalls.is_empty() {
        note += " Yellow: the control did not run.";
    }
    if !timeline.stalled_rounds.is_empty() {
        note += &format!(" Pale yellow: {STALLED_ROUND_NOTE}");
    }
    if panel.distrusted.is_some() {
        note += DISTRUST_NOTE;
    }
    note
}

/// Lists names, and counts those above [`MAX_NAMED`].
fn list_names(names: &[&str]) -> String {
    let named: Vec<&str> = names.iter().copied().take(MAX_NAMED).collect();
    match names.len().saturating_sub(MAX_NAMED) {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use files::file::File as _;
    use files::report::Round;

    use super::*;
    use crate::report::svg::main_pictures;

    const MS: u64 = 1_000_000;

    fn fixture() -> Report {
        let text = include_str!("../../../../../../tests/fixtures/report.json");
        Report::from_json(text).expect("a report")
    }

    fn overview(report: &Report) -> String {
        let mut pictures = main_pictures(report).into_iter();
        pictures.find(|picture| picture.name == "over-time.svg").expect("the overview").svg
    }

    /// Returns the elements of an SVG with a name and a colour.
    fn elements<'a>(svg: &'a str, name: &str, colour: &str) -> Vec<&'a str> {
        let fill = format!("fill=\"{colour}\"");
        let start = format!("<{name} ");
        svg.lines().filter(|line| line.starts_with(&start) && line.contains(&fill)).collect()
    }

    fn number(element: &str, attribute: &str) -> i32 {
        let (_, rest) = element.split_once(&format!(" {attribute}=\"")).expect(attribute);
        rest.split('"').next().and_then(|n| n.parse().ok()).expect("a number")
    }

    fn text(svg: &str) -> String {
        let lines: Vec<&str> = svg.lines().filter(|line| !line.starts_with('<')).collect();
        lines.join(" ")
    }

    /// The rows at the top and the bottom of each panel, from the gridlines at the start of the run.
    fn panel_rows(svg: &str) -> Vec<Range<i32>> {
        let is_start = |line: &&str| line.starts_with("<line ") && line.contains(" x2=\"88\" ");
        let grid = svg.lines().filter(is_start).filter(|line| line.contains(" x1=\"88\" "));
        grid.map(|line| number(line, "y2")..number(line, "y1")).collect()
    }

    #[test]
    fn every_worst_tick_is_drawn() {
        let report = fixture();
        let svg = overview(&report);
        let panels = panel_rows(&svg);
        assert_eq!(panels.len(), 3);
        let end = report.subjects.iter().map(|s| Timeline::in_run(s, [].iter()).end);
        let end = end.fold(0.0, f64::max);
        let colours = ["#0072B2", "#D55E00", "#828282"];
        for ((subject, rows), colour) in report.subjects.iter().zip(panels).zip(colours) {
            let dots: Vec<(i32, i32)> = elements(&svg, "circle", colour)
                .into_iter()
                .map(|dot| (number(dot, "cx"), number(dot, "cy")))
                .filter(|(x, y)| *x >= 88 && (rows.start..=rows.end).contains(y))
                .collect();
            // Three decades from 10 us to 10 ms, in columns of three pixels.
            let decade_px = f64::from(rows.end - rows.start) / 3.0;
            for (time, late) in Timeline::in_run(subject, [].iter()).points {
                let x = 88 + (time / end * 851.0) as i32 / 3 * 3 + 1;
                let y = f64::from(rows.end) - ((late as f64).log10() - 4.0) * decade_px;
                let dot = dots.iter().find(|dot| dot.0 == x);
                let dot = dot.unwrap_or_else(|| panic!("no dot at {x} for {time} s: {dots:?}"));
                assert!(f64::from(dot.1) <= y + 1.0, "{late} ns at {time} s is above its dot");
            }
            let worst = subject.summary.as_ref().expect("a summary").lateness_ns.max;
            let y = f64::from(rows.end) - ((worst as f64).log10() - 4.0) * decade_px;
            let highest = dots.iter().map(|dot| dot.1).min().expect("dots");
            assert!((f64::from(highest) - y).abs() <= 1.0, "{worst} ns is at {highest}");
        }
    }

    /// A report of 8.51 s, so that a pixel is 10 ms, whose control stalled three times.
    fn stalled_report() -> Report {
        let mut report = fixture();
        let round = |start_ns, lateness_ns| Round { start_ns, lateness_ns, ..Round::default() };
        let mut stalled = round(4_002 * MS, vec![50; 5]);
        stalled.throttled_ns = Some(1);
        stalled.index = 1;
        report.subjects[0].rounds = vec![round(0, vec![50; 10]), stalled];
        report.subjects[1].rounds = vec![round(8_509 * MS, vec![50])];
        let mut late = vec![50; 100];
        late[5] = 20_000;
        late[15] = 20_001;
        late[45] = 12_000_000;
        report.subjects[2].name = "spin".to_owned();
        report.subjects[2].rounds = vec![round(1_000 * MS, late.clone()), round(2_000 * MS, late)];
        report
    }

    #[test]
    fn shading_covers_the_known_stalls() {
        let report = stalled_report();
        let svg = overview(&report);
        let mut shaded: Vec<(i32, Range<i32>)> = Vec::new();
        for zone in elements(&svg, "rect", "#F0E442") {
            let x = number(zone, "x") - 88;
            shaded.push((number(zone, "y"), x..x + number(zone, "width")));
        }
        let mut expected = Vec::new();
        for (n, rows) in panel_rows(&svg).into_iter().enumerate() {
            // The round of 5 ms that the quota stopped, in the panel of its subject only.
            expected.extend((n == 0).then_some((rows.start, 400..401)));
            // 20,001 ns from 1.015 s on, and 12 ms from 1.045 s on.
            for start in [101, 201] {
                expected.push((rows.start, start..start + 1));
                expected.push((rows.start, start + 3..start + 5));
            }
        }
        assert_eq!(shaded, expected);
        assert!(text(&svg).contains("The machine itself stalled for up to 12.0 ms."), "{svg}");
    }

    #[test]
    fn stalls_belong_to_their_cpu() {
        let mut report = stalled_report();
        report
            .plan
            .scenarios
            .retain(|scenario| report.subjects.iter().any(|subject| subject.id == scenario.id));
        for (scenario, cpu) in report.plan.scenarios.iter_mut().zip([0, 1, 1]) {
            scenario.cpu = Some(cpu);
        }
        let svg = overview(&report);
        let rows = panel_rows(&svg);
        let count = |n: usize| {
            let zones = elements(&svg, "rect", "#F0E442").into_iter();
            zones.filter(|zone| number(zone, "y") == rows[n].start).count()
        };
        assert_eq!([count(0), count(1), count(2)], [1, 4, 4]);
    }

    #[test]
    fn unknown_stalls_are_stated() {
        let svg = overview(&fixture());
        assert_eq!(elements(&svg, "rect", "#F0E442").len(), 0);
        assert!(text(&svg).contains("stalls are not known"), "{svg}");
    }

    #[test]
    fn many_subjects_are_bounded() {
        let mut report = fixture();
        let original = report.subjects[0].clone();
        for n in 0..60 {
            let mut subject = original.clone();
            subject.name = format!("ticker-{n:02}");
            subject.id = format!("{}@1ms", subject.name);
            report.subjects.push(subject);
        }
        // The worst tick of all.
        report.subjects[40].rounds[3].lateness_ns[7] = 77_000_000;
        let svg = overview(&report);
        assert_eq!(panel_rows(&svg).len(), MAX_SERIES);
        for shown in ["tokio-interval-skip", "nanosleep", "ticker-37"] {
            assert!(svg.contains(&format!("\n{shown}\n")), "{shown} has a panel");
        }
        assert!(svg.contains("The worst tick was 77.0 ms late: ticker-37"));
        let text = text(&svg);
        assert!(text.contains("Left out: ticker-") && text.contains(" and 11 more;"), "{text}");
        assert!(svg.len() < 300_000, "{} bytes", svg.len());
    }

    #[test]
    fn long_runs_stay_small() {
        let mut report = fixture();
        for subject in &mut report.subjects {
            let rounds = std::mem::take(&mut subject.rounds);
            for n in 0..400_u64 {
                let mut round = rounds[n as usize % rounds.len()].clone();
                (round.index, round.start_ns) = (n, n * 50 * MS);
                subject.rounds.push(round);
            }
        }
        let size = overview(&report).len();
        assert!(size < 150_000, "60,000 ticks take {size} bytes");
    }
}
