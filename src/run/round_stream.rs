//! `osjitter run --format jsonl`: prints a line for each round as it is measured, and the report
//! without the rounds as the last line.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cli::exit::{Error, Result};
use cli::file_io;
use engine::measure::record::RecordedRound;
use files::file::to_json_line;
use files::report::{ExcludedRound, Report, Round};
use serde::Serialize;

const SCHEMA: &str = "osjitter.rounds/1";

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "line", rename_all = "kebab-case", rename = "Line")]
enum StreamLine<'a> {
    /// A round of a subject; each of several instances has its own line.
    Round {
        /// `osjitter.rounds/1`.
        schema: &'a str,
        /// The subject's id, as in the report.
        subject: &'a str,
        round: &'a Round,
    },
    /// A round that is part of no number, since a setting was changed from outside.
    Excluded {
        /// `osjitter.rounds/1`.
        schema: &'a str,
        /// The subject's id, as in the report.
        subject: &'a str,
        round: &'a ExcludedRound,
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

/// Writes the lines to standard output. Stops the run if the reader closes it, or has stopped
/// reading when an interrupt comes.
pub struct RoundStream {
    stop: Arc<AtomicBool>,
    error: Option<io::Error>,
}

impl RoundStream {
    pub fn new(stop: &Arc<AtomicBool>) -> Self {
        Self { stop: Arc::clone(stop), error: None }
    }

    /// Writes the result of a round.
    pub fn add(&mut self, subject: &str, result: RecordedRound<'_>) {
        match result {
            RecordedRound::Rounds(rounds) => {
                for round in &rounds {
                    self.write(&StreamLine::Round { schema: SCHEMA, subject, round });
                }
            }
            RecordedRound::Excluded(round) => {
                self.write(&StreamLine::Excluded { schema: SCHEMA, subject, round });
            }
            RecordedRound::Failed(error) => {
                let reason = &error.to_string();
                self.write(&StreamLine::Failed { schema: SCHEMA, subject, reason });
            }
        }
    }

    /// Returns whether the reader has closed standard output, which ends the run and is no error.
    pub fn is_closed(&self) -> bool {
        let is_closed = |error: &io::Error| error.kind() == io::ErrorKind::BrokenPipe;
        self.error.as_ref().is_some_and(is_closed)
    }

    /// Writes the last line, and removes the rounds from the report.
    ///
    /// # Errors
    /// Returns the first error of any line, unless the reader has closed standard output.
    pub fn finish(mut self, report: &mut Report) -> Result<()> {
        for subject in &mut report.subjects {
            subject.rounds.clear();
        }
        self.write(&StreamLine::Summary { schema: SCHEMA, report });
        match self.error {
            Some(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                Err(Error::from_stdout(error))
            }
            _ => Ok(()),
        }
    }

    fn write(&mut self, line: &StreamLine<'_>) {
        if self.error.is_some() {
            return;
        }
        let text = to_json_line(line);
        if let Err(error) = file_io::write_stdout(text.as_bytes()) {
            self.error = Some(error);
            self.stop.store(true, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schema_is_current() {
        let schema = serde_json::to_value(schemars::schema_for!(StreamLine<'_>)).unwrap();
        files::model::check_schema("osjitter.rounds.1.json", &schema);
    }
}
