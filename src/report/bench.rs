//! The file of a bench again, in any of its formats.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::bench::{self, Rendered};
use crate::exit::{Error, ExitStatus, Result, usage};
use crate::files;
use crate::render::formats::ReportFormat;
use crate::report::args::ReportArgs;

/// Where the schema of a file stands that a bench wrote: in its first lines.
const HEAD: u64 = 4_096;
/// More than any bench writes.
const LARGEST: u64 = 256 << 20;

/// Makes the format of the files if they are of benches; `None` if the first is not.
pub fn run(args: &ReportArgs) -> Result<Option<ExitStatus>> {
    if !args.files.first().is_some_and(|file| is_bench(file)) {
        return Ok(None);
    }
    if args.samples || args.subject.is_some() {
        return Err(Error::usage("--samples and --subject go with the report of a run"));
    }
    let mut texts = Vec::new();
    for file in &args.files {
        let rendered = read(file).and_then(|text| bench::render(&text, args.format, args.reference));
        match (rendered.map_err(|e| e.context(file.display()))?, args.out.as_deref(), args.files.len()) {
            (Rendered::Text(text), ..) => texts.push(text),
            (Rendered::Pictures(pictures), Some(directory), 1) => {
                super::write_pictures(&pictures, directory)?;
                return Ok(Some(ExitStatus::Done));
            }
            _ => return Err(super::pictures_go_to_a_directory()),
        }
    }
    // Each JSON ends its own line.
    let between = if args.format == ReportFormat::Json { "" } else { "\n" };
    files::deliver(texts.join(between), args.out.as_deref())?;
    Ok(Some(ExitStatus::Done))
}

/// Whether a regular file names the schema of a bench where it begins. What can be read only once is not looked into.
fn is_bench(file: &Path) -> bool {
    let head = || -> std::io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        File::open(file)?.take(HEAD).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    file.is_file() && head().is_ok_and(|bytes| bench::is_one(&bytes))
}

fn read(file: &Path) -> Result<String> {
    let cannot = |e| usage!("cannot be read: {e}");
    let mut text = String::new();
    if File::open(file).map_err(cannot)?.take(LARGEST + 1).read_to_string(&mut text).map_err(cannot)? as u64 > LARGEST {
        return Err(usage!("is larger than {} MiB, which no bench writes", LARGEST >> 20));
    }
    Ok(text)
}
