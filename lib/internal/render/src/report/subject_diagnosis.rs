//! The diagnosis of one subject, with its name.

use cli::printable::to_printable_message;
use files::report::why::Why;

/// The diagnosis of one subject.
#[derive(Debug)]
pub struct Diagnosis<'a> {
    pub name: String,
    pub why: &'a Why,
    /// Length of the trace; `None` for a run, which consists of rounds.
    pub trace_ns: Option<u64>,
}

impl Diagnosis<'_> {
    /// Returns why nothing was profiled.
    pub fn missing_reason(&self) -> String {
        match &self.why.missing {
            Some(missing) => to_printable_message(&missing.reason),
            None => "the subject was not profiled".to_owned(),
        }
    }
}
