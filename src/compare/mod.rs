//! `osjitter compare`: shows by how much side B is later than side A.

pub mod args;
pub mod formats;
mod gated_program;
mod omissions;
mod overview;
mod quantile_chart;
mod run_side;
mod wording;

use std::path::{Path, PathBuf};

use cli::exit::{self, Error, ExitStatus, usage};
use cli::file_io;
use cli::file_io::Destination;
use cli::terminal;
use engine::machine::host;
use files::compare::{self, CompareError, Comparison, SCHEMA};
use files::environment::Difference;
use files::file::File as _;
use files::gate::verdict::Verdict;
use interop::detect::detect;
use interop::file_format::FileFormat;
use interop::fleet;
use jitterstat::gate::Sides;
use render::formats::{Format, make};
use render::report::settings;

use args::CompareArgs;
use formats::FORMATS;
use gated_program::GatedProgram;
use run_side::{RunSide, select_pairs};

/// Compares two sides and writes the comparison.
pub fn run(args: &CompareArgs) -> exit::Result<ExitStatus> {
    let (a, b) = (NamedSide::read(&args.a)?, NamedSide::read(&args.b)?);
    let destination = Destination::from_flags(args.out.as_deref(), args.force);
    if let Some(destination) = destination {
        fleet::check_output(&[a.file(), b.file()], destination)?;
    }
    let comparison = match (&a, &b) {
        (NamedSide::Run(a), NamedSide::Run(b)) => compare_runs(a, b, args.force)?,
        (NamedSide::Program(a), NamedSide::Program(b)) => compare_programs(a, b, args.force)?,
        (NamedSide::Program(program), NamedSide::Run(run))
        | (NamedSide::Run(run), NamedSide::Program(program)) => {
            let (verdict, report) = (program.file.display(), run.file.display());
            return Err(usage!(
                "{verdict} is a gate's verdict and {report} a report: give two of a kind"
            ));
        }
    };
    let made = make("a comparison", &FORMATS, args.format, &comparison)?;
    file_io::write_output(made.into_bytes(), destination)?;
    if let Some(warning) = wording::forced_warning(&comparison) {
        terminal::note(false, &warning);
    }
    if args.format == Format::Svg {
        let omissions =
            comparison.warnings.iter().filter(|warning| omissions::is_omission(warning));
        omissions.for_each(|warning| terminal::note(false, &warning.message));
    }
    Ok(ExitStatus::Done)
}

/// A side, as named on the command line.
enum NamedSide {
    Run(Box<RunSide>),
    Program(GatedProgram),
}

impl NamedSide {
    fn file(&self) -> &Path {
        match self {
            Self::Run(run) => &run.file,
            Self::Program(program) => &program.file,
        }
    }

    fn read(text: &str) -> exit::Result<Self> {
        let (path, id) = split_id(text, |path| path.exists());
        let file = file_io::resolve(&path);
        if interop::fleet::is_bins_path(&file) {
            let report = interop::read(&file)?;
            return Ok(Self::Run(Box::new(RunSide { file, id, report })));
        }
        // Read the file only once: it can be a pipe.
        let text = file_io::read_text(&file)?;
        let is_verdict = |format| match format {
            FileFormat::Osjitter { schema } => schema == Verdict::SCHEMA,
            _ => false,
        };
        if detect(&text).is_some_and(|detected| is_verdict(detected.format)) {
            return GatedProgram::parse(file, &text, id.as_deref()).map(Self::Program);
        }
        let report = interop::parse(&text)
            .map_err(|error| exit::Error::from(error).context(file.display()))?;
        Ok(Self::Run(Box::new(RunSide { file, id, report })))
    }
}

/// Splits `path#id`. Both can contain a `#`, so the longest prefix that exists is the path.
fn split_id(text: &str, exists: impl Fn(&Path) -> bool) -> (PathBuf, Option<String>) {
    if exists(Path::new(text)) {
        return (text.into(), None);
    }
    let mut cuts = text.match_indices('#').map(|(at, _)| at).rev();
    let at = cuts.find(|&at| exists(Path::new(&text[..at]))).or_else(|| text.find('#'));
    match at {
        Some(at) => (text[..at].into(), Some(text[at + 1..].to_owned())),
        None => (text.into(), None),
    }
}

