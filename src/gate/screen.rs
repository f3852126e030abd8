//! Screens: gates that give a quick verdict within seconds.
//!
//! A screen takes a single look, at as many pairs as its time allows. It ends with *pass*, with
//! *clearly worse* if the whole interval is beyond the tolerance, and otherwise with *look closer*,
//! which is the outcome `inconclusive` in files.

use std::time::{Duration, Instant};

use cli::exit::{self, Error, usage};
use cli::time::format_duration;
use cli::words::pluralize;
use engine::scenario::RoundLength;
use files::gate::verdict::Mode;
use jitterstat::gate::decision::MIN_PAIRS;

use crate::gate::args::{GateArgs, RoundArgs};
use crate::gate::pair_test::{DEFAULT_MAX_PAIRS, ROUND_SETUP_TIME, SHORTER_ROUNDS_ADVICE};
use crate::gate::pairs::now;
use crate::gate::running_gate::RunningGate;

/// Maximum time of a screen, from its start to its verdict.
pub const MAX_SCREEN_TIME: Duration = Duration::from_secs(15);
/// Part of that time in which nothing is measured: for the verdict and its file.
const REPORT_TIME: Duration = Duration::from_millis(700);
/// Minimum number of pairs of a screen: both halves of the pairs then suffice for a test.
const MIN_SCREEN_PAIRS: u64 = 2 * MIN_PAIRS as u64;
/// Maximum number of pairs of a screen.
pub const MAX_SCREEN_PAIRS: usize = DEFAULT_MAX_PAIRS as usize;
/// Number of pairs for which rounds become shorter than those of a gate.
const PLANNED_PAIRS: u32 = 40;
/// Number of ticks below which a round is not shortened.
const MIN_ROUND_TICKS: u64 = 20;

/// The time of a screen, which its tests share.
#[derive(Clone, Copy, Debug)]
pub struct Screen {
    deadline: Instant,
    /// Number of tests that have not started.
    open_tests: u32,
    /// Share of the time that each test has by the plan.
    planned_share: Duration,
}

/// The time at which a test of a screen must look at its pairs.
#[derive(Clone, Copy, Debug)]
pub struct ScreenDeadline {
    started: Instant,
    deadline: Instant,
}

impl Screen {
    /// Starts a screen; `None` if the arguments do not request one.
    pub fn start(args: &GateArgs) -> Option<Self> {
        let subject_tests = args.a.len() * args.judged.period.len().max(1);
        let program_tests = usize::from(args.candidate_cmd.is_some());
        let open_tests = u32::try_from(subject_tests + program_tests).unwrap_or(u32::MAX).max(1);
        let measuring_time = MAX_SCREEN_TIME - REPORT_TIME;
        let deadline = now() + measuring_time;
        let planned_share = measuring_time / open_tests;
        args.screen.then_some(Self { deadline, open_tests, planned_share })
    }

    /// Starts the time again, after the programs were built.
    pub fn restart(self) -> Self {
        Self { deadline: now() + (MAX_SCREEN_TIME - REPORT_TIME), ..self }
    }

    /// Returns the time at which the last round or run ends.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Returns the rounds of the arguments at a period. If these do not set a length, rounds are
    /// shortened so that enough pairs fit into the time.
    pub fn shorten_rounds(
        &self,
        rounds: &RoundArgs,
        period: Duration,
        mode: Mode,
    ) -> exit::Result<RoundArgs> {
        let default = RoundLength::new(period, rounds.round_ticks, rounds.warmup)?;
        let rounds_of_pair = if mode == Mode::Duet { 1 } else { 2 };
        let round_time = self.planned_share / (rounds_of_pair * PLANNED_PAIRS);
        let ticking_time = round_time.saturating_sub(ROUND_SETUP_TIME).as_nanos();
        let ticks = u64::try_from(ticking_time / period.as_nanos()).unwrap_or(u64::MAX);
        let recorded = ticks.saturating_sub(default.warmup_ticks).max(MIN_ROUND_TICKS);
        let round_ticks = rounds.round_ticks.unwrap_or(recorded.min(default.ticks));
        Ok(RoundArgs { round_ticks: Some(round_ticks), ..rounds.clone() })
    }

    /// Checks that a test has enough pairs by the length of its rounds.
    ///
    /// # Errors
    /// Returns an error if its rounds alone are too long for a screen.
    pub fn check_pair_time(&self, pair_time: Duration) -> exit::Result<()> {
        let pairs = u32::try_from(MIN_SCREEN_PAIRS).unwrap_or(u32::MAX);
        if pair_time * pairs <= self.planned_share {
            return Ok(());
        }
        Err(usage!(
            "a screen has {} for {}, and the {MIN_SCREEN_PAIRS} pairs of one take about {}; {SHORTER_ROUNDS_ADVICE}, \
             or gate without --screen",
            format_duration(MAX_SCREEN_TIME.as_secs_f64()),
            pluralize(u64::from(self.open_tests), "test"),
            format_duration((pair_time * pairs).as_secs_f64())
        ))
    }

