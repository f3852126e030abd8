//! The command `osjitter report`: renders tables and pictures from a file. It detects the kind of
//! the file and delegates to the module that owns it.

pub mod args;
pub mod runs;

use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};

use crate::doctor;
use crate::doctor::file::Checkup;
use cli::exit::{Error, ExitStatus, Result, usage};
use cli::file_io;
use cli::file_io::{Destination, RUN_PICTURES, ResultNames};
use files::compare::Comparison;
use files::file::File;
use files::find::Find;
use files::gate::calibration::Calibration;
use files::gate::calibration::runs::RunCalibration;
use files::gate::verdict::Verdict;
use interop::detect::detect;
use interop::file_format::FileFormat;
use interop::fleet::{self, Fleet};
use interop::pair;

use crate::bench::{self, timeout};
use crate::flight_record::{self, Flight};
use crate::gate::calibrate;
use crate::gate::text::RenderedVerdict;
use crate::monitor::breaches::{self, Breaches};
use crate::report::args::ReportArgs;
use crate::report::runs::Runs;
use crate::settings::is_from_file;
use crate::{compare, find, gate, table_colors};
use render::formats::{Format, Rendering, make};

/// Renders a file of one kind.
type RenderFn = fn(&str, &ReportArgs) -> Result<Rendering>;

