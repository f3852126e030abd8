//! Static pictures of a report. Each is a pure function of the report and has a footer with its
//! provenance, so that it can be shown alone.

mod card;
mod histogram;
mod over_time;
mod percentiles;
mod tradeoff;

use cli::units::format_exact_ns;
use cli::wrap::wrap;
use files::report::{Report, Subject};
use litemap::LiteMap;
use plotters::prelude::*;

use crate::picture::canvas::{
    Area, DrawResult, Picture, SIZE, SMALL_CHARACTERS, TITLE_PX, draw_label, draw_sized,
    draw_small_print, file_name, small_print_height,
};
use crate::picture::palette::Sign;
use crate::report::label::{labels, signs};
use crate::report::origin;
use crate::report::tradeoff::{Point, percentile, points, ranking};
use crate::report::trust::Trust;

/// A measured subject with its sign and name.
struct Drawable<'a> {
    sign: Sign,
    name: String,
    subject: &'a Subject,
}

impl Drawable<'_> {
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

/// Maximum number of lines that can be distinguished in one chart.
const MAX_SERIES: usize = 12;
/// Height of the title above a chart without a note.
const TITLE_HEIGHT: u32 = 38;

/// Explains the zone that [`shade`] draws.
const DISTRUST_NOTE: &str = " Grey: not trusted, because the machine itself was late there.";

/// Returns a grey zone between two corners.
fn shade<X, Y>(corners: [(X, Y); 2]) -> Rectangle<(X, Y)> {
    Rectangle::new(corners, BLACK.mix(0.06).filled())
}

/// Draws all pictures of a report.
pub fn pictures(report: &Report) -> Vec<Picture> {
    let footer = origin::footer(report, SMALL_CHARACTERS);
    let trust = Trust::from_report(report);
    let mut pictures = main_pictures(report);
    pictures.extend(card::picture(report));
    for drawable in drawables(report) {
        let file = file_name(&drawable.subject.id);
        if drawable.subject.rounds.iter().any(|round| !round.lateness_ns.is_empty()) {
            pictures.push(over_time::picture(&format!("time-{file}"), &drawable, trust, &footer));
        }
        let name = format!("histogram-{file}");
        pictures.push(histogram::picture(&name, &drawable, trust, &footer));
    }
    pictures
}

/// Draws the pictures of all subjects together: lateness by percentile, and lateness against CPU
/// time.
pub fn main_pictures(report: &Report) -> Vec<Picture> {
    let measured = drawables(report);
    if measured.is_empty() {
        return Vec::new();
    }
    let shared = labels(report).shared;
    let footer = origin::footer(report, SMALL_CHARACTERS);
    let trust = Trust::from_report(report);
    let mut pictures = vec![percentiles::picture(&measured, &shared, trust, &footer)];
    pictures.extend(draw_tradeoff(report, &measured, &shared, &footer));
    pictures
}

/// Draws the picture made for sharing: the answer, a few subjects, the machine and the command.
/// `None` if nothing was measured.
pub fn card(report: &Report) -> Option<Picture> {
    card::picture(report)
}

/// Returns the measured subjects.
fn drawables(report: &Report) -> Vec<Drawable<'_>> {
    let names = labels(report).names;
    let all_signs = signs(std::slice::from_ref(report)).remove(0);
    let mut drawables = Vec::new();
    for ((subject, name), sign) in report.subjects.iter().zip(names).zip(all_signs) {
        if subject.summary.is_some() {
            drawables.push(Drawable { sign, name, subject });
        }
    }
    drawables
}

/// Draws lateness and cost, unless no subject has both.
fn draw_tradeoff(
    report: &Report,
    measured: &[Drawable<'_>],
    shared: &str,
    footer: &[String],
) -> Option<Picture> {
    let measured_points = points(report);
    if measured_points.is_empty() {
        return None;
    }
    let mut signed = Vec::new();
    for point in &measured_points {
        let sign = sign_of_subject(measured, &report.subjects[point.subject]);
        signed.push(SignedPoint { point, sign });
    }
    Some(tradeoff::picture(&LatenessAxis::new(report), &signed, shared, footer))
}

/// The axis of the lateness of subjects at one percentile.
struct LatenessAxis {
    percentile: &'static str,
    /// Whether the subjects are ranked by this percentile. Otherwise the machine itself was late
    /// there.
    is_ranked: bool,
}

impl LatenessAxis {
    fn new(report: &Report) -> Self {
        let is_ranked = ranking(report).is_some();
        Self { percentile: percentile(report), is_ranked }
    }

    fn label(&self) -> String {
        let reservation = if self.is_ranked { "" } else { " (not trusted)" };
        format!("lateness, {}{reservation}", self.percentile)
    }
}

fn sign_of_subject(measured: &[Drawable<'_>], subject: &Subject) -> Sign {
    let found = measured.iter().find(|d| std::ptr::eq(d.subject, subject));
    found.expect("a subject with a point was measured").sign
}

/// The text around the charts of a picture.
struct Captions<'a> {
    title: String,
    /// Explains how to read the picture.
    note: &'a str,
    /// The lines of small print below the charts.
    footer: &'a [String],
}

/// Draws a picture with charts of `height` pixels between its title and footer.
fn page(
    name: &str,
    height: u32,
    captions: &Captions<'_>,
    charts: impl FnOnce(&Area<'_>) -> DrawResult,
) -> Picture {
    let notes = wrap(captions.note, SMALL_CHARACTERS);
    let header = TITLE_HEIGHT + small_print_height(notes.lines().count());
    let footer = small_print_height(captions.footer.len()) + 8;
    draw_sized(name, (SIZE.0, header + height + footer), |area| {
        let (head, rest) = area.split_vertically(header);
        let (body, foot) = rest.split_vertically(height);
        draw_label(&head, &captions.title, TITLE_PX, (16, 10))?;
        draw_small_print(&head, notes.lines(), TITLE_HEIGHT)?;
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
    let mut groups: LiteMap<u64, Vec<&T>> = LiteMap::new();
    for item in items {
        groups.entry(item.period_ns()).or_default().push(item);
    }
    if groups.len() < 2 || !has_repeated_sign(items) {
        return vec![items.iter().collect()];
    }
    groups.into_iter().map(|(_, group)| group).collect()
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

/// Returns the title of the chart of a period.
fn period_title(period_ns: u64) -> String {
    format!("period {}", format_exact_ns(period_ns))
}

/// Returns the number of rows and columns of a grid of charts.
fn grid(charts: usize, max_columns: usize) -> (usize, usize) {
    let columns = charts.clamp(1, max_columns);
    (charts.div_ceil(columns), columns)
}
