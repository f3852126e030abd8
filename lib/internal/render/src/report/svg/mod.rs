//! Static pictures of a report. Each is a pure function of the report and has a footer with its
//! provenance, so that it can be shown alone.

mod card;
mod histogram;
mod over_time;
mod percentiles;
mod timeline;
mod tradeoff;

use std::collections::{BTreeMap, BTreeSet};

use cli::time::format_time;
use cli::units::format_exact_ns;
use cli::wrap::wrap;
use files::quantity::is_gaps;
use files::report::{Report, Subject};
use files::subjects::is_control;
use plotters::prelude::*;

use crate::picture::canvas::{
    Area, DrawResult, Picture, SIZE, SMALL_CHARACTERS, draw_headline, draw_sized, draw_small_print,
    file_name, headline_height, headline_lines, small_print_height, title,
};
use crate::picture::palette::Sign;
use crate::report::label::{is_program, labels, signs};
use crate::report::ranking::Ranking;
use crate::report::tradeoff::Point;
use crate::report::trust::Trust;
use crate::report::{origin, subject_sentences, summary};

/// A measured subject with its sign and name.
struct Drawable<'a> {
    /// Index in the report.
    index: usize,
    sign: Sign,
    name: String,
    subject: &'a Subject,
}

impl Drawable<'_> {
    /// Whether the times of its ticks are known.
    fn has_time(&self) -> bool {
        self.subject.period_ns > 0 && self.subject.has_samples()
    }

    /// Describes the lateness or the gaps of the subject in a sentence.
    fn describe(&self, report: &Report) -> String {
        let (id, summary) = (&self.subject.id, self.subject.summary.as_ref());
        match summary.map(|summary| &summary.lateness_ns) {
            Some(gaps) if is_gaps(report) => {
                format!("{id} had gaps of at most {}.", format_time(gaps.max))
            }
            Some(lateness) => {
                let trust = Trust::from_report(report);
                format!("{id} {}.", subject_sentences::describe_lateness(lateness, trust))
            }
            None => id.clone(),
        }
    }

    /// Returns the lateness from which the ticks of the subject are not trusted.
    fn first_distrusted(&self, trust: Trust) -> Option<i64> {
        trust.first_distrusted_value(&self.subject.summary.as_ref()?.lateness_ns)
    }
}

/// The point of a subject with its sign.
struct SignedPoint<'a> {
    point: &'a Point,
    sign: Sign,
}

/// Maximum number of subjects of the pictures. The charts of thousands of subjects need hundreds of
/// megabytes.
const MAX_DRAWN: usize = 512;

/// Maximum number of lines that can be distinguished in one chart.
const MAX_SERIES: usize = 12;

/// Explains the zone that [`shade`] draws.
const DISTRUST_NOTE: &str = " Grey: unreliable, because the machine itself was late there.";

/// Returns a grey zone between two corners.
fn shade<X, Y>(corners: [(X, Y); 2]) -> Rectangle<(X, Y)> {
    Rectangle::new(corners, BLACK.mix(0.06).filled())
}

/// Returns a note about subjects that the pictures leave out, because there are too many.
pub fn undrawn_note(report: &Report) -> Option<String> {
    let count = report.subjects.iter().filter(|subject| has_values(subject)).count();
    (count > MAX_DRAWN).then(|| {
        format!(
            "{MAX_DRAWN} of {count} subjects are drawn; `osjitter report FILE --format html` shows all"
        )
    })
}

fn has_values(subject: &Subject) -> bool {
    subject.summary.is_some() && (subject.has_samples() || subject.histogram.is_some())
}

/// Draws all pictures of a report.
pub fn pictures(report: &Report) -> Vec<Picture> {
    let footer = origin::footer(report, SMALL_CHARACTERS);
    let ranking = Ranking::new(report);
    let mut pictures = draw_main_pictures(&ranking);
    pictures.extend(card::picture(&ranking));
    for drawable in drawables(&ranking) {
        let file = file_name(&drawable.subject.id);
        if drawable.subject.has_samples() {
            pictures.push(over_time::single(&format!("time-{file}"), &drawable, report, &footer));
        }
        let name = format!("histogram-{file}");
        pictures.extend(histogram::picture(&name, &drawable, report, &footer));
    }
    pictures
}

