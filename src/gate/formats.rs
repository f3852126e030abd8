//! The formats of a verdict.

use files::file::File as _;

use crate::gate::sarif::sarif;
use crate::gate::text::{RenderedVerdict, junit, markdown, table};
use crate::terminal;
use render::formats::{Format, Offer, Rendering};

pub const FORMATS: [Offer<RenderedVerdict>; 5] = [
    (Format::Table, |rendered| Ok(Rendering::Text(table::render(rendered, terminal::columns())))),
    (Format::Json, |rendered| Ok(Rendering::Text(rendered.verdict.to_json()))),
    (Format::Markdown, |rendered| Ok(Rendering::Text(markdown::render(rendered)))),
    (Format::Junit, |rendered| Ok(Rendering::Text(junit::render(rendered)))),
    (Format::Sarif, |rendered| Ok(Rendering::Text(sarif(&rendered.verdict, &rendered.sections)))),
];
