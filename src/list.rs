//! `osjitter list`: lists the subjects.

use std::io::Write;

use clap::Args;
use cli::exit::{self, Error, ExitStatus};
use cli::wrap::wrap;
use engine::subject::{self, SubjectInfo};
use files::file::to_indented_json;
use serde::Serialize;

use crate::terminal;
use render::formats::{Format, parser};

/// The minimum width of a description, even if the terminal is too narrow for it.
const MIN_DESCRIPTION_COLUMNS: usize = 20;

#[derive(Debug, Args)]
pub struct ListArgs {
    /// Format to print to stdout
    #[arg(long, value_parser = parser([Format::Table, Format::Json]), default_value = "table")]
    pub format: Format,
}

/// A subject of the list.
#[derive(Serialize)]
struct ListedSubject {
    name: &'static str,
    about: &'static str,
    default: bool,
    available: bool,
    why_not: Option<String>,
}

impl ListedSubject {
    fn new(subject: &SubjectInfo) -> Self {
        let why_not = subject::check_available(subject.name).err();
        Self {
            name: subject.name,
            about: subject.about,
            default: subject.default,
            available: why_not.is_none(),
            why_not,
        }
    }
}

/// Lists the subjects.
pub fn run(args: &ListArgs) -> exit::Result<ExitStatus> {
    let subjects: Vec<ListedSubject> = subject::ALL.iter().map(ListedSubject::new).collect();
    let text = match args.format {
        Format::Json => to_indented_json(&subjects),
        _ => table(&subjects),
    };
    std::io::stdout().write_all(text.as_bytes()).map_err(Error::from_stdout)?;
    Ok(ExitStatus::Done)
}

fn table(subjects: &[ListedSubject]) -> String {
    let name_width = subjects.iter().map(|s| s.name.len()).max().unwrap_or(0);
    let columns = terminal::columns().saturating_sub(name_width + 4).max(MIN_DESCRIPTION_COLUMNS);
    let mut text = String::from("* measured by default\n");
    for subject in subjects {
        let mut description = wrap(subject.about, columns);
        if let Some(reason) = &subject.why_not {
            description += &wrap(&format!("not available here: {reason}"), columns);
        }
        let mark = if subject.default { '*' } else { ' ' };
        let (mut mark, mut name) = (mark, subject.name);
        for line in description.lines() {
            text += &format!("{mark} {name:name_width$}  {line}\n");
            (mark, name) = (' ', "");
        }
    }
    text
}
