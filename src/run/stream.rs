//! `osjitter run --format jsonl`: a line for each round as it is measured, and the report without
//! them as the last one.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cli::exit::{Error, Result};
use engine::measure::record::RoundResult;
use files::report::{Report, Round};
use serde::Serialize;

const SCHEMA: &str = "osjitter.rounds/1";

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "line", rename_all = "kebab-case")]
enum Line<'a> {
    /// A round of a subject; of several instances, each has its own line.
    Round {
        /// `osjitter.rounds/1`.
        schema: &'a str,
        /// The subject's id, as in the report.
        subject: &'a str,
        round: &'a Round,
    },
    /// A subject could not be measured, and has no further rounds.
    Failed {
        /// `osjitter.rounds/1`.
        schema: &'a str,
        /// The subject's id, as in the report.
        subject: &'a str,
        reason: &'a str,
    },
    /// The last line: the report, whose rounds are the lines before it.
    Summary {
        /// `osjitter.rounds/1`.
        schema: &'a str,
        report: &'a Report,
    },
}

/// Standard output, as long as somebody reads it.
pub struct Stream {
    stop: Arc<AtomicBool>,
    failed: Option<std::io::Error>,
}

impl Stream {
    /// One that ends the run where nobody reads any more.
    pub fn new(stop: &Arc<AtomicBool>) -> Self {
        Self { stop: Arc::clone(stop), failed: None }
    }

    /// Writes what a round came to.
    pub fn add(&mut self, subject: &str, measured: RoundResult<'_>) {
        match measured {
            RoundResult::Rounds(rounds) => {
                rounds
                    .iter()
                    .for_each(|round| self.write(&Line::Round { schema: SCHEMA, subject, round }));
            }
            RoundResult::Failed(reason) => {
                self.write(&Line::Failed { schema: SCHEMA, subject, reason })
            }
        }
    }

    /// Writes the last line.
    pub fn finish(mut self, mut report: Report) -> Result<()> {
        report.subjects.iter_mut().for_each(|subject| subject.rounds.clear());
        self.write(&Line::Summary { schema: SCHEMA, report: &report });
        self.failed.map_or(Ok(()), |error| Err(Error::from_stdout(error)))
    }

    fn write(&mut self, line: &Line<'_>) {
        if self.failed.is_some() {
            return;
        }
        let text = serde_json::to_string(line).expect("plain data") + "\n";
        let mut stdout = std::io::stdout().lock();
        if let Err(error) = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
            self.failed = Some(error);
            self.stop.store(true, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_schema_is_of_these_lines() {
        let schema = serde_json::to_value(schemars::schema_for!(Line<'_>)).unwrap();
        crate::file_io::check_schema("osjitter.rounds.1.json", &schema);
    }
}