/// Compares the selected subjects of two runs.
///
/// # Errors
/// Returns an error if their conditions differ, unless `force` is set.
fn compare_runs(a: &RunSide, b: &RunSide, force: bool) -> exit::Result<Comparison> {
    let pairs = select_pairs(a, b)?;
    let mut differences: Vec<Difference> = Vec::new();
    for difference in pairs.iter().flat_map(|pair| compare::differences(pair.a, pair.b)) {
        if !differences.contains(&difference) {
            differences.push(difference);
        }
    }
    // `--force` cannot help sides that have nothing to compare, so these are refused first.
    let mut subjects = Vec::new();
    for pair in &pairs {
        let compared = compare::compare(pair.a, pair.b);
        subjects.push(compared.map_err(|error| match error {
            CompareError::NoRounds(_) => {
                let (a, b) = (a.file.display(), b.file.display());
                usage!("cannot compare A and B: {error}; osjitter report {a} {b} shows both")
            }
            error => Error::usage(error.to_string()),
        })?);
    }
    check_differences(&differences, force)?;

    let mut warnings = compare::warnings(&a.report, &b.report, &subjects);
    warnings.extend(omissions::warnings(Sides { base: a, candidate: b }, &pairs));
    for pair in &pairs {
        let (a, b) = (pair.a.subject, pair.b.subject);
        if let (Some(base), Some(candidate)) = (&a.settings, &b.settings) {
            let differences = files::settings::compare(&Sides { base, candidate }, &a.id);
            warnings.extend(settings::warnings(&b.id, &differences));
        }
    }
    Ok(Comparison {
        schema: SCHEMA.to_owned(),
        tool: host::tool(),
        a: a.origin(),
        b: b.origin(),
        warnings,
        forced: differences,
        subjects,
        metrics: Vec::new(),
    })
}

/// Compares two programs of gates by their whole runs.
///
/// # Errors
/// Returns an error if their conditions differ, unless `force` is set, or if both sides are the
/// same program.
fn compare_programs(a: &GatedProgram, b: &GatedProgram, force: bool) -> exit::Result<Comparison> {
    let (program_a, program_b) = (a.chosen(), b.chosen());
    let differences = compare::program_differences(program_a, program_b);
    check_differences(&differences, force)?;
    let metrics = compare::compare_programs(program_a, program_b).map_err(|error| match error {
        CompareError::WithItself(name) => {
            let (file, other) = (a.file.display(), a.other_id());
            usage!(
                "both sides are {name} of one gate; the other program of {file} is {file}#{other}"
            )
        }
        error => Error::usage(error.to_string()),
    })?;
    Ok(Comparison {
        schema: SCHEMA.to_owned(),
        tool: host::tool(),
        a: a.origin(),
        b: b.origin(),
        forced: differences,
        subjects: Vec::new(),
        metrics,
        warnings: compare::program_warnings(program_a, program_b),
    })
}

/// Checks that the conditions of the sides do not differ, unless `force` is set.
fn check_differences(differences: &[Difference], force: bool) -> exit::Result<()> {
    if force || differences.is_empty() {
        return Ok(());
    }
    Err(usage!(
        "cannot compare A and B: {}; --force compares them anyway and records a warning",
        wording::format_differences(differences)
    ))
}

#[cfg(test)]
mod tests {
    use super::split_id;
    use std::path::Path;

    #[test]
    fn longest_existing_prefix_is_the_path() {
        let exists = |path: &Path| {
            [Path::new("a.json"), Path::new("run#1"), Path::new("run")].contains(&path)
        };
        let id = |text: &str| Some(text.to_owned());
        for (text, expected) in [
            ("a.json", ("a.json", None)),
            ("a.json#spin@1ms", ("a.json", id("spin@1ms"))),
            ("a.json#spin@1ms#2", ("a.json", id("spin@1ms#2"))),
            ("run#1", ("run#1", None)),
            ("run#1#spin", ("run#1", id("spin"))),
            ("none#spin#2", ("none", id("spin#2"))),
            ("none", ("none", None)),
        ] {
            assert_eq!(split_id(text, exists), (expected.0.into(), expected.1), "{text}");
        }
    }
}
