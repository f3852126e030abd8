//! The formats of a comparison.

use cli::exit::Error;
use files::compare::Comparison;
use files::file::File as _;

use crate::compare::{markdown, quantile_chart, table};
use crate::terminal;
use render::formats::{Format, Offer, Rendering};

pub const FORMATS: [Offer<Comparison>; 4] = [
    (Format::Table, |comparison| {
        Ok(Rendering::Text(table::render(comparison, terminal::columns())))
    }),
    (Format::Json, |comparison| Ok(Rendering::Text(comparison.to_json()))),
    (Format::Markdown, |comparison| Ok(Rendering::Text(markdown::render(comparison)))),
    (Format::Svg, |comparison| {
        let picture = quantile_chart::draw_comparison(comparison).map_err(Error::usage)?;
        Ok(Rendering::Pictures(vec![picture]))
    }),
];
