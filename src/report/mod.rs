//! `osjitter report`: any table or picture of a file again, from the file alone. It finds out the
//! kind of the file, and asks the room that owns it.

pub mod args;
pub mod runs;

use std::io::IsTerminal as _;
use std::path::PathBuf;

use cli::exit::{Error, ExitStatus, Result, usage};
use files::compare::Comparison;
use files::file::File;
use files::find::Find;
use files::gate::calibration::Calibration;
use files::gate::calibration::runs::RunCalibration;
use files::gate::verdict::Verdict;

use crate::doctor::file::Checkup;
use crate::gate::calibrate;
use crate::interop::fleet::{self, Fleet};
use crate::interop::pair;
use crate::render::formats::{Format, Rendering, make};
use crate::report::args::ReportArgs;
use crate::report::runs::Runs;
use crate::{bench, compare, doctor, file_io, find, gate, interop};

/// Where a file of ours names its schema: in its first lines, unless somebody has sorted its keys.
const HEAD: usize = 4_096;

/// Whether a file names a schema.
fn names(text: &str) -> impl Fn(&str) -> bool {
    #[derive(serde::Deserialize)]
    struct Named {
        schema: Option<String>,
    }
    let head = &text.as_bytes()[..text.len().min(HEAD)];
    let has = |part: &str| head.windows(part.len()).any(|bytes| bytes == part.as_bytes());
    let sorted = text.trim_start().starts_with('{') && !has("\"schema\"");
    let later = sorted.then(|| serde_json::from_str::<Named>(text).ok()?.schema).flatten();
    move |schema| has(schema) || later.as_deref() == Some(schema)
}

/// What makes one file's format.
type Show = fn(&str, &ReportArgs) -> Result<Rendering>;

/// The kinds of files beside reports, by their schemas, and the rooms that own them.
const KINDS: [(&str, Show); 7] = [
    (bench::SCHEMA, |text, args| bench::render(text, args.format, args.reference)),
    (Verdict::SCHEMA, |text, args| {
        make("a verdict", &gate::formats::FORMATS, args.format, &gate::worded(read(text)?))
    }),
    (Comparison::SCHEMA, |text, args| {
        make("a comparison", &compare::formats::FORMATS, args.format, &read(text)?)
    }),
    (Checkup::SCHEMA, |text, args| {
        make("a checkup", &doctor::text::FORMATS, args.format, &read(text)?)
    }),
    (Find::SCHEMA, |text, args| {
        make("what was found", &find::formats::FORMATS, args.format, &read(text)?)
    }),
    (Calibration::SCHEMA, |text, args| {
        make("a calibration", &calibrate::text::FORMATS, args.format, &read(text)?)
    }),
    (RunCalibration::SCHEMA, |text, args| {
        make("a calibration", &calibrate::text::RUN_FORMATS, args.format, &read(text)?)
    }),
];

fn read<T: File>(text: &str) -> Result<T> {
    T::from_json(text).map_err(|e| Error::usage(e.to_string()))
}

pub fn run(args: &ReportArgs) -> Result<ExitStatus> {
    if args.files.iter().any(|file| fleet::is_one(file)) {
        return deliver(of_fleet(args)?, args);
    }
    let files: Vec<PathBuf> = args.files.iter().map(|file| file_io::resolved(file)).collect();
    let first = file_io::read_text(&files[0])?;
    let kind = {
        let names = names(&first);
        KINDS.iter().find(|(schema, _)| names(schema))
    };
    let made = if let Some((_, show)) = kind {
        if args.runs.samples || args.runs.subject.is_some() {
            return Err(Error::usage("--samples and --subject go with the report of a run"));
        }
        joined(all(&files, first, |text| show(text, args))?, args.format)?
    } else {
        let reports = all(&files, first, interop::parse)?;
        if args.reference {
            return Err(Error::usage("--reference goes with the file of osjitter bench timeout"));
        }
        let runs = Runs::new(reports, args.format, &args.runs)?;
        make("the report of a run", &runs::FORMATS, args.format, &runs)?
    };
    deliver(made, args)
}

/// Files of bins, or directories of them, all of them together.
fn of_fleet(args: &ReportArgs) -> Result<Rendering> {
    if let Some(other) = args.files.iter().find(|file| !fleet::is_one(file)) {
        let make = "`osjitter report --format bins --out NAME.bins.csv` makes bins of a report";
        return Err(usage!("{} is no file of bins, and others are: {make}", other.display()));
    }
    if args.reference {
        return Err(Error::usage("--reference goes with the file of osjitter bench timeout"));
    }
    let runs = Runs::new(vec![Fleet::read(&args.files)?.report()?], args.format, &args.runs)?;
    make("a file of bins", &runs::FORMATS, args.format, &runs)
}

fn deliver(made: Rendering, args: &ReportArgs) -> Result<ExitStatus> {
    let out = args.out.as_deref();
    match (made, out) {
        (Rendering::Bins(intervals), _) => pair::deliver(&intervals, out)?,
        (Rendering::Text(text), _) => file_io::deliver(text, out)?,
        (Rendering::Bytes(_), None) if std::io::stdout().is_terminal() => {
            let format = args.format.name();
            return Err(usage!(
                "{format} is not text: write it to a file with --out, or into a pipe"
            ));
        }
        (Rendering::Bytes(bytes), _) => file_io::deliver(bytes, out)?,
        (Rendering::Pictures(pictures), Some(directory)) => {
            file_io::deliver_pictures(&pictures, directory)?
        }
        (Rendering::Pictures(_), None) => {
            return Err(Error::usage("the pictures are files: give a directory with --out"));
        }
    }
    Ok(ExitStatus::Done)
}

/// Reads all files, the first of which is already there as text: what comes through a pipe can be
/// read only once.
fn all<T>(files: &[PathBuf], first: String, parse: impl Fn(&str) -> Result<T>) -> Result<Vec<T>> {
    let mut first = Some(first);
    let read = |file: &PathBuf| {
        let text = first.take().map_or_else(|| file_io::read_text(file), Ok)?;
        parse(&text).map_err(|e| e.context(file.display()))
    };
    files.iter().map(read).collect()
}

/// Several files in one format, one below the other; each JSON ends its own line.
fn joined(mut all: Vec<Rendering>, format: Format) -> Result<Rendering> {
    if all.len() == 1 {
        return Ok(all.remove(0));
    }
    let text = |made| {
        if let Rendering::Text(text) = made {
            Ok(text)
        } else {
            Err(Error::usage("give one file for pictures"))
        }
    };
    let texts = all.into_iter().map(text).collect::<Result<Vec<_>>>()?;
    Ok(Rendering::Text(texts.join(if format == Format::Json { "" } else { "\n" })))
}
