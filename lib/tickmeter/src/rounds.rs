//! Several rounds in one process, which osjitter requests over standard input.

use std::io::{self, Write as _};
use std::sync::{Mutex, PoisonError};

use crate::measured_meter::CANDIDATES;

pub(crate) const ENV_TICKS: &str = "OSJITTER_TICKS";
pub(crate) const ENV_WARMUP: &str = "OSJITTER_WARMUP";
/// Has the value `stdin` if osjitter can request rounds over standard input.
const ENV_ROUNDS: &str = "OSJITTER_ROUNDS";
const READY: &str = "osjitter.requests/1 ready";
const DONE: &str = "osjitter.requests/1 done";

/// The round that is running, if it was requested over standard input.
static CURRENT: Mutex<Option<RequestedTicks>> = Mutex::new(None);

/// The numbers of ticks of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestedTicks {
    pub(crate) recorded: u64,
    pub(crate) warmup: u64,
}

/// Returns the round that is running, if it was requested over standard input.
pub(crate) fn current() -> Option<RequestedTicks> {
    *CURRENT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the rounds of this process: one that never ends unless osjitter started the process to
/// measure it.
///
/// By default osjitter starts a program for each round. A program that takes its rounds from here
/// is started once, which saves most of the time of programs that start slowly. In each round it
/// registers a meter, ticks [`Round::ticks`] times, and drops the meter. Between the rounds it
/// should do nothing.
///
/// ```no_run
/// use std::time::{Duration, Instant};
///
/// let period = Duration::from_millis(1);
/// for round in tickmeter::rounds() {
///     let mut meter = tickmeter::Meter::register("control-loop", period)?;
///     let mut deadline = Instant::now() + period;
///     for _ in 0..round.ticks() {
///         std::thread::sleep(deadline.saturating_duration_since(Instant::now()));
///         meter.tick(deadline);
///         deadline += period;
///     }
/// }
/// # Ok::<(), tickmeter::RegisterError>(())
/// ```
///
/// The program must not read standard input itself then. It can write to standard output.
pub fn rounds() -> Rounds {
    let number = |name| std::env::var(name).ok()?.parse::<u64>().ok();
    if std::env::var(ENV_ROUNDS).is_ok_and(|value| value == "stdin") {
        return Rounds { state: RoundsState::NotReady };
    }
    let requested = number(ENV_TICKS).map(|recorded| {
        let warmup = number(ENV_WARMUP).unwrap_or(0);
        recorded.saturating_add(warmup)
    });
    Rounds { state: RoundsState::Single(Round { ticks: requested.unwrap_or(u64::MAX) }) }
}

/// A round of a program.
#[derive(Debug)]
pub struct Round {
    ticks: u64,
}

impl Round {
    /// Returns the number of ticks to run, including the warm-up; `u64::MAX` if osjitter did not
    /// start this process.
    #[must_use]
    pub fn ticks(&self) -> u64 {
        self.ticks
    }
}

/// The rounds of a process, see [`rounds`].
#[must_use = "iterators are lazy and do nothing unless consumed"]
#[derive(Debug)]
pub struct Rounds {
    state: RoundsState,
}

#[derive(Debug)]
enum RoundsState {
    /// The only round.
    Single(Round),
    /// Rounds come over standard input, but the process has not reported that it is ready.
    NotReady,
    /// A round over standard input is running.
    Running,
    Ended,
}

impl Iterator for Rounds {
    type Item = Round;

    fn next(&mut self) -> Option<Round> {
        match std::mem::replace(&mut self.state, RoundsState::Ended) {
            RoundsState::Single(round) => Some(round),
            RoundsState::NotReady => self.request(READY),
            RoundsState::Running => {
                // osjitter quotes the message of the meter when this process ends.
                if CANDIDATES.lock().has_failed { None } else { self.request(DONE) }
            }
            RoundsState::Ended => None,
        }
    }
}

impl Rounds {
    /// Writes a reply and reads the request for the next round.
    fn request(&mut self, reply: &str) -> Option<Round> {
        CANDIDATES.lock().clear();
        let mut out = io::stdout();
        // If osjitter has ended, there are no more rounds.
        writeln!(out, "{reply}").and_then(|()| out.flush()).ok()?;
        let mut line = String::new();
        io::stdin().read_line(&mut line).ok()?;
        let requested = parse_request(&line)?;
        *CURRENT.lock().unwrap_or_else(PoisonError::into_inner) = Some(requested);
        self.state = RoundsState::Running;
        Some(Round { ticks: requested.recorded.saturating_add(requested.warmup) })
    }
}

/// Parses a line such as `ticks=250 warmup=20`.
fn parse_request(line: &str) -> Option<RequestedTicks> {
    let number = |key: &str| {
        let mut words = line.split_ascii_whitespace();
        words.find_map(|word| word.strip_prefix(key)?.strip_prefix('='))?.parse().ok()
    };
    Some(RequestedTicks { recorded: number("ticks")?, warmup: number("warmup")? })
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn requests_name_their_numbers() {
        let expected = Some(RequestedTicks { recorded: 250, warmup: 20 });
        assert_eq!(parse_request("ticks=250 warmup=20\n"), expected);
        assert_eq!(parse_request("more=x warmup=20 ticks=250"), expected);
        for line in ["", "\n", "ticks=250", "ticks=-1 warmup=0", "250 20"] {
            assert_eq!(parse_request(line), None, "{line:?}");
        }
    }
}
