//! Renders reports of runs, measured or imported, in all formats.

use std::collections::HashSet;

use clap::Args;
use cli::exit::{Error, Result, usage};
use cli::terminal;
use cli::words::{end_sentence, pluralize};
use files::bins::{self, Binning, Interval, Labels};
use files::entry::{self, Entry};
use files::file::File as _;
use files::merge;
use files::report::{Report, Status, Warning};
use interop::cyclictest::{self, Resolution};
use interop::unit::UNIT_WARNING;
use interop::{OMISSION_WARNINGS, csv, hgrm, hlog, openmetrics, trackers};
use render::formats::{Format, Offer, Rendering, single};
use render::report::label::late_failure_notes;
use render::report::table::{TableArgs, early_end_note};
use render::report::{bars, html, markdown, perfetto, svg, table};

use crate::settings::is_from_file;

/// Options that apply to some of the formats.
#[derive(Clone, Debug, Args)]
pub struct RunOptions {
    /// Write every tick (with --format csv or parquet)
    #[arg(long)]
    pub samples: bool,
    /// Draw percentiles and a histogram of each subject below the table
    #[arg(long)]
    pub histogram: bool,
    #[command(flatten)]
    pub table: TableArgs,
    /// Show the table without the summary
    #[arg(long, short)]
    pub quiet: bool,
    /// Subject to write, if there are several (with --format hgrm or perfetto)
    #[arg(long, value_name = "ID")]
    pub subject: Option<String>,
    /// Resolution of the times (with --format cyclictest-json) [default: us]
    #[arg(long, value_name = "UNIT", value_enum)]
    pub resolution: Option<Resolution>,
    #[command(flatten)]
    pub bins: BinsArgs,
}

/// Information that bins have in addition to a report.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "With --format bins")]
pub struct BinsArgs {
    /// Name of the measured machine, which reports do not contain
    #[arg(long, value_name = "NAME")]
    pub host: Option<String>,
    /// Label to group by, such as rack=r7; repeat for several
    #[arg(long, value_name = "KEY=VALUE")]
    pub label: Vec<String>,
    /// Significant digits of a bin: 2 or 3 [default: 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(2..=3))]
    pub digits: Option<u8>,
}

/// A flag of reports of runs: its name, whether it is given, and the formats that it applies to.
type FormatFlag = (&'static str, fn(&RunOptions) -> bool, &'static [Format]);

const FORMAT_FLAGS: [FormatFlag; 6] = [
    ("--samples", |o| o.samples, &[Format::Csv, Format::Parquet]),
    ("--subject", |o| o.subject.is_some(), &[Format::Hgrm, Format::Perfetto]),
    ("--resolution", |o| o.resolution.is_some(), &[Format::CyclictestJson]),
    ("--host", |o| o.bins.host.is_some(), &[Format::Bins]),
    ("--label", |o| !o.bins.label.is_empty(), &[Format::Bins]),
    ("--digits", |o| o.bins.digits.is_some(), &[Format::Bins]),
];

impl RunOptions {
    /// Returns the flags of the command line. Those of a project are defaults, for which not every
    /// format has a use.
    fn given_flags(&self) -> impl Iterator<Item = &'static FormatFlag> {
        FORMAT_FLAGS.iter().filter(|(flag, is_given, _)| is_given(self) && !is_from_file(flag))
    }

    /// Names the given flags of the table of a run on standard error, for an output without it.
    pub fn note_table_flags(&self) {
        self.table.note_flags(self.histogram, self.quiet, is_from_file);
    }

    /// Checks that every given flag applies to a format of reports of runs.
    fn check_format(&self, format: Format) -> Result<()> {
        if format != Format::Table {
            self.note_table_flags();
        }
        match self.given_flags().find(|(_, _, formats)| !formats.contains(&format)) {
            Some((flag, _, formats)) => {
                let names: Vec<String> = formats.iter().map(|format| format.name()).collect();
                Err(usage!("{flag} goes with --format {}", names.join(" or ")))
            }
            None => Ok(()),
        }
    }

    /// Checks that no flag is given, for a file that is no report of a run.
    ///
    /// # Errors
    /// Returns an error that names the first given flag.
    pub fn check_absence(&self) -> Result<()> {
        match self.given_flags().next() {
            Some((flag, ..)) => Err(usage!("{flag} goes with the report of a run")),
            None => Ok(()),
        }
    }
}

/// Reports with the options of their rendering.
pub struct Runs {
    reports: Vec<Report>,
    options: RunOptions,
}

