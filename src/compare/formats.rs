//! The formats of a comparison.

use cli::exit::{Error, Result};
use cli::terminal;
use files::compare::Comparison;
use files::file::File as _;

use render::formats::{Format, Offer, Rendering};

use crate::compare::quantile_chart;
use crate::compare::text::{brief_document, document};

pub const FORMATS: [Offer<Comparison>; 5] = [
    (Format::Table, |comparison| {
        Ok(Rendering::terminal(&brief_document(comparison), terminal::columns()))
    }),
    (Format::Json, |comparison| Ok(Rendering::Text(comparison.to_json()))),
    (Format::Markdown, |comparison| Ok(Rendering::markdown(&document(comparison)))),
    (Format::Html, |comparison| Ok(Rendering::page("osjitter compare", &document(comparison)))),
    (Format::Svg, render_picture),
];

fn render_picture(comparison: &Comparison) -> Result<Rendering> {
    let picture = quantile_chart::draw_comparison(comparison).map_err(Error::usage)?;
    Ok(Rendering::Pictures(vec![picture]))
}
