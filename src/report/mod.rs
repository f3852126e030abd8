//! `osjitter report`: any picture or table again, from `report.json` alone.

pub mod args;
mod bench;

#[cfg(feature = "parquet")]
use std::io::IsTerminal as _;
use std::path::Path;

use jitterstat::file::File as _;
use jitterstat::report::Report;

use crate::exit::{Error, ExitStatus};
use crate::picture::canvas::Picture;
use crate::render::entry::entries;
use crate::render::formats::ReportFormat;
use crate::report::args::ReportArgs;
use crate::{files, interop, render, terminal};

/// Reads the reports, writes the format to standard output or to `--out`.
pub fn run(args: &ReportArgs) -> Result<ExitStatus, Error> {
    if let Some(status) = bench::run(args)? {
        return Ok(status);
    }
    if args.reference {
        return Err(Error::usage("--reference goes with the file of osjitter bench timeout"));
    }
    let read = args.files.iter().map(|file| interop::read(file)).collect::<Result<Vec<_>, _>>();
    let reports = read.map_err(|e| Error::usage(e.to_string()))?;
    if args.samples && !matches!(args.format, ReportFormat::Csv | ReportFormat::Parquet) {
        return Err(Error::usage("--samples goes with --format csv or parquet"));
    }
    if args.subject.is_some() && args.format != ReportFormat::Hgrm {
        return Err(Error::usage("--subject goes with --format hgrm"));
    }
    if args.histogram && args.format != ReportFormat::Table {
        return Err(Error::usage("--histogram goes with --format table"));
    }
    let columns = terminal::columns();
    let text = match args.format {
        ReportFormat::Table if args.histogram => {
            let drawn = reports.iter().map(|r| format!("\n{}", render::bars::text(r, columns)));
            format!("{}{}", render::table::of_several(&reports, columns), drawn.collect::<String>())
        }
        ReportFormat::Table => render::table::of_several(&reports, columns),
        ReportFormat::Json => match reports.as_slice() {
            [one] => one.to_json(),
            several => several.iter().map(Report::to_json).collect(),
        },
        ReportFormat::Html => render::html::page(&reports),
        ReportFormat::Markdown => render::markdown::text(&reports),
        ReportFormat::Csv if args.samples => render::csv::samples(&reports),
        ReportFormat::Csv => render::csv::summary(&reports),
        ReportFormat::Hgrm => distribution(&reports, args.subject.as_deref())?,
        ReportFormat::Hlog => interop::hdr_out::hlog(only(&reports)?).map_err(Error::usage)?,
        ReportFormat::CyclictestJson => interop::cyclictest_out::json(only(&reports)?),
        ReportFormat::Bmf => interop::trackers::bmf(&reports),
        ReportFormat::Gab => interop::trackers::gab(&reports),
        ReportFormat::Openmetrics => interop::openmetrics::text(&reports),
        ReportFormat::Svg => return pictures(&reports, args.out.as_deref()),
        ReportFormat::Parquet => {
            files::deliver(parquet(&reports, args)?, args.out.as_deref())?;
            return Ok(ExitStatus::Done);
        }
    };
    files::deliver(&text, args.out.as_deref())?;
    Ok(ExitStatus::Done)
}

#[cfg(feature = "parquet")]
fn parquet(reports: &[Report], args: &ReportArgs) -> Result<Vec<u8>, Error> {
    if args.out.is_none() && std::io::stdout().is_terminal() {
        return Err(Error::usage("parquet is no text: write it to a file with --out, or into a pipe"));
    }
    let table = if args.samples { render::parquet::samples(reports) } else { render::parquet::summary(reports) };
    table.map_err(Error::measure)
}

#[cfg(not(feature = "parquet"))]
fn parquet(_: &[Report], _: &ReportArgs) -> Result<Vec<u8>, Error> {
    Err(Error::usage("this build has no parquet: build it with `cargo build --features parquet`"))
}

/// The one report of a format that has no place for a second.
fn only(reports: &[Report]) -> Result<&Report, Error> {
    match reports {
        [one] => Ok(one),
        _ => Err(Error::usage("this format holds one report: give one file")),
    }
}

/// The format holds one distribution: of the subject asked for, or of the only one.
fn distribution(reports: &[Report], id: Option<&str>) -> Result<String, Error> {
    let all: Vec<_> = entries(reports).collect();
    let chosen: Vec<_> = all.iter().filter(|e| id.is_none_or(|id| id == e.name() || id == e.subject.name)).collect();
    match chosen.as_slice() {
        [one] => interop::hdr_out::hgrm(one.subject).map_err(Error::usage),
        _ => {
            let names: Vec<String> = all.iter().map(|e| e.name()).collect();
            Err(Error::usage(format!("hgrm holds one distribution: choose with --subject one of {}", names.join(", "))))
        }
    }
}

fn pictures(reports: &[Report], out: Option<&Path>) -> Result<ExitStatus, Error> {
    let (Some(directory), [report]) = (out, reports) else { return Err(pictures_go_to_a_directory()) };
    write_pictures(&render::svg::pictures(report), directory)?;
    Ok(ExitStatus::Done)
}

fn pictures_go_to_a_directory() -> Error {
    Error::usage("pictures are several files: give one report, and a directory with --out")
}

fn write_pictures(pictures: &[Picture], directory: &Path) -> Result<(), Error> {
    std::fs::create_dir_all(directory).map_err(|e| Error::place(directory, &e))?;
    for picture in pictures {
        let file = directory.join(&picture.name);
        files::write_atomically(&file, picture.svg.as_bytes()).map_err(|e| Error::place(&file, &e))?;
    }
    Ok(())
}
