//! The rounds of a measured program: several in one process if osjitter sends them over standard
//! input, otherwise the one of the environment.

use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::PathBuf;
use std::str::FromStr;

use super::{ENV_OUT, ENV_PERIOD, ENV_TICKS, ENV_WARMUP, Writer};

/// Environment variable that is [`ROUNDS_FROM_STDIN`] if a program can get rounds over standard
/// input.
pub const ENV_ROUNDS: &str = "OSJITTER_ROUNDS";
/// Value of [`ENV_ROUNDS`].
pub const ROUNDS_FROM_STDIN: &str = "stdin";
/// First word of the lines that the program writes to standard output.
pub const REQUESTS_SCHEMA: &str = "osjitter.requests/1";

/// The request for a round, which is a line of standard input: `ticks=250 warmup=20`.
///
/// A reader ignores unknown keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoundRequest {
    /// Number of ticks to record.
    pub ticks: u64,
    /// Number of unrecorded ticks to run before them.
    pub warmup: u64,
}

impl fmt::Display for RoundRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ticks={} warmup={}", self.ticks, self.warmup)
    }
}

impl FromStr for RoundRequest {
    type Err = io::Error;

    fn from_str(line: &str) -> io::Result<Self> {
        let (mut ticks, mut warmup) = (None, None);
        for word in line.split_ascii_whitespace() {
            match word.split_once('=') {
                Some(("ticks", number)) => ticks = number.parse().ok(),
                Some(("warmup", number)) => warmup = number.parse().ok(),
                _ => {}
            }
        }
        let invalid = || {
            let what = format!("invalid round {line:?}: expected ticks=N warmup=N");
            io::Error::new(io::ErrorKind::InvalidData, what)
        };
        Ok(Self { ticks: ticks.ok_or_else(invalid)?, warmup: warmup.ok_or_else(invalid)? })
    }
}

/// A line that the program writes to standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoundReply {
    /// The program reads rounds from standard input: the first reply.
    Ready,
    /// The series of the requested round is written.
    Done,
}

impl RoundReply {
    /// Parses a line. `None` if it is not a reply: programs may write other lines as well.
    ///
    /// # Errors
    /// Returns the rest of the line if the reply is not known.
    #[must_use]
    pub fn parse(line: &str) -> Option<Result<Self, &str>> {
        let reply = line.trim_end().strip_prefix(REQUESTS_SCHEMA)?;
        Some(match reply {
            " ready" => Ok(Self::Ready),
            " done" => Ok(Self::Done),
            unknown => Err(unknown.trim_start()),
        })
    }
}

impl fmt::Display for RoundReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reply = match self {
            Self::Ready => "ready",
            Self::Done => "done",
        };
        write!(f, "{REQUESTS_SCHEMA} {reply}")
    }
}

/// A round to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Round {
    /// Number of ticks to record.
    pub ticks: u64,
    /// Number of unrecorded ticks to run before them.
    pub warmup: u64,
    /// Requested period, which a program with a fixed period can ignore.
    pub period_ns: u64,
    out: PathBuf,
}

impl Round {
    /// Creates the file of the round, with the first line of a series of ticks.
    ///
    /// # Errors
    /// Returns an error if the period is zero, or if the file cannot be created or written.
    pub fn create_series(&self, period_ns: u64) -> io::Result<Writer<File>> {
        Writer::new(File::create(&self.out)?, period_ns)
    }
}

/// The rounds of a process. Each has to be written before the next one is taken.
///
/// ```no_run
/// # fn run_loop(period_ns: u64, ticks: u64) -> Vec<i64> { Vec::new() }
/// for round in jitterstat::series::Rounds::from_env()? {
///     let round = round?;
///     let late_ns = run_loop(round.period_ns, round.warmup + round.ticks);
///     let mut series = round.create_series(round.period_ns)?;
///     late_ns[round.warmup as usize..].iter().try_for_each(|&ns| series.push(ns))?;
///     series.finish()?;
/// }
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Rounds {
    source: Source,
    period_ns: u64,
    out: PathBuf,
    /// Destination of the replies.
    replies: Box<dyn Write + Send>,
    /// Whether a round of [`Source::Lines`] was taken and not yet reported.
    is_running: bool,
}

enum Source {
    /// The round of the environment.
    Environment(Option<RoundRequest>),
    /// Rounds over standard input.
    Lines(Box<dyn BufRead + Send>),
}