    /// Plans the only look of a test: at as many pairs as its time allows.
    pub fn looks(&self, pair_time: Duration) -> Vec<usize> {
        let share = self.deadline.saturating_duration_since(now()) / self.open_tests;
        let pairs = (share.as_secs_f64() / pair_time.as_secs_f64().max(1e-9)) as u64;
        let pairs = pairs.clamp(MIN_SCREEN_PAIRS, MAX_SCREEN_PAIRS as u64);
        vec![usize::try_from(pairs).unwrap_or(usize::MAX)]
    }

    /// Starts the next test and returns its deadline.
    pub fn start_test(&mut self) -> ScreenDeadline {
        let started = now();
        let share = self.deadline.saturating_duration_since(started) / self.open_tests;
        self.open_tests = self.open_tests.saturating_sub(1).max(1);
        ScreenDeadline { started, deadline: started + share }
    }
}

impl ScreenDeadline {
    /// Returns whether another pair would probably end after the deadline.
    ///
    /// The time of a pair depends on both sides alike, so that a look at this moment has the same
    /// rate of false alarms as a planned one.
    pub fn is_reached(&self, pairs: usize) -> bool {
        let now = now();
        let elapsed = now.saturating_duration_since(self.started);
        let pair_time = elapsed / u32::try_from(pairs).unwrap_or(u32::MAX).max(1);
        now + pair_time > self.deadline
    }
}

/// Warns that the pairs of a screen were too few to decide anything. `noun` names their parts.
pub fn warn_of_few_pairs(pairs: u64, noun: &str, gate: &mut RunningGate) {
    if gate.verdict.screen && pairs < MIN_SCREEN_PAIRS && gate.stop_reason().is_none() {
        let pairs = pluralize(pairs, "pair");
        let message = format!(
            "The time of the screen sufficed for {pairs} of {noun}, and {MIN_SCREEN_PAIRS} are needed."
        );
        let hint = "Make the programs start and run faster, or gate without --screen.";
        gate.warn("screen-too-short", &message, hint);
    }
}

/// Returns the error of programs whose first runs do not fit into the time of a screen.
pub fn long_run_error() -> Error {
    usage!(
        "the first runs take longer than the {} of a screen; give the programs less to do, or gate without --screen",
        format_duration(MAX_SCREEN_TIME.as_secs_f64())
    )
}

/// Describes a screen before it starts.
pub fn announcement() -> String {
    format!("a screen of at most {}", format_duration(MAX_SCREEN_TIME.as_secs_f64()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn screen(tests: u32) -> Screen {
        let planned_share = (MAX_SCREEN_TIME - REPORT_TIME) / tests;
        let deadline = now() + MAX_SCREEN_TIME;
        Screen { deadline, open_tests: tests, planned_share }
    }

    fn round_ticks(tests: u32, period: Duration, mode: Mode) -> u64 {
        let rounds = RoundArgs {
            runtime: None,
            round_ticks: None,
            warmup: None,
            cpu: None,
            seed: None,
            quiet: true,
        };
        screen(tests).shorten_rounds(&rounds, period, mode).unwrap().round_ticks.unwrap()
    }

    #[test]
    fn rounds_shorten_as_needed() {
        let millis = Duration::from_millis;
        // Rounds of the default period fit.
        assert_eq!(round_ticks(1, Duration::from_micros(500), Mode::Interleaved), 250);
        assert_eq!(round_ticks(1, millis(2), Mode::Interleaved), 82);
        assert_eq!(round_ticks(1, millis(2), Mode::Duet), 171);
        assert_eq!(round_ticks(2, millis(2), Mode::Interleaved), 37);
        assert_eq!(round_ticks(1, millis(20), Mode::Interleaved), MIN_ROUND_TICKS);
        // The default is less than that.
        assert_eq!(round_ticks(1, Duration::from_secs(3600), Mode::Interleaved), 1);
    }

    #[test]
    fn look_fits_into_the_time() {
        let looks = |tests, millis| screen(tests).looks(Duration::from_millis(millis))[0];
        assert!((50..=54).contains(&looks(1, 278)), "{}", looks(1, 278));
        assert!((25..=27).contains(&looks(2, 278)), "{}", looks(2, 278));
        assert_eq!((looks(1, 1), looks(1, 3_000)), (400, 24));
        assert!(screen(1).check_pair_time(Duration::from_millis(590)).is_ok());
        assert!(screen(1).check_pair_time(Duration::from_millis(600)).is_err());
    }

    #[test]
    fn tests_share_the_time() {
        let mut screen = screen(3);
        let first = screen.start_test();
        let share = first.deadline - first.started;
        assert!(share > Duration::from_secs(4) && share <= Duration::from_secs(5), "{share:?}");
        assert!(!first.is_reached(1));
        let last = [screen.start_test(), screen.start_test()][1];
        assert_eq!(screen.open_tests, 1);
        assert!(last.deadline <= screen.deadline);
        let over = ScreenDeadline { started: now(), deadline: now() };
        assert!(over.is_reached(1));
    }
}
