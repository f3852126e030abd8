//! A table or picture of a bench again, from its JSON alone.

use std::fs;
use std::io::Read;
use std::path::Path;

use jitterstat::bench::{SCHEMA, dispatch, timeout};
use jitterstat::file::File as _;

use crate::bench;
use crate::exit::{Error, ExitStatus};
use crate::files;
use crate::picture::canvas::Picture;
use crate::render::formats::ReportFormat;
use crate::report::args::ReportArgs;

/// Where the schema of a file stands that a bench wrote: in its first lines.
const HEAD: u64 = 4_096;
/// More than any bench writes.
const LARGEST: u64 = 256 << 20;

/// What a bench wrote.
enum Bench {
    Clock(bench::clock::model::Bench),
    Dispatch(dispatch::Report),
    Timeout(timeout::Report),
}

/// Makes the format of the files if they are of benches; `None` if the first is not.
pub fn run(args: &ReportArgs) -> Result<Option<ExitStatus>, Error> {
    if !args.files.first().is_some_and(|file| is_bench(file)) {
        return Ok(None);
    }
    if args.samples || args.subject.is_some() {
        return Err(Error::usage("--samples and --subject go with the report of a run"));
    }
    let benches = args.files.iter().map(|file| read(file)).collect::<Result<Vec<_>, _>>().map_err(Error::usage)?;
    let join = |one: &dyn Fn(&Bench) -> String| benches.iter().map(one).collect::<Vec<_>>().join("\n");
    let text = match args.format {
        ReportFormat::Table => join(&|bench| bench.table(args.reference)),
        ReportFormat::Markdown => join(&Bench::markdown),
        ReportFormat::Json => benches.iter().map(Bench::json).collect(),
        ReportFormat::Svg => {
            let (Some(directory), [bench]) = (args.out.as_deref(), benches.as_slice()) else {
                return Err(super::pictures_go_to_a_directory());
            };
            super::write_pictures(&bench.pictures(), directory)?;
            return Ok(Some(ExitStatus::Done));
        }
        _ => {
            return Err(Error::usage("the file of a bench can be had as table, json, markdown and svg"));
        }
    };
    files::deliver(text, args.out.as_deref())?;
    Ok(Some(ExitStatus::Done))
}

/// Whether a regular file names the schema of a bench where it begins. What can be read only once is not looked into.
fn is_bench(file: &Path) -> bool {
    let head = || -> std::io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        fs::File::open(file)?.take(HEAD).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    file.is_file() && head().is_ok_and(|bytes| bytes.windows(SCHEMA.len()).any(|part| part == SCHEMA.as_bytes()))
}

fn read(file: &Path) -> Result<Bench, String> {
    let parse = || -> Result<Bench, String> {
        let cannot = |e: std::io::Error| format!("cannot be read: {e}");
        let mut text = String::new();
        let opened = fs::File::open(file).map_err(cannot)?;
        if opened.take(LARGEST + 1).read_to_string(&mut text).map_err(cannot)? as u64 > LARGEST {
            return Err(format!("is larger than {} MiB, which no bench writes", LARGEST >> 20));
        }
        #[derive(serde::Deserialize)]
        struct Head {
            bench: Option<String>,
        }
        let head: Head = serde_json::from_str(&text).map_err(|e| format!("not a report: {e}"))?;
        match head.bench.as_deref() {
            Some(bench::clock::model::BENCH) => bench::clock::model::Bench::from_json(&text).map(Bench::Clock),
            Some(dispatch::BENCH) => dispatch::Report::from_json(&text).map(Bench::Dispatch),
            Some(timeout::BENCH) => timeout::Report::from_json(&text).map(Bench::Timeout),
            other => {
                return Err(format!("the bench {} is not known to this version", other.unwrap_or("without a name")));
            }
        }
        .map_err(|e| e.to_string())
    };
    parse().map_err(|reason| format!("{}: {reason}", file.display()))
}

impl Bench {
    fn table(&self, reference: bool) -> String {
        match self {
            Self::Clock(bench) => bench.table(),
            Self::Dispatch(report) => bench::dispatch::view::table(report),
            Self::Timeout(report) if reference => {
                bench::timeout::view::table(report) + &bench::timeout::view::beside_reference(report)
            }
            Self::Timeout(report) => bench::timeout::view::table(report),
        }
    }

    fn markdown(&self) -> String {
        match self {
            Self::Clock(bench) => bench::clock::markdown::markdown(bench),
            Self::Dispatch(report) => bench::dispatch::markdown::markdown(report),
            Self::Timeout(report) => bench::timeout::markdown::markdown(report),
        }
    }

    fn json(&self) -> String {
        match self {
            Self::Clock(bench) => bench.to_json(),
            Self::Dispatch(report) => report.to_json(),
            Self::Timeout(report) => report.to_json(),
        }
    }

    fn pictures(&self) -> Vec<Picture> {
        match self {
            Self::Clock(bench) => vec![bench::clock::picture::picture(bench)],
            Self::Dispatch(report) => vec![bench::dispatch::picture::picture(report)],
            Self::Timeout(report) => bench::timeout::picture::pictures(report),
        }
    }
}
