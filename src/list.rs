//! `osjitter list`.

use std::io::Write;

use clap::Args;
use cli::exit::{self, Error, ExitStatus};
use cli::wrap::wrap;
use engine::subject;
use serde::Serialize;

use crate::render::formats::{Format, parser};
use crate::terminal;

/// Columns of what a subject is, in a terminal that has no room for it beside the name.
const MIN_WORDS: usize = 20;

#[derive(Debug, Args)]
pub struct ListArgs {
    /// What to print to stdout
    #[arg(long, value_parser = parser([Format::Table, Format::Json]), default_value = "table")]
    pub format: Format,
}

#[derive(Serialize)]
struct Line {
    name: &'static str,
    about: &'static str,
    default: bool,
    available: bool,
    why_not: Option<String>,
}

pub fn run(args: &ListArgs) -> exit::Result<ExitStatus> {
    let lines: Vec<Line> = subject::ALL
        .iter()
        .map(|e| {
            let why_not = subject::check_available(e.name).err();
            Line {
                name: e.name,
                about: e.about,
                default: e.default,
                available: why_not.is_none(),
                why_not,
            }
        })
        .collect();
    let text = match args.format {
        Format::Json => serde_json::to_string_pretty(&lines).expect("plain data") + "\n",
        _ => {
            let width = lines.iter().map(|l| l.name.len()).max().unwrap_or(0);
            let columns = terminal::columns();
            let mut text = String::from("* measured by default\n");
            for l in &lines {
                let mark = if l.default { '*' } else { ' ' };
                let why_not =
                    l.why_not.iter().map(|reason| format!("not available here: {reason}"));
                let mut name = l.name;
                for says in std::iter::once(l.about.to_owned()).chain(why_not) {
                    for line in
                        wrap(&says, columns.saturating_sub(width + 4).max(MIN_WORDS)).lines()
                    {
                        let mark = if name.is_empty() { ' ' } else { mark };
                        text += &format!("{mark} {name:width$}  {line}\n");
                        name = "";
                    }
                }
            }
            text
        }
    };
    std::io::stdout().write_all(text.as_bytes()).map_err(Error::from_stdout)?;
    Ok(ExitStatus::Done)
}