/// The kinds of files other than reports: their schemas, and the functions that render them.
const KINDS: [(&str, RenderFn); 9] = [
    (bench::SCHEMA, |text, args| bench::render(text, args.format, args.reference)),
    (Verdict::SCHEMA, |text, args| {
        let verdict = RenderedVerdict::from(read::<Verdict>(text)?);
        make("a verdict", &gate::text::formats::FORMATS, args.format, &verdict)
    }),
    (Comparison::SCHEMA, |text, args| {
        make("a comparison", &compare::formats::FORMATS, args.format, &read(text)?)
    }),
    (Checkup::SCHEMA, |text, args| {
        make("a checkup", &doctor::text::FORMATS, args.format, &read(text)?)
    }),
    (Flight::SCHEMA, |text, args| {
        make("a flight record", &flight_record::formats::FORMATS, args.format, &read(text)?)
    }),
    (Breaches::SCHEMA, |text, args| {
        make("a file of breaches", &breaches::formats::FORMATS, args.format, &read(text)?)
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

/// The names of the pictures of each kind of file that has several.
const PICTURES: &[ResultNames] = &[&RUN_PICTURES, &timeout::view::PICTURES];

fn read<T: File>(text: &str) -> Result<T> {
    T::from_json(text).map_err(|e| Error::usage(e.to_string()))
}

/// Runs the command.
pub fn run(args: &ReportArgs) -> Result<ExitStatus> {
    if args.files.iter().any(|file| fleet::is_bins_path(file)) {
        return deliver(render_fleet(args)?, args);
    }
    let files: Vec<PathBuf> = args.files.iter().map(|file| file_io::resolve(file)).collect();
    let first = file_io::read_text(&files[0])?;
    // The first file decides which kind all of them have. Without one of the kinds, they are
    // reports of runs, or of other tools.
    let kind = match detect(&first).map(|detected| detected.format) {
        Some(FileFormat::Osjitter { schema }) => KINDS.iter().find(|(known, _)| *known == schema),
        _ => None,
    };
    let rendering = if let Some((schema, render)) = kind {
        args.runs.check_absence()?;
        args.runs.note_table_flags();
        check_no_unit(args)?;
        if *schema != bench::SCHEMA {
            check_no_reference(args)?;
        }
        join(read_all(&files, first, |text| render(text, args))?, args.format)?
    } else {
        let parse = |text: &str| Ok(interop::parse_in_unit(text, args.unit)?);
        let reports = read_all(&files, first, parse)?;
        check_no_reference(args)?;
        let runs = Runs::new(reports, args.format, &args.runs)?;
        runs.check_completeness(args.format, args.force)?;
        runs.note_omissions(args.format);
        make("the report of a run", &runs::FORMATS, args.format, &runs)?
    };
    deliver(rendering, args)
}

fn check_no_reference(args: &ReportArgs) -> Result<()> {
    if args.reference && !is_from_file("--reference") {
        return Err(Error::usage("--reference goes with the file of osjitter bench timeout"));
    }
    Ok(())
}

fn check_no_unit(args: &ReportArgs) -> Result<()> {
    if args.unit.is_some() && !is_from_file("--unit") {
        return Err(Error::usage(interop::NEEDLESS_UNIT));
    }
    Ok(())
}

/// Renders files or directories of bins, added up.
fn render_fleet(args: &ReportArgs) -> Result<Rendering> {
    if let Some(other) = args.files.iter().find(|file| !fleet::is_bins_path(file)) {
        let make = "`osjitter report --format bins --out NAME.bins.csv` makes bins of a report";
        return Err(usage!("{} is not a file of bins, but others are: {make}", other.display()));
    }
    check_no_reference(args)?;
    check_no_unit(args)?;
    let runs = Runs::new(vec![Fleet::read(&args.files)?.report()?], args.format, &args.runs)?;
    runs.check_completeness(args.format, args.force)?;
    runs.note_omissions(args.format);
    make("a file of bins", &runs::FORMATS, args.format, &runs)
}

fn deliver(rendering: Rendering, args: &ReportArgs) -> Result<ExitStatus> {
    let out = Destination::from_flags(args.out.as_deref(), args.force);
    if let Some(out) = out {
        let files: Vec<&Path> = args.files.iter().map(PathBuf::as_path).collect();
        fleet::check_output(&files, out)?;
    }
    match (rendering, out) {
        (Rendering::Bins(intervals), _) => pair::deliver(&intervals, out)?,
        (Rendering::Text(text), None) if args.format == Format::Table => {
            file_io::write_output(table_colors::paint_for_stdout(text), out)?;
        }
        (Rendering::Text(text), _) => file_io::write_output(text, out)?,
        (Rendering::Bytes(_), None) if std::io::stdout().is_terminal() => {
            let format = args.format.name();
            return Err(usage!(
                "{format} is not text: write it to a file with --out, or into a pipe"
            ));
        }
        (Rendering::Bytes(bytes), _) => file_io::write_output(bytes, out)?,
        (Rendering::Pictures(pictures), Some(out)) if !out.is_stdout() => {
            let Destination { path: directory, force } = out;
            if directory.is_file() {
                let directory = directory.display();
                return Err(usage!("{directory} is a file: give a directory for the pictures"));
            }
            let is_new = |path: &&Path| !path.as_os_str().is_empty() && !path.exists();
            let created: Vec<&Path> = directory.ancestors().take_while(is_new).collect();
            std::fs::create_dir_all(directory).map_err(|e| Error::unwritable(directory, &e))?;
            let names: Vec<String> = pictures.iter().map(|p| p.name.clone()).collect();
            let mut files = Vec::new();
            for picture in pictures {
                files.push((directory.join(&picture.name), picture.svg.into_bytes()));
            }
            if let Err(error) = file_io::write_outputs(&files, force) {
                // It fails for a directory that is not empty.
                created.iter().for_each(|path| drop(std::fs::remove_dir(path)));
                return Err(error);
            }
            if force {
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                remove_previous_pictures(directory, &names)
                    .map_err(|e| Error::unwritable(directory, &e))?;
            }
        }
        (Rendering::Pictures(_), _) => {
            return Err(Error::usage("pictures are files: give a directory with --out"));
        }
    }
    Ok(ExitStatus::Done)
}

/// Removes the pictures of another file of the same kind, so that those of two are not mixed.
fn remove_previous_pictures(directory: &Path, new: &[&str]) -> io::Result<()> {
    let is_new = |pattern: &&str| {
        let (start, end) = pattern.split_once('*').unwrap_or((*pattern, ""));
        new.iter().any(|name| name.starts_with(start) && name.ends_with(end))
    };
    let kinds = PICTURES.iter().filter(|kind| kind.iter().any(is_new));
    kinds.copied().try_for_each(|kind| file_io::remove_others(directory, kind, new))
}

/// Reads all files. The first is given as text, since a pipe can be read only once.
fn read_all<T>(
    files: &[PathBuf],
    first: String,
    parse: impl Fn(&str) -> Result<T>,
) -> Result<Vec<T>> {
    let mut first = Some(first);
    let mut parsed = Vec::new();
    for file in files {
        let text = match first.take() {
            Some(text) => text,
            None => file_io::read_text(file)?,
        };
        parsed.push(parse(&text).map_err(|error| error.context(file.display()))?);
    }
    Ok(parsed)
}

/// Joins several files in one format, one below the other. JSON files end with a line break.
fn join(mut renderings: Vec<Rendering>, format: Format) -> Result<Rendering> {
    if renderings.len() == 1 {
        return Ok(renderings.remove(0));
    }
    let mut texts = Vec::new();
    for rendering in renderings {
        match rendering {
            Rendering::Text(text) if format != Format::Svg => texts.push(text),
            _ => return Err(Error::usage("expected a single file for this format")),
        }
    }
    Ok(Rendering::Text(texts.join(if format == Format::Json { "" } else { "\n" })))
}