/// The formats of reports of runs, and the functions that render them.
pub const FORMATS: [Offer<Runs>; 16] = [
    (Format::Table, |runs| Ok(Rendering::Text(runs.table()))),
    (Format::Json, |runs| Ok(Rendering::Text(runs.reports.iter().map(Report::to_json).collect()))),
    (Format::Markdown, |runs| Ok(Rendering::Text(markdown::text(&runs.reports)))),
    (Format::Svg, |runs| Ok(Rendering::Pictures(svg::pictures(single(&runs.reports)?)))),
    (Format::Card, |runs| runs.card().map(Rendering::Text)),
    (Format::Html, |runs| Ok(Rendering::Text(html::page(&runs.reports)))),
    (Format::Csv, |runs| Ok(Rendering::Text(runs.csv()))),
    (Format::Hgrm, |runs| runs.distribution().map(Rendering::Text)),
    (Format::Hlog, |runs| Ok(Rendering::Text(hlog::write(single(&runs.reports)?)?))),
    (Format::CyclictestJson, |runs| {
        let resolution = runs.options.resolution.unwrap_or_default();
        Ok(Rendering::Text(cyclictest::write(single(&runs.reports)?, resolution)))
    }),
    (Format::Bmf, |runs| Ok(Rendering::Text(trackers::bmf(&runs.reports)))),
    (Format::Gab, |runs| Ok(Rendering::Text(trackers::gab(&runs.reports)))),
    (Format::Openmetrics, |runs| Ok(Rendering::Text(openmetrics::text(&runs.reports)))),
    (Format::Bins, |runs| runs.bins().map(Rendering::Bins)),
    (Format::Perfetto, |runs| {
        let report = single(&runs.reports)?;
        perfetto::text(report, runs.options.subject.as_deref()).map(Rendering::Text)
    }),
    (Format::Parquet, |runs| runs.parquet().map(Rendering::Bytes)),
];

/// Returns what the numbers of a report lack, and what it lacks besides.
fn omissions(report: &Report) -> Vec<String> {
    let mut omissions = missing_values(report);
    for subject in &report.subjects {
        if let (Status::Failed { reason }, None) = (&subject.status, &subject.summary) {
            omissions.push(format!("{} is left out: {reason}", subject.id));
        }
        if !subject.excluded.is_empty() {
            let rounds = pluralize(subject.excluded.len() as u64, "round");
            omissions.push(format!("{rounds} of {} left out: a setting was changed", subject.id));
        }
    }
    omissions
}

/// Returns why numbers of a report do not cover all that was to be measured.
fn missing_values(report: &Report) -> Vec<String> {
    let mut missing = Vec::new();
    missing.extend(early_end_note(report));
    missing.extend(late_failure_notes(report));
    let lacks_data = |warning: &&Warning| {
        let code = warning.code.as_str();
        code == merge::FAILURES || OMISSION_WARNINGS.contains(&code)
    };
    let warnings = report.warnings.iter().filter(lacks_data);
    missing.extend(warnings.map(|warning| warning.message.clone()));
    missing
}

/// Returns a note about values of which only the number and the largest one are known.
fn overflow_note(report: &Report) -> Option<String> {
    let mut ids = Vec::new();
    for subject in &report.subjects {
        if subject.histogram.as_ref().is_some_and(|histogram| histogram.overflow.is_some()) {
            ids.push(subject.id.as_str());
        }
    }
    let (first, others) = ids.split_first()?;
    let others = match others.len() {
        0 => String::new(),
        count => format!(" and {}", pluralize(count as u64, "other subject")),
    };
    Some(format!(
        "the values of {first}{others} above the last bin are written as the largest one: \
         only their number is known"
    ))
}

/// Checks that no interval occurs twice, since a reader of the file would refuse it.
fn check_unique(intervals: &[Interval]) -> Result<()> {
    let mut keys = HashSet::new();
    match intervals.iter().find(|interval| !keys.insert(interval.key.identity())) {
        Some(Interval { key, .. }) => Err(usage!(
            "{key} occurs in several reports: give each report once, or write a file for each with its own --host or --label"
        )),
        None => Ok(()),
    }
}

impl Runs {
    /// Checks that the options apply to the format.
    ///
    /// # Errors
    /// Returns an error if an option belongs to another format.
    pub fn new(reports: Vec<Report>, format: Format, options: &RunOptions) -> Result<Self> {
        options.check_format(format)?;
        Ok(Self { reports, options: options.clone() })
    }

