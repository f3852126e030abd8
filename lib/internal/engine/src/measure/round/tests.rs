use std::cell::RefCell;

use super::*;
use crate::machine::os;
use crate::measure::executor::{run_on_thread, run_on_tokio};
use crate::scenario::{Length, ScenarioArgs};
use crate::subject::ticker::{Schedule, Subject, Ticker};
use cli::units::to_ns;
use files::subjects::SPINNING_CONTROL;

#[test]
fn load_tasks_are_not_subject_cost() {
    // More than tokio lets a task do at once, so that the load runs even if all ticks are late.
    const TICKS: u64 = 200;
    let costs = |load: &str| {
        let args = ScenarioArgs {
            subjects: vec![crate::scenario::parse_subject("tokio-interval").unwrap()],
            length: Some(Length::Ticks(TICKS)),
            round_ticks: Some(TICKS),
            periods: vec![Duration::from_millis(1)],
            loads: vec![load.parse().unwrap()],
            ..ScenarioArgs::default()
        };
        let scenario = args.single_scenario().unwrap();
        let (index, slot, ticks, phase) = (0, 0, TICKS, Duration::ZERO);
        let stop = Arc::default();
        let round = RoundRequest {
            scenario: &scenario,
            index,
            slot,
            ticks,
            phase,
            start: None,
            run_on: 0,
            stop: &stop,
            profiler: None,
            late_watch: None,
            settings: None,
        };
        let before = os::usage().cpu_ns;
        let cost = round.measure().unwrap().cost;
        (cost, os::usage().cpu_ns.zip(before).map(|(now, before)| now - before))
    };
    assert_eq!(costs("none").0.load_cpu_ns, 0);
    let (loaded, process_ns) = costs("tasks:4x500us");
    assert!(loaded.load_cpu_ns > 0);
    // No CPU time of the process counts twice.
    assert!(
        loaded.usage.cpu_ns.unwrap() + loaded.load_cpu_ns <= process_ns.unwrap(),
        "{loaded:?} {process_ns:?}"
    );
}

/// CPU time that each tick of a [`BurningTicker`] uses, except those of the warm-up.
const BURNT: Duration = Duration::from_millis(5);

