//! What the commands of the benches have in common: arguments, and the way to files and standard
//! output.

use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use clap::{Args, ValueEnum};
use cli::exit::{self, Error, ExitStatus};
use cli::units;
use engine::machine::host;
use engine::scenario::{select_by_pattern, validate_count};
use files::report::{Host, Warning};

use crate::bench::file::{BenchFile, FORMATS};
use crate::file_io::{self, OutputDirectory};
use crate::render::formats::{Format, Rendering, parser};
use crate::terminal;

#[derive(Debug, Args)]
pub struct OutputArgs {
    /// Write the report and its pictures into this directory
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// What to write to standard output
    #[arg(long, value_name = "FORMAT", value_parser = parser(FORMATS), default_value = "table")]
    pub format: Format,
    /// Nothing on standard error but errors
    #[arg(long, short)]
    pub quiet: bool,
}

/// What is known about a bench before it measures.
pub struct Started {
    pub started_utc: String,
    pub host: Host,
    at: Instant,
}

impl Started {
    #[allow(clippy::disallowed_methods, reason = "the length of the bench")]
    fn now() -> Self {
        let started_utc = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
        Self { started_utc, host: host::capture(), at: Instant::now() }
    }

    pub fn duration_ns(&self) -> u64 {
        self.at.elapsed().as_nanos() as u64
    }

    /// What makes any cost doubtful.
    pub fn warnings(&self) -> Vec<Warning> {
        let quota = self.host.quota_cpus.map(|quota| {
            let message =
                format!("the control group allows {quota:.2} CPUs; throttling looks like cost");
            warning("cpu-quota", message, "measure without a CPU limit")
        });
        quota.into_iter().collect()
    }
}

pub fn warning(code: &str, message: impl Into<String>, hint: &str) -> Warning {
    Warning { code: code.to_owned(), message: message.into(), hint: hint.to_owned() }
}

impl OutputArgs {
    /// Measures, once it is known where to write; writes the report and its `pictures`, prints the
    /// format asked for.
    pub fn run<F: BenchFile>(
        &self,
        pictures: usize,
        reference: bool,
        measure: impl FnOnce(Started) -> exit::Result<F>,
    ) -> exit::Result<ExitStatus> {
        if self.format == Format::Svg && pictures > 1 && self.out.is_none() {
            return Err(Error::usage(
                "the pictures are several files: give a directory with --out, or ask for one workload",
            ));
        }
        let directory =
            self.out.as_deref().map(|out| OutputDirectory::open(Some(out), "")).transpose()?;
        let report = measure(Started::now())?;
        let saved = directory.as_ref().map_or(Ok(()), |directory| {
            let name = F::BENCH.unwrap_or_default();
            let (file, json) = (format!("{name}.json"), report.to_json());
            let markdown = F::MARKDOWN_BESIDE.then(|| (format!("{name}.md"), report.markdown()));
            let pictures = report.pictures().into_iter().map(|picture| (picture.name, picture.svg));
            // All at once, the report last: where it is new, so is the rest.
            let all: Vec<(String, String)> =
                pictures.chain(markdown).chain([(file.clone(), json)]).collect();
            directory.write_all(
                &all.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect::<Vec<_>>(),
            )?;
            terminal::note(self.quiet, &format!("report: {}", directory.path(&file).display()));
            Ok(())
        });
        match report.render(self.format, reference)? {
            Rendering::Text(text) => file_io::write_output(text, None)?,
            made @ (Rendering::Bytes(_) | Rendering::Bins(_)) => {
                file_io::write_output(made.into_bytes(), None)?
            }
            // Several are in the directory.
            Rendering::Pictures(several) if several.len() > 1 => {}
            Rendering::Pictures(one) => {
                one.iter().try_for_each(|picture| file_io::write_output(&picture.svg, None))?
            }
        }
        saved?;
        Ok(if report.is_partial() { ExitStatus::NotMeasured } else { ExitStatus::Done })
    }
}

/// The name of a value on the command line and in reports.
pub fn name<T: ValueEnum>(value: &T) -> String {
    value.to_possible_value().expect("none is hidden").get_name().to_owned()
}

/// What it is, in a line.
pub fn about<T: ValueEnum>(value: &T) -> String {
    value
        .to_possible_value()
        .and_then(|v| v.get_help().map(ToString::to_string))
        .unwrap_or_default()
}

/// The values that one argument stands for, which may be a pattern.
pub type Matching<T> = Vec<T>;

/// Reads a name or a pattern.
pub fn matching<T: ValueEnum>(
    what: &'static str,
) -> impl Fn(&str) -> Result<Matching<T>, String> + Clone {
    move |text| {
        if let Ok(value) = T::from_str(text, false) {
            return Ok(vec![value]);
        }
        let names: Vec<String> = T::value_variants().iter().map(name).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let chosen = select_by_pattern(what, &[text.to_owned()], &names)?;
        Ok(T::value_variants()
            .iter()
            .filter(|v| chosen.contains(&name(*v).as_str()))
            .cloned()
            .collect())
    }
}

/// What was asked for, in the order of tables; everything where nothing was.
pub fn asked<T: ValueEnum + PartialEq>(asked: &[Matching<T>]) -> Vec<T> {
    let is_asked = |v: &&T| asked.is_empty() || asked.iter().any(|several| several.contains(v));
    T::value_variants().iter().filter(is_asked).cloned().collect()
}

/// Reads a number of rounds.
pub fn rounds(text: &str) -> Result<u64, String> {
    most("rounds", 10_000)(text)
}

/// Reads a number from 1 to `most`.
pub fn most(what: &'static str, most: u64) -> impl Fn(&str) -> Result<u64, String> + Clone {
    move |text| {
        validate_count(
            what,
            text.parse().map_err(|_| format!("{text:?} is not a whole number"))?,
            most,
        )
    }
}

/// Reads how long a case runs in a round.
pub fn round_time(text: &str) -> Result<Duration, String> {
    units::parse_duration_within(
        "a round time",
        text,
        Duration::from_millis(1)..=Duration::from_secs(10),
    )
}
