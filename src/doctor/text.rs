//! A checkup for the terminal and for Markdown.

use cli::markdown;
use cli::wrap::{MAX_PARAGRAPH_WIDTH, wrap};
use files::file::File as _;

use crate::doctor::file::{Checkup, Item, OtherTool, Weight};
use crate::doctor::proof_text as proof;
use crate::render::formats::{Format, Offer, Rendering};
use crate::terminal;

/// The formats of a checkup, and what makes them.
pub const FORMATS: [Offer<Checkup>; 3] = [
    (Format::Table, |checkup| Ok(Rendering::Text(table(checkup, terminal::columns())))),
    (Format::Json, |checkup| Ok(Rendering::Text(checkup.to_json()))),
    (Format::Markdown, |checkup| Ok(Rendering::Text(markdown(checkup)))),
];

/// The sections, the worst first, with the items in them.
const SECTIONS: [(Weight, &str); 4] = [
    (Weight::Costs, "Makes ticks late here"),
    (Weight::Depends, "May make ticks late, depending on the program and the load"),
    (Weight::Unknown, "Not readable here"),
    (Weight::Fine, "Fine"),
];

fn of(checkup: &Checkup, weight: Weight) -> Vec<&Item> {
    checkup.items.iter().filter(|item| item.weight == weight).collect()
}

/// For the terminal: what is wrong with what to do about it, and what is fine in a line each.
pub fn table(checkup: &Checkup, columns: usize) -> String {
    let width = columns.min(MAX_PARAGRAPH_WIDTH);
    let mut text = format!("This machine, asked about CPU {}\n", checkup.cpu);
    // Beside a proof, what may be is of less interest than what is.
    let shown = if checkup.proof.is_some() { &SECTIONS[..1] } else { &SECTIONS };
    for &(weight, heading) in shown {
        let items = of(checkup, weight);
        if !items.is_empty() {
            text += &format!("\n{heading}\n");
            text.extend(items.into_iter().map(|item| paragraph(item, width)));
        }
    }
    if checkup.proof.is_none() && !checkup.tools.is_empty() {
        text += "\nOther tools see more\n";
        text.extend(checkup.tools.iter().map(|tool| other_tool(tool, width)));
    }
    text.extend(checkup.proof.as_ref().map(|proof| format!("\n{}", proof::table(proof, width))));
    text
}

/// A tool with what stands in its way.
fn other_tool(tool: &OtherTool, width: usize) -> String {
    let state = match (&tool.installed, &tool.obstacles[..]) {
        (Some(path), []) => path.clone(),
        (_, obstacles) => obstacles.join("; "),
    };
    let adds = indented(&tool.adds, "      ", width);
    format!(
        "{}{adds}    > {}\n",
        indented(&format!("{}: {state}", tool.name), "  ", width),
        tool.command
    )
}

/// An item in a line, and unless it is fine, what it does and what changes it.
fn paragraph(item: &Item, width: usize) -> String {
    let value = item.value.as_deref().or(item.not_readable.as_deref()).unwrap_or("unknown");
    let mut text = indented(&format!("{}: {value}", item.name), "  ", width);
    if item.weight == Weight::Costs || item.weight == Weight::Depends {
        text += &indented(&item.why, "      ", width);
        // As it is to be typed: a command that is broken over lines cannot be copied.
        text.extend(item.change.iter().map(|change| format!("    > {change}\n")));
    }
    text
}

/// Lines of at most so many columns, each behind `by`.
fn indented(text: &str, by: &str, width: usize) -> String {
    let lines = wrap(text, width.saturating_sub(by.len()));
    lines.lines().map(|line| format!("{by}{line}\n")).collect()
}

/// For an issue or a pull request.
pub fn markdown(checkup: &Checkup) -> String {
    let mut text = format!("### This machine, asked about CPU {}\n", checkup.cpu);
    for (weight, heading) in SECTIONS {
        let row = |item: &Item| {
            let value = item.value.as_deref().or(item.not_readable.as_deref()).unwrap_or("unknown");
            vec![
                item.name.clone(),
                value.to_owned(),
                item.why.clone(),
                item.change.clone().unwrap_or_default(),
            ]
        };
        let rows: Vec<Vec<String>> = of(checkup, weight).into_iter().map(row).collect();
        if !rows.is_empty() {
            let titles =
                ["", "Here", "What it does", "What changes it"].map(str::to_owned).to_vec();
            text += &format!(
                "\n**{heading}**\n\n{}",
                markdown::format_table(&[vec![titles], rows].concat(), 4)
            );
        }
    }
    if !checkup.tools.is_empty() {
        let row = |tool: &OtherTool| {
            vec![
                tool.name.clone(),
                tool.obstacles.join("; "),
                tool.adds.clone(),
                tool.command.clone(),
            ]
        };
        let titles = ["", "In its way", "What it adds", "How"].map(str::to_owned).to_vec();
        let rows = std::iter::once(titles).chain(checkup.tools.iter().map(row)).collect::<Vec<_>>();
        text += &format!("\n**Other tools see more**\n\n{}", markdown::format_table(&rows, 4));
    }
    text.extend(checkup.proof.as_ref().map(proof::markdown));
    text
}