thread_local! {
    /// CPU time that each tick has used, as its thread counted it.
    static BURNT_NS: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

/// Uses CPU time on this thread. Returns how much.
fn burn(cpu_time: Duration) -> u64 {
    let before = os::thread_cpu_ns().unwrap();
    loop {
        let burnt_ns = os::thread_cpu_ns().unwrap() - before;
        if burnt_ns >= to_ns(cpu_time) {
            return burnt_ns;
        }
    }
}

/// A ticker that uses CPU time in each wait, and ten times as much when it is created and in
/// its warm-up.
struct BurningTicker(Schedule);

impl Subject for BurningTicker {
    type Ticker = Self;

    fn ticker(schedule: Schedule) -> io::Result<Self> {
        burn(10 * BURNT);
        Ok(Self(schedule))
    }
}

impl Ticker for BurningTicker {
    type Event = ();

    #[allow(clippy::disallowed_methods, reason = "a ticker that sleeps until its deadline")]
    fn poll_wait(
        self: std::pin::Pin<&mut Self>,
        next: u64,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<io::Result<()>> {
        let factor = if next < WARMUP_TICKS { 10 } else { 1 };
        let burnt_ns = burn(BURNT * factor);
        BURNT_NS.with_borrow_mut(|burnt| burnt.push(burnt_ns));
        let deadline = self.0.deadline(next);
        std::thread::sleep(deadline.saturating_duration_since(Instant::now()));
        std::task::Poll::Ready(Ok(()))
    }

    fn backend(&self) -> String {
        String::new()
    }
}

const WARMUP_TICKS: u64 = 2;

/// Measures a round of a burning ticker on this thread. Returns it with the CPU time of each
/// tick.
#[allow(clippy::disallowed_methods, reason = "a common start limits the costs to a thread")]
fn measure_burning(ticks: u64) -> (MeasuredRound, Vec<u64>) {
    let args = ScenarioArgs {
        subjects: vec![crate::scenario::parse_subject("nanosleep").unwrap()],
        length: Some(Length::Ticks(ticks)),
        round_ticks: Some(ticks),
        warmup: Some(WARMUP_TICKS),
        periods: vec![2 * BURNT],
        ..ScenarioArgs::default()
    };
    let (scenario, stop) = (args.single_scenario().unwrap(), Arc::default());
    let request = RoundRequest {
        scenario: &scenario,
        index: 0,
        slot: 0,
        ticks,
        phase: Duration::ZERO,
        start: Some(Instant::now()),
        run_on: 2,
        stop: &stop,
        profiler: None,
        late_watch: None,
        settings: None,
    };
    BURNT_NS.take();
    let round = request.measure_subject(WaitKind::Sleep, run_on_thread::<BurningTicker>).unwrap();
    (round, BURNT_NS.take())
}

#[test]
#[cfg(target_os = "linux")]
fn cost_is_that_of_recorded_ticks() {
    assert_cost_is_burnt(|| {
        let (round, burnt_ns) = measure_burning(10);
        let usage = round.cost.usage;
        let ticks = round.instances[0].cost_ticks;
        assert_eq!(ticks, 9, "from the first recorded tick to the last one");
        assert!(usage.cpu_ns <= usage.window_ns, "{usage:?}");
        let first = WARMUP_TICKS as usize;
        let expected_ns: u64 = burnt_ns[first + 1..first + 10].iter().sum();
        usage.cpu_ns.unwrap() as f64 / expected_ns as f64
    });
}

/// Checks the ratio of the reported CPU time to that which the ticks used. A hypervisor may
/// charge the time that it took to the few microseconds around a tick, but not each time.
fn assert_cost_is_burnt(measure_ratio: impl Fn() -> f64) {
    let mut ratios = Vec::new();
    while ratios.len() < 10 {
        let ratio = measure_ratio();
        assert!(ratio >= 1.0, "{ratio}");
        if ratio < 1.02 {
            return;
        }
        ratios.push(ratio);
    }
    panic!("{ratios:?}");
}

#[test]
#[cfg(target_os = "linux")]
fn cost_of_single_tick_excludes_warmup() {
    assert_cost_is_burnt(|| {
        let (round, burnt_ns) = measure_burning(1);
        let expected_ns = burnt_ns[WARMUP_TICKS as usize];
        assert_eq!(round.instances[0].cost_ticks, 1);
        round.cost.usage.cpu_ns.unwrap() as f64 / expected_ns as f64
    });
}

/// A ticker that ticks immediately, and reports a changed setting.
struct ChangedTicker;

impl Ticker for ChangedTicker {
    type Event = ();

    fn poll_wait(
        self: std::pin::Pin<&mut Self>,
        _: u64,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<io::Result<()>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn backend(&self) -> String {
        String::new()
    }

    fn setting_change(&self) -> Option<Change> {
        Some(Change { what: "slack".into(), from: "1".into(), to: "2".into() })
    }
}

impl Subject for ChangedTicker {
    const PARKS_UNTIL_DUE: bool = false;
    type Ticker = Self;

    fn ticker(_: Schedule) -> io::Result<Self> {
        Ok(Self)
    }
}

/// A ticker that ticks immediately, and panics at the third tick.
struct PanickingTicker(u64);

impl Ticker for PanickingTicker {
    type Event = ();

    fn poll_wait(
        self: std::pin::Pin<&mut Self>,
        next: u64,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<io::Result<()>> {
        assert!(next < self.0, "as a driver does");
        std::task::Poll::Ready(Ok(()))
    }

    fn backend(&self) -> String {
        String::new()
    }
}

impl Subject for PanickingTicker {
    const PARKS_UNTIL_DUE: bool = false;
    type Ticker = Self;

    fn ticker(_: Schedule) -> io::Result<Self> {
        Ok(Self(2))
    }
}

/// Measures a round of five ticks.
fn measure_round_with(run_round: fn(RoundSetup) -> io::Result<RawRound>) -> RoundResult {
    let args = ScenarioArgs { subjects: vec![SPINNING_CONTROL], ..ScenarioArgs::default() };
    let (scenario, stop) = (args.single_scenario().unwrap(), Arc::default());
    let request = RoundRequest {
        scenario: &scenario,
        index: 0,
        slot: 0,
        ticks: 5,
        phase: Duration::ZERO,
        start: None,
        run_on: 0,
        stop: &stop,
        profiler: None,
        late_watch: None,
        settings: None,
    };
    request.measure_subject(WaitKind::Spin, run_round)
}

#[test]
fn tickers_report_changed_settings() {
    let round = measure_round_with(run_on_thread::<ChangedTicker>).unwrap();
    assert_eq!(round.setting_changes.len(), 1, "{:?}", round.setting_changes);
}

#[test]
fn panics_end_only_their_round() {
    for run_round in [run_on_thread::<PanickingTicker>, run_on_tokio::<PanickingTicker>] {
        let result = measure_round_with(run_round);
        let reason = result.unwrap_err().to_string();
        assert!(reason.contains("as a driver does"), "{reason}");
    }
}
