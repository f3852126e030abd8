//! Comma-separated values (RFC 4180): one line per subject or one line per tick.

use std::borrow::Cow;
use std::fmt::{self, Write as _};

use files::report::Report;

use crate::columns::{self, Getter, TableColumn};
use files::entry::entries;

/// Renders one line for each measured subject.
pub fn summary(reports: &[Report]) -> String {
    table(&columns::summary(), entries(reports))
}

/// Renders one line for each delivered tick.
pub fn samples(reports: &[Report]) -> String {
    table(&columns::samples(), entries(reports).flat_map(columns::ticks))
}

/// Renders a heading and one line per row; unknown values are empty fields.
fn table<R>(columns: &[TableColumn<R>], rows: impl Iterator<Item = R>) -> String {
    let names: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
    let mut text = names.join(",");
    for row in rows {
        let mut separator = '\n';
        for (_, get) in columns {
            text.push(separator);
            separator = ',';
            match get {
                Getter::Text(get) => text += &quote_field(get(&row)),
                Getter::Words(get) => text += &quote_field(&get(&row)),
                Getter::Count(get) => push_number(&mut text, get(&row)),
                Getter::Whole(get) => push_number(&mut text, get(&row)),
                Getter::Real(get) => push_number(&mut text, get(&row)),
            }
        }
    }
    text + "\n"
}

fn push_number(text: &mut String, number: Option<impl fmt::Display>) {
    if let Some(number) = number {
        let _ = write!(text, "{number}");
    }
}

/// Quotes a field if it contains a separator, and prefixes an apostrophe if a spreadsheet would
/// interpret it as a formula.
fn quote_field(field: &str) -> Cow<'_, str> {
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
    fn separators_are_quoted() {
        assert_eq!(super::quote_field("a\"b,c"), "\"a\"\"b,c\"");
        assert_eq!(super::quote_field("tokio-interval@1ms"), "tokio-interval@1ms");
    }

    #[test]
    fn formulas_are_neutralized() {
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
            assert_eq!(super::quote_field(field), written, "{field:?}");
        }
    }
}
