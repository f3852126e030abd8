//! `osjitter list`.

use std::io::Write;

use clap::Args;
use serde::Serialize;

use crate::exit::{self, Error, ExitStatus};
use crate::render::formats::{Format, parser};
use crate::subject;

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
            let why_not = subject::availability(e.name).err();
            Line { name: e.name, about: e.about, default: e.default, available: why_not.is_none(), why_not }
        })
        .collect();
    let text = match args.format {
        Format::Json => serde_json::to_string_pretty(&lines).expect("plain data") + "\n",
        _ => {
            let width = lines.iter().map(|l| l.name.len()).max().unwrap_or(0);
            let mut text = String::from("* measured by default\n");
            for l in &lines {
                let mark = if l.default { '*' } else { ' ' };
                text += &format!("{mark} {:width$}  {}\n", l.name, l.about);
                if let Some(reason) = &l.why_not {
                    text += &format!("  {:width$}  not available here: {reason}\n", "");
                }
            }
            text
        }
    };
    std::io::stdout().write_all(text.as_bytes()).map_err(Error::writing)?;
    Ok(ExitStatus::Done)
}
