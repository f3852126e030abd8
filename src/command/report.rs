//! `osjitter report`: any picture or table again, from `report.json` alone.

use std::io::Write;
use std::path::Path;

use jitterstat::report::Report;

use crate::cli::{ReportArgs, ReportFormat};
use crate::exit::{ExitStatus, Failure};
use crate::export;

/// Reads the reports, writes the format to standard output or to `--out`.
pub fn run(args: &ReportArgs) -> Result<ExitStatus, Failure> {
    let reports = args.files.iter().map(|file| read(file)).collect::<Result<Vec<_>, _>>().map_err(Failure::Usage)?;
    let text = match args.format {
        ReportFormat::Table => export::table::of_several(&reports),
        ReportFormat::Json => match reports.as_slice() {
            [one] => one.to_json(),
            several => several.iter().map(Report::to_json).collect(),
        },
        ReportFormat::Svg => return pictures(&reports, args.out.as_deref()),
    };
    match &args.out {
        None => std::io::stdout().write_all(text.as_bytes()).map_err(Failure::writing)?,
        Some(file) => export::write_atomically(file, text.as_bytes()).map_err(|e| cannot_write(file, &e))?,
    }
    Ok(ExitStatus::Done)
}

/// Reads one report.
pub fn read(file: &Path) -> Result<Report, String> {
    let name = file.display();
    let text = std::fs::read_to_string(file).map_err(|e| format!("cannot read {name}: {e}"))?;
    Report::from_json(&text).map_err(|e| format!("{name}: {e}"))
}

fn pictures(reports: &[Report], out: Option<&Path>) -> Result<ExitStatus, Failure> {
    let (Some(directory), [report]) = (out, reports) else {
        return Err(Failure::Usage("pictures are several files: give one report, and a directory with --out".into()));
    };
    std::fs::create_dir_all(directory).map_err(|e| cannot_write(directory, &e))?;
    for picture in export::svg::pictures(report) {
        let file = directory.join(&picture.name);
        export::write_atomically(&file, picture.svg.as_bytes()).map_err(|e| cannot_write(&file, &e))?;
    }
    Ok(ExitStatus::Done)
}

fn cannot_write(place: &Path, error: &std::io::Error) -> Failure {
    Failure::Usage(format!("cannot write {}: {error}; choose another place with --out", place.display()))
}