    /// Checks that a format that `osjitter` or a tracker of benchmarks reads can state what a source
    /// lacks. Otherwise a gate would judge the values as if they were complete.
    ///
    /// # Errors
    /// Returns an error if a report lacks values of its source or of its plan, unless `force` is
    /// set, or if it has none.
    pub fn check_completeness(&self, format: Format, force: bool) -> Result<()> {
        use Format::{Bins, Bmf, CyclictestJson, Gab, Hgrm, Hlog};
        if !matches!(format, Bins | Bmf | CyclictestJson | Gab | Hgrm | Hlog) {
            return Ok(());
        }
        let is_empty =
            |report: &Report| report.subjects.iter().all(|subject| subject.summary.is_none());
        let name = format.name();
        if self.reports.iter().all(is_empty) {
            return Err(usage!("nothing was measured: there is no value for {name}"));
        }
        if force {
            return Ok(());
        }
        if self.reports.iter().any(is_empty) {
            return Err(usage!("a report has no value for {name}: write the rest with --force"));
        }
        let Some(missing) = self.reports.iter().flat_map(missing_values).next() else {
            return Ok(());
        };
        Err(usage!(
            "{} {} cannot state it: write the rest with --force",
            end_sentence(&missing),
            format.name()
        ))
    }

    /// Names on standard error what the numbers lack, and what they assume, unless the format
    /// states it.
    pub fn note_omissions(&self, format: Format) {
        let has_words = matches!(
            format,
            Format::Table | Format::Json | Format::Jsonl | Format::Markdown | Format::Html
        );
        if has_words {
            return;
        }
        let has_only_counts = matches!(format, Format::Bins | Format::Hgrm | Format::Hlog);
        for report in &self.reports {
            let units = report.warnings.iter().filter(|warning| warning.code == UNIT_WARNING);
            let mut notes = omissions(report);
            notes.extend(units.map(|warning| warning.message.clone()));
            notes.extend(overflow_note(report).filter(|_| has_only_counts));
            notes.extend(svg::undrawn_note(report).filter(|_| format == Format::Svg));
            notes.iter().for_each(|note| terminal::note(false, note));
        }
    }

    fn table(&self) -> String {
        let columns = terminal::columns();
        let mut text =
            table::render_reports(&self.reports, &self.options.table, columns, !self.options.quiet);
        if self.options.histogram {
            for report in &self.reports {
                text += &format!("\n{}", bars::text(report, columns));
            }
        }
        text
    }

    /// Draws the picture made for sharing.
    fn card(&self) -> Result<String> {
        match svg::card(single(&self.reports)?) {
            Some(picture) => Ok(picture.svg),
            None => Err(Error::usage("cannot draw a card: nothing was measured")),
        }
    }

    fn csv(&self) -> String {
        let render = if self.options.samples { csv::samples } else { csv::summary };
        render(&self.reports)
    }

    /// Renders the distribution of the selected subject, or of the only one.
    fn distribution(&self) -> Result<String> {
        let mut selected: Vec<Entry<'_>> = entry::entries(&self.reports).collect();
        let names: Vec<String> = selected.iter().map(Entry::name).collect();
        if let Some(id) = &self.options.subject {
            selected.retain(|entry| *id == entry.name() || *id == entry.subject.name);
        }
        match selected.as_slice() {
            [entry] => Ok(hgrm::write(entry.subject)?),
            _ => Err(usage!(
                "hgrm holds one distribution: choose with --subject one of {}",
                names.join(", ")
            )),
        }
    }

    /// Returns the intervals of each measured subject of each report.
    fn bins(&self) -> Result<Vec<Interval>> {
        let BinsArgs { host, label, digits } = &self.options.bins;
        let mut labels = Labels::default();
        for text in label {
            let (key, value) =
                text.split_once('=').ok_or_else(|| usage!("--label {text}: write key=value"))?;
            if labels.get(key).is_some() {
                return Err(usage!("--label {key} is given twice"));
            }
            labels.set(key, value).map_err(|e| usage!("--label {text}: {e}"))?;
        }
        merge::check_runs_differ(&self.reports)
            .map_err(|e| usage!("{e}, since a sum of bins would count it twice"))?;
        let binning = if *digits == Some(3) { Binning::Hdr3 } else { Binning::Hdr2 };
        let host = host.as_deref().unwrap_or_default();
        let mut intervals = Vec::new();
        for report in &self.reports {
            let measured = bins::intervals_from_report(report, host, &labels, binning);
            intervals.extend(measured.map_err(|e| usage!("{e}"))?);
        }
        check_unique(&intervals)?;
        Ok(intervals)
    }

    #[cfg(feature = "parquet")]
    fn parquet(&self) -> Result<Vec<u8>> {
        use interop::parquet;
        Ok(if self.options.samples {
            parquet::samples(&self.reports)?
        } else {
            parquet::summary(&self.reports)?
        })
    }

    #[cfg(not(feature = "parquet"))]
    fn parquet(&self) -> Result<Vec<u8>> {
        Err(Error::usage(
            "this build has no parquet: build it with `cargo build --features parquet`",
        ))
    }
}
