//! A checkup as a document.

use cli::terminal;
use files::file::File as _;
use render::document::{Document, Item as ListItem};
use render::formats::{Format, Offer, Rendering};

use crate::doctor::file::{Checkup, Item, OtherTool, Weight};
use crate::doctor::proof_text;
use crate::doctor::tools::is_imported;

/// The formats of a checkup and their formatters.
pub const FORMATS: [Offer<Checkup>; 4] = [
    (Format::Table, |checkup| Ok(Rendering::terminal(&document(checkup), terminal::columns()))),
    (Format::Json, |checkup| Ok(Rendering::Text(checkup.to_json()))),
    (Format::Markdown, |checkup| Ok(Rendering::markdown(&document(checkup)))),
    (Format::Html, |checkup| Ok(Rendering::page("osjitter doctor", &document(checkup)))),
];

/// The headings of the sections, the worst first.
const SECTIONS: [(Weight, &str); 4] = [
    (Weight::Costs, "Makes ticks late here"),
    (Weight::Depends, "May make ticks late, depending on the program and the load"),
    (Weight::Unknown, "Not readable here"),
    (Weight::Fine, "Fine"),
];

/// Describes a checkup: problems with their remedies, then the items that are fine.
pub fn document(checkup: &Checkup) -> Document {
    let mut document = Document::new();
    document.title(format!("This machine, checked for CPU {}", checkup.cpu));
    if let Some(proof) = &checkup.proof {
        document.append(proof_text::verdict(proof));
    }
    // A proof measures possible causes, so only the certain ones are listed next to it, and what
    // other tools measured.
    let is_listed =
        |item: &&Item| checkup.proof.is_none() || item.weight == Weight::Costs || is_imported(item);
    for (weight, heading) in SECTIONS {
        let items = checkup.items.iter().filter(|item| item.weight == weight).filter(is_listed);
        add_section(&mut document, heading, items.map(list_item).collect());
    }
    if checkup.proof.is_none() {
        let tools = checkup.tools.iter().map(list_tool).collect();
        add_section(&mut document, "Other tools show more", tools);
    }
    if let Some(proof) = &checkup.proof {
        document.append(proof_text::document(proof));
    }
    document
}

fn add_section(document: &mut Document, heading: &str, items: Vec<ListItem>) {
    if !items.is_empty() {
        document.section(heading);
        document.items(items);
    }
}

/// Describes an item with its effect and remedy, unless it is fine.
fn list_item(item: &Item) -> ListItem {
    let value = item.value.as_deref().or(item.not_readable.as_deref()).unwrap_or("unknown");
    let has_effect = matches!(item.weight, Weight::Costs | Weight::Depends);
    ListItem {
        text: format!("{}: {value}", item.name),
        detail: has_effect.then(|| item.why.clone()),
        command: item.change.clone().filter(|_| has_effect),
    }
}

/// Describes a tool with the obstacles to using it.
fn list_tool(tool: &OtherTool) -> ListItem {
    let state = match (&tool.installed, &tool.obstacles[..]) {
        (Some(path), []) => path.clone(),
        (_, obstacles) => obstacles.join("; "),
    };
    ListItem {
        text: format!("{}: {state}", tool.name),
        detail: Some(tool.adds.clone()),
        command: Some(tool.command.clone()),
    }
}
