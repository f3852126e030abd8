//! Comma-separated values (RFC 4180): a line a subject, or a line a tick.

use std::borrow::Cow;
use std::fmt::Write as _;

use files::report::Report;

use crate::render::columns::{self, Column, Get};
use crate::render::entry::entries;

/// One line for each measured subject.
pub fn summary(reports: &[Report]) -> String {
    table(&columns::summary(), entries(reports))
}

/// One line for each tick that came.
pub fn samples(reports: &[Report]) -> String {
    table(&columns::samples(), entries(reports).flat_map(columns::ticks))
}

/// A heading, and a line a row; what is not known is an empty field.
fn table<R>(columns: &[Column<R>], rows: impl Iterator<Item = R>) -> String {
    let names: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
    let mut text = names.join(",");
    for row in rows {
        let mut between = '\n';
        for (_, get) in columns {
            text.push(between);
            between = ',';
            let _ = match get {
                Get::Text(get) => text.write_str(&quoted(get(&row))),
                Get::Count(get) => get(&row).map_or(Ok(()), |value| write!(text, "{value}")),
                Get::Whole(get) => get(&row).map_or(Ok(()), |value| write!(text, "{value}")),
                Get::Real(get) => get(&row).map_or(Ok(()), |value| write!(text, "{value}")),
            };
        }
    }
    text + "\n"
}

/// A field, in quotes where it holds what would end it, and behind an apostrophe where a
/// spreadsheet would take it for a formula.
fn quoted(field: &str) -> Cow<'_, str> {
    if field.starts_with(['=', '+', '-', '@', '\t', '\r']) {
        return format!("\"'{}\"", field.replace('"', "\"\"")).into();
    }
    if field.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\"")).into()
    } else {
        field.into()
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_field_cannot_end_early() {
        assert_eq!(super::quoted("a\"b,c"), "\"a\"\"b,c\"");
        assert_eq!(super::quoted("tokio-interval@1ms"), "tokio-interval@1ms");
    }

    #[test]
    fn a_field_is_no_formula() {
        for (field, written) in [
            ("=1+1", "\"'=1+1\""),
            ("+1", "\"'+1\""),
            ("-1", "\"'-1\""),
            ("@SUM(A1)", "\"'@SUM(A1)\""),
            ("\t=1", "\"'\t=1\""),
            ("\r=1", "\"'\r=1\""),
            ("=\"x\",1", "\"'=\"\"x\"\",1\""),
            ("1=1", "1=1"),
        ] {
            assert_eq!(super::quoted(field), written, "{field:?}");
        }
    }
}
