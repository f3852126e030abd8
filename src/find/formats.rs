//! The formats of the result of a search.

use cli::exit::Error;
use files::file::File as _;
use files::find::Find;

use crate::find::{picture, text};
use crate::terminal;
use render::formats::{Format, Offer, Rendering};

pub const FORMATS: [Offer<Find>; 4] = [
    (Format::Table, |find| Ok(Rendering::Text(text::table(find, terminal::columns())))),
    (Format::Json, |find| Ok(Rendering::Text(find.to_json()))),
    (Format::Markdown, |find| Ok(Rendering::Text(text::markdown(find)))),
    (Format::Svg, |find| {
        let picture = picture::picture(find)
            .ok_or_else(|| Error::usage("nothing to draw: the file contains no measurements"))?;
        Ok(Rendering::Pictures(vec![picture]))
    }),
];