impl Rounds {
    /// Reads the environment. If osjitter offers rounds over standard input, this reports that the
    /// program is ready.
    ///
    /// # Errors
    /// Returns an error if the program was not started by osjitter, or the report cannot be
    /// written.
    pub fn from_env() -> io::Result<Self> {
        let out = std::env::var_os(ENV_OUT).ok_or_else(|| missing(ENV_OUT))?.into();
        let period_ns = number(ENV_PERIOD)?;
        let has_lines = std::env::var(ENV_ROUNDS).is_ok_and(|value| value == ROUNDS_FROM_STDIN);
        if !has_lines {
            let request = RoundRequest { ticks: number(ENV_TICKS)?, warmup: number(ENV_WARMUP)? };
            let source = Source::Environment(Some(request));
            return Ok(Self {
                source,
                period_ns,
                out,
                replies: Box::new(io::sink()),
                is_running: false,
            });
        }
        let lines = Box::new(BufReader::new(io::stdin()));
        Self::from_lines(lines, Box::new(io::stdout()), period_ns, out)
    }

    fn from_lines(
        lines: Box<dyn BufRead + Send>,
        replies: Box<dyn Write + Send>,
        period_ns: u64,
        out: PathBuf,
    ) -> io::Result<Self> {
        let source = Source::Lines(lines);
        let mut rounds = Self { source, period_ns, out, replies, is_running: false };
        rounds.reply(RoundReply::Ready)?;
        Ok(rounds)
    }

    fn reply(&mut self, reply: RoundReply) -> io::Result<()> {
        writeln!(self.replies, "{reply}")?;
        self.replies.flush()
    }

    /// Returns the next request; `None` after the last one.
    fn next_request(&mut self) -> io::Result<Option<RoundRequest>> {
        if std::mem::take(&mut self.is_running) {
            self.reply(RoundReply::Done)?;
        }
        let lines = match &mut self.source {
            Source::Environment(request) => return Ok(request.take()),
            Source::Lines(lines) => lines,
        };
        let mut line = String::new();
        if lines.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        self.is_running = true;
        line.trim_end().parse().map(Some)
    }
}

impl fmt::Debug for Rounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rounds").field("period_ns", &self.period_ns).finish_non_exhaustive()
    }
}

impl Iterator for Rounds {
    type Item = io::Result<Round>;

    fn next(&mut self) -> Option<Self::Item> {
        let RoundRequest { ticks, warmup } = match self.next_request().transpose()? {
            Ok(request) => request,
            Err(error) => return Some(Err(error)),
        };
        let (period_ns, out) = (self.period_ns, self.out.clone());
        Some(Ok(Round { ticks, warmup, period_ns, out }))
    }
}

fn missing(name: &str) -> io::Error {
    let what = format!("{name} is not set: the program was not started by osjitter");
    io::Error::new(io::ErrorKind::NotFound, what)
}

fn number(name: &str) -> io::Result<u64> {
    let text = std::env::var(name).map_err(|_| missing(name))?;
    text.parse().map_err(|_| {
        let what = format!("invalid {name} {text:?}: expected a number");
        io::Error::new(io::ErrorKind::InvalidData, what)
    })
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    /// A writer whose text can be read afterwards.
    #[derive(Clone, Default)]
    struct SharedText(Arc<Mutex<Vec<u8>>>);

    impl Write for SharedText {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn from_text(text: &'static str) -> (Rounds, SharedText) {
        let replies = SharedText::default();
        let (lines, out) = (Box::new(text.as_bytes()), PathBuf::from("series"));
        let rounds = Rounds::from_lines(lines, Box::new(replies.clone()), 500, out);
        (rounds.unwrap(), replies)
    }

    #[test]
    fn rounds_are_reported_when_done() {
        let (mut rounds, replies) = from_text("ticks=250 warmup=20\nwarmup=0 more=x ticks=1\n");
        let text = || String::from_utf8(replies.0.lock().unwrap().clone()).unwrap();
        let mut expected = "osjitter.requests/1 ready\n".to_owned();
        assert_eq!(text(), expected);
        for (ticks, warmup) in [(250, 20), (1, 0)] {
            let round = rounds.next().unwrap().unwrap();
            assert_eq!((round.ticks, round.warmup, round.period_ns), (ticks, warmup, 500));
            assert_eq!(text(), expected, "not done yet");
            expected += "osjitter.requests/1 done\n";
        }
        assert!(rounds.next().is_none());
        assert_eq!(text(), expected);
        assert!(rounds.next().is_none());
    }

    #[test]
    fn invalid_requests_are_errors() {
        for text in ["ticks=1\n", "1 2\n", "ticks=-1 warmup=0\n", "\n"] {
            let error = from_text(text).0.next().unwrap().unwrap_err().to_string();
            assert!(error.starts_with("invalid round"), "{error}");
        }
        let request = RoundRequest { ticks: 7, warmup: 3 };
        assert_eq!(request.to_string().parse::<RoundRequest>().unwrap(), request);
    }

    #[test]
    fn replies_parse_back() {
        for reply in [RoundReply::Ready, RoundReply::Done] {
            assert_eq!(RoundReply::parse(&format!("{reply}\r\n")), Some(Ok(reply)));
        }
        assert_eq!(RoundReply::parse("osjitter.requests/1 soon"), Some(Err("soon")));
        assert_eq!(RoundReply::parse("a log line"), None);
    }
}
