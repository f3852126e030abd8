//! The formats of a verdict.

use files::file::File as _;

use crate::gate::sarif::sarif;
use crate::gate::text::{self, Worded};
use crate::render::formats::{Format, Offer, Rendering};
use crate::terminal;

pub const FORMATS: [Offer<Worded>; 5] = [
    (Format::Table, |(verdict, sections)| {
        Ok(Rendering::Text(text::table(verdict, sections, terminal::columns())))
    }),
    (Format::Json, |(verdict, _)| Ok(Rendering::Text(verdict.to_json()))),
    (Format::Markdown, |(verdict, sections)| {
        Ok(Rendering::Text(text::markdown(verdict, sections)))
    }),
    (Format::Junit, |(verdict, sections)| Ok(Rendering::Text(text::junit(verdict, sections)))),
    (Format::Sarif, |(verdict, sections)| Ok(Rendering::Text(sarif(verdict, sections)))),
];
