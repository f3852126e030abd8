//! Everything that can be shown of reports of runs, ours or imported.

use clap::Args;
use cli::exit::{Error, Result, usage};
use files::bins::{self, Binning, Interval, Labels};
use files::file::File as _;
use files::report::Report;

use crate::interop::{cyclictest, hgrm, hlog, openmetrics, trackers};
use crate::render::formats::{Format, Offer, Rendering, single};
use crate::render::table::TableArgs;
use crate::render::{bars, csv, entry, html, markdown, svg, table};
use crate::terminal;

/// What goes with some of the formats.
#[derive(Clone, Debug, Args)]
pub struct RunOptions {
    /// With --format csv or parquet, show every tick
    #[arg(long)]
    pub samples: bool,
    /// With the table, draw percentiles and a histogram of each subject
    #[arg(long)]
    pub histogram: bool,
    #[command(flatten)]
    pub table: TableArgs,
    /// The table alone, without words
    #[arg(long, short)]
    pub quiet: bool,
    /// With --format hgrm: the subject, where there are several
    #[arg(long, value_name = "ID")]
    pub subject: Option<String>,
    #[command(flatten)]
    pub bins: BinsArgs,
}

/// What a report does not have and bins do.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "With --format bins")]
pub struct BinsArgs {
    /// Name of the machine that was measured, which no report has
    #[arg(long, value_name = "NAME")]
    pub host: Option<String>,
    /// What to group by later, as in rack=r7; may be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    pub label: Vec<String>,
    /// Significant digits of a bin: 2 or 3 [default: 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(2..=3))]
    pub digits: Option<u8>,
}

impl BinsArgs {
    fn is_given(&self) -> bool {
        self.host.is_some() || !self.label.is_empty() || self.digits.is_some()
    }
}

/// Reports, and what was asked for beside the format.
pub struct Runs {
    reports: Vec<Report>,
    options: RunOptions,
}

/// The formats of a run's report, and what makes them.
pub const FORMATS: [Offer<Runs>; 14] = [
    (Format::Table, |runs| Ok(Rendering::Text(runs.table()))),
    (Format::Json, |runs| Ok(Rendering::Text(runs.reports.iter().map(Report::to_json).collect()))),
    (Format::Markdown, |runs| Ok(Rendering::Text(markdown::text(&runs.reports)))),
    (Format::Svg, |runs| Ok(Rendering::Pictures(svg::pictures(single(&runs.reports)?)))),
    (Format::Html, |runs| Ok(Rendering::Text(html::page(&runs.reports)))),
    (Format::Csv, |runs| {
        Ok(Rendering::Text(if runs.options.samples { csv::samples } else { csv::summary }(
            &runs.reports,
        )))
    }),
    (Format::Hgrm, |runs| runs.distribution().map(Rendering::Text)),
    (Format::Hlog, |runs| hlog::write(single(&runs.reports)?).map(Rendering::Text)),
    (Format::CyclictestJson, |runs| Ok(Rendering::Text(cyclictest::write(single(&runs.reports)?)))),
    (Format::Bmf, |runs| Ok(Rendering::Text(trackers::bmf(&runs.reports)))),
    (Format::Gab, |runs| Ok(Rendering::Text(trackers::gab(&runs.reports)))),
    (Format::Openmetrics, |runs| Ok(Rendering::Text(openmetrics::text(&runs.reports)))),
    (Format::Bins, |runs| runs.bins().map(Rendering::Bins)),
    (Format::Parquet, |runs| runs.parquet().map(Rendering::Bytes)),
];

impl Runs {
    /// Refuses what does not go with the format.
    pub fn new(reports: Vec<Report>, format: Format, options: &RunOptions) -> Result<Self> {
        let csv_or_parquet = matches!(format, Format::Csv | Format::Parquet);
        let refusal = match options {
            RunOptions { samples: true, .. } if !csv_or_parquet => {
                "--samples goes with --format csv or parquet"
            }
            RunOptions { subject: Some(_), .. } if format != Format::Hgrm => {
                "--subject goes with --format hgrm"
            }
            RunOptions { bins, .. } if bins.is_given() && format != Format::Bins => {
                "--host, --label and --digits go with --format bins"
            }
            RunOptions { histogram: true, .. } if format != Format::Table => {
                "--histogram goes with --format table"
            }
            _ => return Ok(Self { reports, options: options.clone() }),
        };
        Err(Error::usage(refusal))
    }

    fn table(&self) -> String {
        let columns = terminal::columns();
        let mut text =
            table::render_reports(&self.reports, &self.options.table, columns, !self.options.quiet);
        if self.options.histogram {
            text.extend(
                self.reports.iter().map(|report| format!("\n{}", bars::text(report, columns))),
            );
        }
        text
    }

    /// The format holds one distribution: of the subject asked for, or of the only one.
    fn distribution(&self) -> Result<String> {
        let all: Vec<_> = entry::entries(&self.reports).collect();
        let is_asked = |e: &&entry::Entry<'_>| {
            self.options.subject.as_ref().is_none_or(|id| *id == e.name() || *id == e.subject.name)
        };
        match all.iter().filter(is_asked).collect::<Vec<_>>().as_slice() {
            [one] => hgrm::write(one.subject),
            _ => {
                let names: Vec<String> = all.iter().map(entry::Entry::name).collect();
                Err(usage!(
                    "hgrm holds one distribution: choose with --subject one of {}",
                    names.join(", ")
                ))
            }
        }
    }

    /// Each measured subject of each report.
    fn bins(&self) -> Result<Vec<Interval>> {
        let BinsArgs { host, label, digits } = &self.options.bins;
        let mut labels = Labels::default();
        for text in label {
            let (key, value) =
                text.split_once('=').ok_or_else(|| usage!("--label {text}: write key=value"))?;
            labels.set(key, value).map_err(|e| usage!("--label {text}: {e}"))?;
        }
        let binning = if *digits == Some(3) { Binning::Hdr3 } else { Binning::Hdr2 };
        let host = host.as_deref().unwrap_or_default();
        let mut all = Vec::new();
        for report in &self.reports {
            all.extend(
                bins::intervals_from_report(report, host, &labels, binning)
                    .map_err(|e| usage!("{e}"))?,
            );
        }
        Ok(all)
    }

    #[cfg(feature = "parquet")]
    fn parquet(&self) -> Result<Vec<u8>> {
        use crate::render::parquet;
        if self.options.samples {
            parquet::samples(&self.reports)
        } else {
            parquet::summary(&self.reports)
        }
    }

    #[cfg(not(feature = "parquet"))]
    fn parquet(&self) -> Result<Vec<u8>> {
        Err(Error::usage(
            "this build has no parquet: build it with `cargo build --features parquet`",
        ))
    }
}
