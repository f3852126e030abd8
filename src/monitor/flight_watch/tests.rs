use files::file::File as _;

use super::*;
use crate::flight_record::Flight;

fn rule(limits: &[&str]) -> Option<LateRule> {
    let limits: Vec<Limit> = limits.iter().map(|text| text.parse().unwrap()).collect();
    let loop_id =
        LoopId::Meter { meter: "audio".to_owned(), period_ns: 2_000_000, program: "p".to_owned() };
    LateRule::new(&limits, &loop_id)
}

#[test]
fn lowest_limit_decides_the_rule() {
    let ms = Duration::from_millis;
    assert_eq!(rule(&["other:max=1ms"]), None);
    let both = rule(&["p99=3ms", "audio:max=20ms", "max=30ms"]).unwrap();
    assert_eq!(both, LateRule { late_from: ms(3), broken_from: Some(ms(20)) });
    let missed = rule(&["missed=1%"]).unwrap();
    assert_eq!(missed, LateRule { late_from: ms(2), broken_from: None });
}

#[test]
fn single_ticks_trigger_only_if_later() {
    let ms = Duration::from_millis;
    let both = rule(&["p99=3ms", "max=20ms"]).unwrap();
    let is_trigger = |lateness, highest| both.is_trigger(ms(lateness), ms(highest));
    assert!(!is_trigger(3, 0), "not above the limit");
    assert!(is_trigger(4, 0) && is_trigger(5, 4) && !is_trigger(5, 5));
    assert!(is_trigger(21, 21), "it breaks a limit alone");
}

fn watch() -> Option<FlightWatch> {
    match FlightWatch::open(Duration::from_millis(500), true) {
        Ok((watch, scope)) => {
            assert!(scope.starts_with("flight records: "), "{scope}");
            Some(watch)
        }
        Err(why) => {
            let why = why.to_string();
            assert!(why.contains("perf_event_open") || why.contains("Linux"), "{why}");
            None
        }
    }
}

#[allow(clippy::disallowed_methods, reason = "a tick of now")]
fn tick(lateness: Duration) -> AccountedTick {
    let wake = Instant::now();
    AccountedTick { number: 1, due: wake - lateness, wake, accounts: None }
}

fn loop_id(name: &str) -> LoopId {
    LoopId::Probe { subject: name.to_owned(), period_ns: 1_000_000, runtime: String::new() }
}

#[test]
fn records_need_a_broken_limit() {
    let Some(mut watch) = watch() else { return };
    let ms = Duration::from_millis;
    let rule = LateRule { late_from: ms(2), broken_from: None };
    let add = |watch: &mut FlightWatch, name: &str, lateness: Duration| {
        watch.add_ticks(&loop_id(name), rule, vec![os::thread_id()], vec![tick(lateness)]);
        watch.capture(true);
    };
    add(&mut watch, "a", ms(1));
    assert_eq!(watch.close_interval(&[loop_id("a")]), Vec::<String>::new());
    add(&mut watch, "a", ms(3));
    assert_eq!(watch.close_interval(&[]), Vec::<String>::new(), "no limit is broken");
    add(&mut watch, "a", ms(3));
    add(&mut watch, "a", ms(3));
    let flights = watch.close_interval(&[loop_id("a")]);
    assert_eq!(flights.len(), 1, "the second tick was not later");
    assert!(flights[0].contains(r#""subject":"a@1ms""#), "{}", flights[0]);
}

#[test]
fn records_of_an_interval_are_limited() {
    let Some(mut watch) = watch() else { return };
    let rule = LateRule { late_from: Duration::ZERO, broken_from: Some(Duration::ZERO) };
    for ms in 1..=MAX_FLIGHTS as u64 + 3 {
        let ticks = vec![tick(Duration::from_millis(ms))];
        watch.add_ticks(&loop_id("a"), rule, Vec::new(), ticks);
        watch.capture(true);
    }
    // However long this thread pauses now, less time has passed than a record has.
    watch.length = Duration::from_secs(3_600);
    watch.add_ticks(&loop_id("a"), rule, Vec::new(), vec![tick(Duration::from_millis(1))]);
    watch.capture(false);
    assert_eq!(watch.pending.len(), MAX_FLIGHTS);
    let least = watch.pending.iter().map(|pending| pending.trigger.tick.lateness()).min();
    assert!(least >= Some(Duration::from_millis(4)), "the lowest are dropped: {least:?}");
    assert!(watch.trigger.is_some(), "a tick shortly after a record waits");
}

#[test]
fn waiting_ticks_are_kept() {
    let Some(mut watch) = watch() else { return };
    let rule = LateRule { late_from: Duration::ZERO, broken_from: Some(Duration::ZERO) };
    let mut add = |lateness: Duration, count: usize| {
        let ticks = (0..count).map(|_| tick(lateness)).collect();
        watch.add_ticks(&loop_id("a"), rule, Vec::new(), ticks);
    };
    add(Duration::from_millis(1), 3);
    add(Duration::from_millis(2), 1);
    add(Duration::from_millis(1), 2 * MAX_TICKS);
    assert_eq!(watch.loops[&loop_id("a")].ticks.len(), MAX_TICKS);
    watch.capture(true);
    let flights = watch.close_interval(&[loop_id("a")]);
    let flight = Flight::from_json(&flights[0]).unwrap();
    let ticks = &flight.rounds[0].ticks;
    assert!(ticks.iter().any(|tick| tick.tick == flight.late.tick), "{:?}", flight.late);
    let before = watch.loops[&loop_id("a")].ticks.iter().map(|tick| tick.number);
    assert_eq!(before.filter(|number| *number < flight.late.tick).count(), 3);
}

#[test]
#[allow(clippy::disallowed_methods, reason = "the time of the last record")]
fn old_waiting_ticks_are_kept() {
    let Some(mut watch) = watch() else { return };
    let rule = LateRule { late_from: Duration::ZERO, broken_from: Some(Duration::ZERO) };
    let mut old = tick(Duration::from_millis(2));
    (old.due, old.wake) = (old.due - 4 * watch.length, old.wake - 4 * watch.length);
    watch.add_ticks(&loop_id("a"), rule, Vec::new(), vec![old]);
    watch.last_capture = Some(Instant::now());
    watch.capture(false);
    watch.capture(true);
    assert_eq!(watch.close_interval(&[loop_id("a")]).len(), 1);
}

#[test]
fn certain_breaches_come_first() {
    let Some(mut watch) = watch() else { return };
    let single = LateRule { late_from: Duration::ZERO, broken_from: Some(Duration::ZERO) };
    let together = LateRule { late_from: Duration::ZERO, broken_from: None };
    let mut add = |name: &str, rule, ms| {
        let ticks = vec![tick(Duration::from_millis(ms))];
        watch.add_ticks(&loop_id(name), rule, Vec::new(), ticks);
        watch.trigger.as_ref().unwrap().loop_id.clone()
    };
    assert_eq!(add("percentile", together, 5), loop_id("percentile"));
    assert_eq!(add("single", single, 2), loop_id("single"));
    assert_eq!(add("percentile", together, 9), loop_id("single"));
    assert_eq!(add("single-2", single, 3), loop_id("single-2"));
}
