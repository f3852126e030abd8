//! Formats a checkup for the terminal and as Markdown.

use cli::markdown;
use cli::wrap::{MAX_PARAGRAPH_WIDTH, wrap};
use files::file::File as _;

use crate::doctor::file::{Checkup, Item, OtherTool, Weight};
use crate::doctor::proof_text;
use crate::terminal;
use render::formats::{Format, Offer, Rendering};

/// The formats of a checkup and their formatters.
pub const FORMATS: [Offer<Checkup>; 3] = [
    (Format::Table, |checkup| Ok(Rendering::Text(format_table(checkup, terminal::columns())))),
    (Format::Json, |checkup| Ok(Rendering::Text(checkup.to_json()))),
    (Format::Markdown, |checkup| Ok(Rendering::Text(format_markdown(checkup)))),
];

/// The headings of the sections, the worst first.
const SECTIONS: [(Weight, &str); 4] = [
    (Weight::Costs, "Makes ticks late here"),
    (Weight::Depends, "May make ticks late, depending on the program and the load"),
    (Weight::Unknown, "Not readable here"),
    (Weight::Fine, "Fine"),
];

fn items_with_weight(checkup: &Checkup, weight: Weight) -> Vec<&Item> {
    checkup.items.iter().filter(|item| item.weight == weight).collect()
}

/// Formats a checkup for the terminal: problems with their remedies, then one line per item that is
/// fine.
pub fn format_table(checkup: &Checkup, columns: usize) -> String {
    let width = columns.min(MAX_PARAGRAPH_WIDTH);
    let mut text = format!("This machine, checked for CPU {}\n", checkup.cpu);
    // A proof measures possible causes, so only the certain ones are listed next to it.
    let sections = if checkup.proof.is_some() { &SECTIONS[..1] } else { &SECTIONS };
    for &(weight, heading) in sections {
        let items = items_with_weight(checkup, weight);
        if !items.is_empty() {
            text += &format!("\n{heading}\n");
            text.extend(items.into_iter().map(|item| format_item(item, width)));
        }
    }
    if checkup.proof.is_none() && !checkup.tools.is_empty() {
        text += "\nOther tools see more\n";
        text.extend(checkup.tools.iter().map(|tool| format_tool(tool, width)));
    }
    if let Some(proof) = &checkup.proof {
        text += &format!("\n{}", proof_text::format_table(proof, width));
    }
    text
}

/// Formats a tool with the obstacles to using it.
fn format_tool(tool: &OtherTool, width: usize) -> String {
    let state = match (&tool.installed, &tool.obstacles[..]) {
        (Some(path), []) => path.clone(),
        (_, obstacles) => obstacles.join("; "),
    };
    let adds = indent(&tool.adds, "      ", width);
    format!(
        "{}{adds}    > {}\n",
        indent(&format!("{}: {state}", tool.name), "  ", width),
        tool.command
    )
}

/// Returns the value of an item, or the reason for which it is not readable.
fn displayed_value(item: &Item) -> &str {
    item.value.as_deref().or(item.not_readable.as_deref()).unwrap_or("unknown")
}

/// Formats an item as one line, followed by its effect and remedy unless it is fine.
fn format_item(item: &Item, width: usize) -> String {
    let mut text = indent(&format!("{}: {}", item.name, displayed_value(item)), "  ", width);
    if item.weight == Weight::Costs || item.weight == Weight::Depends {
        text += &indent(&item.why, "      ", width);
        // A command is not wrapped, so that it can be copied.
        text.extend(item.change.iter().map(|change| format!("    > {change}\n")));
    }
    text
}

/// Wraps a text to `width` columns and puts `prefix` in front of each line.
fn indent(text: &str, prefix: &str, width: usize) -> String {
    let lines = wrap(text, width.saturating_sub(prefix.len()));
    lines.lines().map(|line| format!("{prefix}{line}\n")).collect()
}

/// Formats a checkup as Markdown, for an issue or a pull request.
pub fn format_markdown(checkup: &Checkup) -> String {
    let mut text = format!("### This machine, checked for CPU {}\n", checkup.cpu);
    for (weight, heading) in SECTIONS {
        let items = items_with_weight(checkup, weight);
        if !items.is_empty() {
            let titles = ["", "Value", "Effect", "Remedy"].map(str::to_owned).to_vec();
            let rows: Vec<_> =
                std::iter::once(titles).chain(items.into_iter().map(item_row)).collect();
            text += &format!("\n**{heading}**\n\n{}", markdown::format_table(&rows, 4));
        }
    }
    if !checkup.tools.is_empty() {
        let titles = ["", "Obstacles", "Adds", "Command"].map(str::to_owned).to_vec();
        let rows: Vec<_> =
            std::iter::once(titles).chain(checkup.tools.iter().map(tool_row)).collect();
        text += &format!("\n**Other tools see more**\n\n{}", markdown::format_table(&rows, 4));
    }
    text.extend(checkup.proof.as_ref().map(proof_text::format_markdown));
    text
}

fn item_row(item: &Item) -> Vec<String> {
    let change = item.change.clone().unwrap_or_default();
    vec![item.name.clone(), displayed_value(item).to_owned(), item.why.clone(), change]
}

fn tool_row(tool: &OtherTool) -> Vec<String> {
    let obstacles = tool.obstacles.join("; ");
    vec![tool.name.clone(), obstacles, tool.adds.clone(), tool.command.clone()]
}
