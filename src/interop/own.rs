//! `report.json` of osjitter itself.

use jitterstat::report::{Report, SCHEMA};

use crate::interop::{check, json};

/// Reads a report of the schema that the file states.
pub(super) fn read(schema: &str, text: &str) -> Result<Report, String> {
    if schema != SCHEMA {
        let newer = version(schema).is_some_and(|(kind, n)| version(SCHEMA).is_some_and(|(k, m)| k == kind && n > m));
        let why = if newer { ": a newer osjitter wrote it" } else { "" };
        return Err(format!("schema {schema:?} is not known{why}; this version reads {SCHEMA:?}"));
    }
    let report: Report = json(text, SCHEMA)?;
    check::check(&report).map_err(|e| format!("not a valid {SCHEMA}: {e}"))?;
    Ok(report)
}

/// `osjitter.report/1` as its kind and its number.
fn version(schema: &str) -> Option<(&str, u64)> {
    let (kind, number) = schema.split_once('/')?;
    Some((kind, number.parse().ok()?))
}