/// Draws the pictures of all subjects together: lateness by percentile, lateness against CPU time,
/// and lateness over time.
pub fn main_pictures(report: &Report) -> Vec<Picture> {
    draw_main_pictures(&Ranking::new(report))
}

fn draw_main_pictures(ranking: &Ranking<'_>) -> Vec<Picture> {
    let report = ranking.report();
    let measured = drawables(ranking);
    if measured.is_empty() {
        return Vec::new();
    }
    let shared = labels(report).shared;
    let mut footer = origin::footer(report, SMALL_CHARACTERS);
    footer.extend(undrawn_note(report));
    let headline = summary::answer(ranking);
    let mut pictures = Vec::new();
    pictures.extend(percentiles::picture(headline, report, &measured, &shared, &footer));
    pictures.extend(draw_tradeoff(ranking, &measured, &shared, &footer));
    pictures.extend(over_time::overview(ranking, &measured, &shared, &footer));
    pictures
}

/// Draws the picture made for sharing: the answer, a few subjects, the machine and the command.
/// `None` if nothing was measured.
pub fn card(report: &Report) -> Option<Picture> {
    card::picture(&Ranking::new(report))
}

/// Returns the measured subjects, in their order. If there are too many, these are the most important
/// ones that have values.
fn drawables<'a>(ranking: &Ranking<'a>) -> Vec<Drawable<'a>> {
    let report = ranking.report();
    let names = labels(report).names;
    let all_signs = signs(std::slice::from_ref(report)).remove(0);
    let mut drawables = Vec::new();
    for (index, ((subject, name), sign)) in
        report.subjects.iter().zip(names).zip(all_signs).enumerate()
    {
        if subject.summary.is_some() {
            drawables.push(Drawable { index, sign, name, subject });
        }
    }
    if drawables.len() > MAX_DRAWN {
        let mut chosen = by_importance(ranking, &drawables);
        chosen.sort_by_key(|drawable| !has_values(drawable.subject));
        let kept: BTreeSet<usize> = chosen.iter().take(MAX_DRAWN).map(|d| d.index).collect();
        drawables.retain(|drawable| kept.contains(&drawable.index));
    }
    drawables
}

/// Draws lateness and cost, unless no subject has both.
fn draw_tradeoff(
    ranking: &Ranking<'_>,
    measured: &[Drawable<'_>],
    shared: &str,
    footer: &[String],
) -> Option<Picture> {
    let measured_points = ranking.points();
    if measured_points.is_empty() {
        return None;
    }
    let mut signed = Vec::new();
    for point in measured_points {
        let drawable = measured.iter().find(|drawable| drawable.index == point.subject);
        signed.extend(drawable.map(|Drawable { sign, .. }| SignedPoint { point, sign: *sign }));
    }
    let is_drawn = |drawable: &&Drawable<'_>| {
        measured_points.iter().any(|point| point.subject == drawable.index)
    };
    let undrawn = measured.iter().filter(|drawable| !is_drawn(drawable));
    let undrawn: Vec<&str> = undrawn.map(|drawable| drawable.name.as_str()).collect();
    let note = tradeoff::note(ranking, &undrawn);
    let captions = Captions {
        headline: summary::answer(ranking),
        what: title("Lateness and its cost", shared),
        note: &note,
        footer,
    };
    Some(tradeoff::picture(&captions, &LatenessAxis::new(ranking), &signed))
}

/// The axis of the lateness of subjects at one percentile.
struct LatenessAxis {
    percentile: &'static str,
    /// Whether the subjects are ranked by this percentile. Otherwise the machine itself was late
    /// there.
    is_ranked: bool,
}

impl LatenessAxis {
    fn new(ranking: &Ranking<'_>) -> Self {
        Self { percentile: ranking.shown(), is_ranked: ranking.percentile().is_some() }
    }

    fn label(&self) -> String {
        let reservation = if self.is_ranked { "" } else { " (unreliable)" };
        format!("lateness, {}{reservation}", self.percentile)
    }
}

