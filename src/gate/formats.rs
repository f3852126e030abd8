//! The formats of a verdict.

use cli::terminal;
use files::file::File as _;
use render::formats::{Format, Offer, Rendering};

use crate::gate::sarif::sarif;
use crate::gate::text::document::document;
use crate::gate::text::{RenderedVerdict, junit};

pub const FORMATS: [Offer<RenderedVerdict>; 6] = [
    (Format::Table, |rendered| Ok(Rendering::terminal(&document(rendered), terminal::columns()))),
    (Format::Json, |rendered| Ok(Rendering::Text(rendered.verdict.to_json()))),
    (Format::Markdown, |rendered| Ok(Rendering::markdown(&document(rendered)))),
    (Format::Html, |rendered| Ok(Rendering::page("osjitter gate", &document(rendered)))),
    (Format::Junit, |rendered| Ok(Rendering::Text(junit::render(rendered)))),
    (Format::Sarif, |rendered| Ok(Rendering::Text(sarif(&rendered.verdict, &rendered.sections)))),
];
