//! Code shared by the commands of the benches: arguments, and writing the results.

use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use clap::builder::TypedValueParser;
use clap::{Args, ValueEnum};
use cli::completion::with_examples;
use cli::exit::{self, Error, ExitStatus};
use cli::file_io;
use cli::file_io::{Destination, OutputDirectory};
use cli::terminal;
use cli::units::{self, to_ns};
use engine::machine::host;
use engine::scenario::{ScenarioError, select_by_pattern};
use files::report::{Host, Warning};

use crate::bench::file::{BenchFile, FORMATS};
use render::formats::{Format, Rendering, parser};

#[derive(Debug, Args)]
pub struct OutputArgs {
    /// Directory for the results [default: none]
    #[arg(long, short, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Replace an existing result
    #[arg(long)]
    pub force: bool,
    /// Output format
    #[arg(long, value_name = "FORMAT", value_parser = parser(FORMATS), default_value = "table")]
    pub format: Format,
    /// Print only errors to stderr
    #[arg(long, short)]
    pub quiet: bool,
}

/// The start time and the host of a bench, recorded before it measures.
pub struct BenchStart {
    pub started_utc: String,
    pub host: Host,
    instant: Instant,
}

impl BenchStart {
    #[allow(clippy::disallowed_methods, reason = "the length of the bench")]
    fn now() -> Self {
        let started_utc = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
        Self { started_utc, host: host::capture(), instant: Instant::now() }
    }

    pub fn duration_ns(&self) -> u64 {
        to_ns(self.instant.elapsed())
    }

    /// Returns warnings that apply to every measured cost.
    pub fn warnings(&self) -> Vec<Warning> {
        let Some(quota) = self.host.quota_cpus else { return Vec::new() };
        let message =
            format!("the control group allows {quota:.2} CPUs; throttling looks like cost");
        vec![Warning::new("cpu-quota", message, "measure without a CPU limit")]
    }
}

impl OutputArgs {
    /// Checks the output directory, measures, saves the report and prints it.
    ///
    /// `pictures` is the number of pictures that the report will have.
    pub fn run<F: BenchFile>(
        &self,
        pictures: usize,
        reference: bool,
        measure: impl FnOnce(BenchStart) -> exit::Result<F>,
    ) -> exit::Result<ExitStatus> {
        if self.format == Format::Svg && pictures > 1 && self.out.is_none() {
            return Err(Error::usage(
                "cannot print several pictures: give a directory with --out, or select one workload",
            ));
        }
        let destination = Destination::from_flags(self.out.as_deref(), self.force);
        let open = |destination| OutputDirectory::open(Some(destination), "", F::RESULTS);
        let directory = destination.map(open).transpose()?;
        let report = measure(BenchStart::now())?;
        directory.iter().for_each(|directory| directory.set_partial(report.is_partial()));
        let saved = directory.as_ref().map_or(Ok(()), |directory| self.save(directory, &report));
        // The report is printed even if it could not be saved.
        match report.render(self.format, reference)? {
            Rendering::Text(text) => file_io::write_output(text, None)?,
            made @ (Rendering::Bytes(_) | Rendering::Bins(_)) => {
                file_io::write_output(made.into_bytes(), None)?
            }
            // Several pictures are in the directory only.
            Rendering::Pictures(pictures) if pictures.len() > 1 => {}
            Rendering::Pictures(pictures) => {
                pictures.iter().try_for_each(|picture| file_io::write_output(&picture.svg, None))?
            }
        }
        saved?;
        Ok(if report.is_partial() { ExitStatus::NotMeasured } else { ExitStatus::Done })
    }

    fn save<F: BenchFile>(&self, directory: &OutputDirectory, report: &F) -> exit::Result<()> {
        let name = F::BENCH.unwrap_or_default();
        let file = format!("{name}.json");
        let mut files: Vec<(String, String)> =
            report.pictures().into_iter().map(|picture| (picture.name, picture.svg)).collect();
        if F::HAS_MARKDOWN_FILE {
            files.push((format!("{name}.md"), report.markdown()));
        }
        // The report is written last: if it is new, so are the other files.
        files.push((file.clone(), report.to_json()));
        let files: Vec<(&str, &str)> =
            files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
        directory.write_all(&files)?;
        terminal::note(self.quiet, &format!("report: {}", directory.path(&file).display()));
        Ok(())
    }
}

/// Returns the name of a value on the command line and in reports.
pub fn name<T: ValueEnum>(value: &T) -> String {
    value.to_possible_value().expect("no value is hidden").get_name().to_owned()
}

/// Returns the description of a value in one line.
pub fn about<T: ValueEnum>(value: &T) -> String {
    value
        .to_possible_value()
        .and_then(|v| v.get_help().map(ToString::to_string))
        .unwrap_or_default()
}

/// The values that one argument selects: it may be a pattern.
pub type Selection<T> = Vec<T>;

/// Returns a parser for a name or a pattern; `noun` names the values in errors.
pub fn selection_parser<T: ValueEnum + Send + Sync + 'static>(
    noun: &'static str,
) -> impl TypedValueParser<Value = Selection<T>> {
    let names = || T::value_variants().iter().filter_map(T::to_possible_value).collect();
    with_examples(move |text: &str| select::<T>(noun, text), names)
}

fn select<T: ValueEnum>(noun: &str, text: &str) -> Result<Selection<T>, ScenarioError> {
    if let Ok(value) = T::from_str(text, false) {
        return Ok(vec![value]);
    }
    let names: Vec<String> = T::value_variants().iter().map(name).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let selected = select_by_pattern(noun, &[text.to_owned()], &names)?;
    let is_selected = |value: &&T| selected.contains(&name(*value).as_str());
    Ok(T::value_variants().iter().filter(is_selected).cloned().collect())
}

/// Returns the values of all selections in the order of tables, or every value if there is no
/// selection.
pub fn select_values<T: ValueEnum + PartialEq>(selections: &[Selection<T>]) -> Vec<T> {
    let is_selected = |value: &&T| {
        selections.is_empty() || selections.iter().any(|selection| selection.contains(value))
    };
    T::value_variants().iter().filter(is_selected).cloned().collect()
}

/// Parses a number of rounds.
pub fn parse_rounds(text: &str) -> Result<u64, units::UnitError> {
    units::parse_number_within(text, 1..=10_000)
}

/// Parses the time that a case runs in a round.
pub fn parse_round_time(text: &str) -> Result<Duration, units::UnitError> {
    units::parse_duration_within(
        "a round time",
        text,
        Duration::from_millis(1)..=Duration::from_secs(10),
    )
}
