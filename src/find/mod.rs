//! `osjitter find`: finds the shortest period at which tickers meet goals, or the goals that they
//! meet at one period.
//!
//! `files::find` decides which period is next and what the measurements show; [`search`] plans and
//! runs them.

pub mod args;
pub mod formats;
mod goals;
mod picture;
mod search;
mod text;

use std::sync::Arc;
use std::time::SystemTime;

use cli::exit::{self, Error, ExitStatus};
use cli::file_io;
use cli::file_io::{Destination, OutputDirectory, RESULT_FILES};
use cli::terminal;
use engine::machine::{host, tuning};
use engine::measure::load::Loads;
use engine::measure::round_settings::RoundSettings;
use files::file::File as _;
use files::find::Ticker;

use crate::find::args::FindArgs;
use crate::find::search::Search;
use crate::interrupt;
use render::formats::{Format, make};

/// The name of the result file.
const RESULT: &str = "find.json";

/// Searches, prints the result, and writes it into a directory.
pub fn run(args: &FindArgs) -> exit::Result<ExitStatus> {
    let search = Search::plan(args)?;

    // Set up everything that can fail before anything is measured or written.
    let destination = Destination::from_flags(args.out.as_deref(), args.force);
    OutputDirectory::check(destination, RESULT_FILES)?;
    let host = host::capture();
    let settings =
        tuning::Settings { cpu: args.cpu, sched: args.sched, ..tuning::Settings::default() };
    let started_utc = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let stop = Arc::default();
    interrupt::stop_on_interrupt(&stop)?;
    // Loads start first, so that they do not inherit the CPU and the scheduling class of the
    // measuring thread.
    let loaded = search.tickers.first().map(|ticker| search.first_scenario(*ticker)).transpose()?;
    let mut loads = Loads::start(loaded.as_slice())?;
    settings.apply()?;
    let settings = RoundSettings::read_with(&settings);
    // The directory comes last, so that a failed setup does not leave one.
    let out = OutputDirectory::open(destination, &started_utc, RESULT_FILES)?;
    terminal::note(args.quiet, &search.announcement());

    // Measure.
    let mut found = search.empty_result(args, host, started_utc);
    search.measure(&mut found, &mut loads, &settings, &stop, args.quiet)?;
    found.load = loads.end().pop();

    // The result is printed even if it could not be written.
    let json = found.to_json();
    let picture = picture::picture(&found);
    let mut files: Vec<(&str, &str)> = Vec::new();
    files.extend(picture.as_ref().map(|p| (p.name.as_str(), p.svg.as_str())));
    files.push((RESULT, json.as_str()));
    out.set_partial(found.partial || found.tickers.iter().all(|t| t.failure.is_some()));
    let saved = out.write_all(&files);
    let text = match args.format {
        Format::Json => json.into_bytes(),
        format => make("what was found", &formats::FORMATS, format, &found)?.into_bytes(),
    };
    let printed = file_io::write_output(text, None);
    if saved.is_ok() {
        terminal::note(args.quiet, &format!("found: {}", out.path(RESULT).display()));
    }
    saved.and(printed)?;

    // A ticker that could not be measured is an error, although the others have results.
    let failed: Vec<&Ticker> = found.tickers.iter().filter(|t| t.failure.is_some()).collect();
    for ticker in &failed {
        let failure = ticker.failure.as_deref().unwrap_or_default();
        terminal::failure(&Error::measure(format!("{}: {failure}", ticker.subject)));
    }
    let control_error = text::control_error(&found);
    if let Some(error) = &control_error {
        terminal::failure(&Error::measure(error));
    }
    let is_complete = !found.partial && failed.is_empty() && control_error.is_none();
    Ok(if is_complete { ExitStatus::Done } else { ExitStatus::NotMeasured })
}
