//! `osjitter list`: lists the subjects.

use clap::Args;
use cli::exit::{self, ExitStatus};
use cli::file_io;
use cli::terminal;
use engine::subject::{self, SubjectInfo};
use files::file::to_indented_json;
use files::subjects::DefaultSelection;
use serde::Serialize;

use render::document::{Document, Table, terminal as terminal_renderer};
use render::formats::{Format, parser};

#[derive(Debug, Args)]
pub struct ListArgs {
    /// Output format
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
        let why_not = subject::check_available(subject).err().map(|reason| reason.to_string());
        Self {
            name: subject.name,
            about: subject.about,
            default: subject.is_default_of(DefaultSelection::Run),
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
        _ => terminal_renderer::render(&document(&subjects), terminal::columns()),
    };
    file_io::write_output(text, None)?;
    Ok(ExitStatus::Done)
}

fn document(subjects: &[ListedSubject]) -> Document {
    let mut table = Table::new(["", "subject", "description"], 2).with_words_last();
    for subject in subjects {
        let mark = if subject.default { "*" } else { "" };
        table.row([mark, subject.name, subject.about]);
        if let Some(reason) = &subject.why_not {
            table.row(["", "", &format!("not available here: {reason}")]);
        }
    }
    let mut document = Document::new();
    document.title("Subjects (* measured by default)");
    document.table(table);
    document
}
