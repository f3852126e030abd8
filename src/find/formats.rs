//! The formats of the result of a search.

use cli::exit::{Error, Result};
use cli::terminal;
use files::file::File as _;
use files::find::Find;
use render::formats::{Format, Offer, Rendering};

use crate::find::picture;
use crate::find::text::document;

pub const FORMATS: [Offer<Find>; 5] = [
    (Format::Table, |find| Ok(Rendering::terminal(&document(find), terminal::columns()))),
    (Format::Json, |find| Ok(Rendering::Text(find.to_json()))),
    (Format::Markdown, |find| Ok(Rendering::markdown(&document(find)))),
    (Format::Html, |find| Ok(Rendering::page("osjitter find", &document(find)))),
    (Format::Svg, render_picture),
];

fn render_picture(find: &Find) -> Result<Rendering> {
    match picture::picture(find) {
        Some(picture) => Ok(Rendering::Text(picture.svg)),
        None => Err(Error::usage("nothing to draw: the file contains no measurements")),
    }
}