/// Returns measured subjects by their importance: programs of the user and the best of tokio's own
/// timers, then subjects that are ringed in the trade-off, then controls. Equal ones are in the
/// order of their ranking.
fn by_importance<'a>(ranking: &Ranking<'_>, measured: &'a [Drawable<'a>]) -> Vec<&'a Drawable<'a>> {
    let report = ranking.report();
    let ranks: Vec<usize> =
        subject_sentences::sentences(ranking).iter().map(|(index, _)| *index).collect();
    let mut sorted: Vec<&Drawable<'_>> = measured.iter().collect();
    sorted.sort_by_cached_key(|drawable| ranks.iter().position(|index| *index == drawable.index));
    let ringed = ranking.points().iter().filter(|point| point.front);
    let ringed: Vec<usize> = ringed.map(|point| point.subject).collect();
    // The best subject on tokio's own timer.
    let is_tokio = |d: &&&Drawable<'_>| {
        d.subject.backend.as_ref().is_some_and(|backend| backend.starts_with("tokio"))
    };
    let best_of_tokio = sorted.iter().find(is_tokio).map(|d| d.index);
    sorted.sort_by_key(|drawable| {
        let Drawable { index, subject, .. } = drawable;
        let is_first = is_program(report, subject) || best_of_tokio == Some(*index);
        let is_ringed = ringed.contains(index);
        (!is_first, !is_ringed, !is_control(&subject.name))
    });
    sorted
}

/// The text around the charts of a picture.
struct Captions<'a> {
    /// States what the picture shows.
    headline: String,
    /// Names the quantities of the picture.
    what: String,
    /// Explains how to read the picture.
    note: &'a str,
    /// The lines of small print below the charts.
    footer: &'a [String],
}

/// Draws a picture with charts of `height` pixels between its headline and footer.
fn page(
    name: &str,
    height: u32,
    captions: &Captions<'_>,
    charts: impl FnOnce(&Area<'_>) -> DrawResult,
) -> Picture {
    let headline = headline_lines(&captions.headline);
    let headline_height = headline_height(&headline);
    let notes = wrap(&format!("{}. {}", captions.what, captions.note), SMALL_CHARACTERS);
    let header = headline_height + small_print_height(notes.lines().count()) + 6;
    let footer = small_print_height(captions.footer.len()) + 8;
    let size = (SIZE.0, header + height + footer);
    draw_sized(name, &captions.headline, size, |area| {
        let (head, rest) = area.split_vertically(header);
        let (body, foot) = rest.split_vertically(height);
        draw_headline(&head, &headline)?;
        draw_small_print(&head, notes.lines(), headline_height + 4)?;
        draw_small_print(&foot, captions.footer.iter().map(String::as_str), 6)?;
        charts(&body)
    })
}

/// An item of a picture that belongs to a subject.
trait Series {
    fn period_ns(&self) -> u64;
    fn sign(&self) -> Sign;
}

impl Series for SignedPoint<'_> {
    fn period_ns(&self) -> u64 {
        self.point.period_ns
    }

    fn sign(&self) -> Sign {
        self.sign
    }
}

/// Groups items by chart. A subject has the same sign at all periods, so that with several periods
/// each has a separate chart.
fn group_by_period<T: Series>(items: &[T]) -> Vec<Vec<&T>> {
    let mut groups: BTreeMap<u64, Vec<&T>> = BTreeMap::new();
    for item in items {
        groups.entry(item.period_ns()).or_default().push(item);
    }
    if groups.len() < 2 || !has_repeated_sign(items) {
        return vec![items.iter().collect()];
    }
    groups.into_values().collect()
}

fn has_repeated_sign<T: Series>(items: &[T]) -> bool {
    let mut signs = Vec::new();
    for item in items {
        if signs.contains(&item.sign()) {
            return true;
        }
        signs.push(item.sign());
    }
    false
}

/// Shortens a name to a number of characters.
fn truncate_name(name: &str, max_chars: usize) -> String {
    if name.chars().count() <= max_chars {
        return name.to_owned();
    }
    let start: String = name.chars().take(max_chars - 3).collect();
    start + "..."
}

/// Returns the title of the chart of a period.
fn period_title(period_ns: u64) -> String {
    format!("period {}", format_exact_ns(period_ns))
}

/// Returns the number of rows and columns of a grid of charts.
fn grid(charts: usize, max_columns: usize) -> (usize, usize) {
    let columns = charts.clamp(1, max_columns);
    (charts.div_ceil(columns), columns)
}
