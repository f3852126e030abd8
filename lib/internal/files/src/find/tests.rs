use proptest::prelude::*;

use super::*;
use crate::file::File as _;
use crate::gate::limit::RoundTicks;
use crate::report::{Distribution, Round, Status, Subject, Summary};
use jitterstat::stats::random::SplitMix64;

/// Number of rounds of a first look.
const ROUNDS: u64 = 20;
/// Number of ticks of a round.
const TICKS: u64 = 60;
const RULES: LookRules = LookRules { confidence: 0.99, max_stall_ns: None };
const RANGE: PeriodRange = PeriodRange { shortest_ns: 20_000, longest_ns: 2_000_000 };

/// Simulates the rounds of a ticker with exponential lateness, whose mean differs between rounds.
fn simulate(
    Step { period_ns, times }: Step,
    mean: f64,
    random: &mut SplitMix64,
) -> Vec<RoundTicks> {
    let mut unit = || (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
    let mut round = |index| {
        let scale = if unit() < 0.5 { 0.9 } else { 1.1 } * mean;
        let lateness_ns: Vec<i64> =
            (0..TICKS).map(|_| (-scale * (1.0 - unit()).ln()) as i64).collect();
        let summary = Summary {
            ticks: TICKS,
            delivered: TICKS,
            cpu_ns_per_tick: Some(10_000.0),
            ..Summary::default()
        };
        Round {
            index,
            cost_window_ns: Some(period_ns * (TICKS - 1)),
            cost_ticks: Some(TICKS - 1),
            lateness_ns,
            summary: Some(summary),
            ..Round::default()
        }
    };
    let rounds = (0..ROUNDS * times).map(&mut round).collect();
    let subject = Subject {
        summary: Some(Summary { lateness_ns: Distribution::default(), ..Summary::default() }),
        rounds,
        ..Subject::new("simulated", "simulated", period_ns, Status::Measured)
    };
    RoundTicks::from_subject(&subject).unwrap()
}

/// The 99th percentile of such ticks if the mean is 1.
fn p99_of_mean() -> f64 {
    let above = |x: f64| f64::midpoint((-x / 0.9).exp(), (-x / 1.1).exp());
    let (mut low, mut high) = (0.0, 50.0);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if above(middle) > 0.01 { low = middle } else { high = middle }
    }
    low
}

/// Performs a search without a time limit.
fn search(range: PeriodRange, mut look: impl FnMut(Step) -> Look) -> Vec<Look> {
    let mut looks = Vec::new();
    while let Some(step) = next_step(range, &looks) {
        looks.push(look(step));
    }
    looks
}

fn look(period_ns: u64, finding: Finding) -> Look {
    let (p50_ns, p99_ns, cpu_percent) = (None, None, None);
    Look {
        period_ns,
        rounds: 0,
        ticks: 0,
        finding: Some(finding),
        checks: Vec::new(),
        p50_ns,
        p99_ns,
        cpu_percent,
    }
}

/// Searches for limits from 30 us to 1.5 ms, one for each seed. Fails unless 95 % of the brackets
/// are right and narrow.
fn assert_limits_are_bracketed(seeds: impl ExactSizeIterator<Item = u64>) {
    let goals = [Goal::new("p99", Some(100_000.0)).unwrap()];
    let confidence = look_confidence(MAX_LOOKS, goals.len());
    let (searches, mut right, mut narrow) = (seeds.len(), 0, 0);
    for seed in seeds {
        let mut random = SplitMix64::new(seed);
        let limit_ns = 30_000.0 * 1.04_f64.powi(seed as i32);
        // The percentile equals the goal at the limit, and is half of it at twice the period.
        let mean = |period_ns: u64| 100_000.0 / p99_of_mean() * limit_ns / period_ns as f64;
        let looks = search(RANGE, |step| {
            Look::new(
                step.period_ns,
                &simulate(step, mean(step.period_ns), &mut random),
                &goals,
                LookRules { confidence, max_stall_ns: None },
            )
        });
        assert!(looks.len() <= MAX_LOOKS);
        let found = bracket(&looks);
        let (Some(low), Some(high)) = (found.broken_ns, found.kept_ns) else {
            panic!("{seed}: {found:?}")
        };
        right += usize::from(low as f64 <= limit_ns && limit_ns <= high as f64);
        narrow += usize::from(high as f64 / (low as f64) < 2.5);
    }
    println!("{right} of {searches} right, {narrow} within a factor of 2.5");
    assert!(right * 20 >= searches * 19, "{right} of {searches}");
    assert!(narrow * 20 >= searches * 19, "a wide bracket is useless: {narrow} of {searches}");
}

#[test]
fn searches_bracket_the_limit() {
    // Every eighth limit of the nightly test.
    assert_limits_are_bracketed((0..13_u8).map(|i| 8 * u64::from(i)));
}

mod nightly {
    use super::*;

    #[test]
    #[ignore = "nightly: 100 searches take a quarter of a minute"]
    fn searches_bracket_the_limit() {
        assert_limits_are_bracketed((0..100_u8).map(u64::from));
    }
}

#[test]
fn unseen_misses_remain_possible() {
    let goal = |percent| Goal::new("missed", Some(percent)).unwrap();
    let rounds =
        simulate(Step { period_ns: 1_000_000_000, times: 1 }, 10_000.0, &mut SplitMix64::new(1));
    let found = |percent| Look::new(1_000_000_000, &rounds, &[goal(percent)], RULES).finding;
    // None of 1,200 ticks was missed, so the share of missed ticks is at most 0.44 %.
    assert_eq!((found(0.4), found(0.5)), (Some(Finding::Open), Some(Finding::Kept)));
    assert_eq!(goal(0.5).least_ticks(0.99), 1_058);
    assert_eq!(least_ticks(&[goal(0.5), Goal::new("p99.9", Some(1.0)).unwrap()], 0.99), 10_000);
}

#[test]
fn rates_account_for_bursts() {
    const PERIOD_NS: u64 = 1_000_000;
    let goal = |percent| Goal { rate: true, ..Goal::new("missed", Some(percent)).unwrap() };
    let rounds =
        simulate(Step { period_ns: PERIOD_NS, times: 5 }, 10_000.0, &mut SplitMix64::new(1));
    let check = |percent, max_stall_ns| {
        let rules = LookRules { max_stall_ns, ..RULES };
        let look = Look::new(PERIOD_NS, &rounds, &[goal(percent)], rules);
        (look.finding.unwrap(), look.checks[0].interval.unwrap()[1])
    };
    // None of 6,000 ticks in 100 rounds was missed. 5.3 in 100 rounds may be lost as a whole.
    let (finding, upper) = check(5.0, None);
    assert!(finding == Finding::Open && (upper - 5.16).abs() < 0.01, "{upper}");
    assert_eq!(check(5.2, None).0, Finding::Kept);
    // A stall of 3 ms makes three ticks late.
    let (finding, upper) = check(0.27, Some(3_000_000));
    assert!(finding == Finding::Kept && (upper - 0.265).abs() < 0.001, "{upper}");
    assert_eq!([goal(5.2), goal(5.1)].map(|goal| goal.least_rounds(60, None, 0.99)), [100, 102]);
    assert_eq!(goal(0.27).least_rounds(60, Some(3), 0.99), 99);
    assert_eq!(Goal::new("missed", Some(5.0)).unwrap().least_rounds(60, None, 0.99), 0);
}

#[test]
fn all_goals_must_hold() {
    let rounds = simulate(Step { period_ns: 100_000, times: 1 }, 10_000.0, &mut SplitMix64::new(1));
    let found = |goals: &[(&str, f64)]| {
        let goals: Vec<Goal> =
            goals.iter().map(|(name, limit)| Goal::new(name, Some(*limit)).unwrap()).collect();
        Look::new(100_000, &rounds, &goals, RULES)
    };
    let (late, dear) = (("p99", 100_000.0), ("cpu", 9.9));
    assert_eq!(found(&[late]).finding, Some(Finding::Kept));
    assert_eq!(found(&[("cpu", 10.1)]).finding, Some(Finding::Kept));
    let both = found(&[late, dear]);
    assert_eq!((both.finding, both.checks[1].value), (Some(Finding::Broken), Some(10.0)));
    assert_eq!(both.cpu_percent, Some(10.0));
    assert_eq!(found(&[late, ("p99.99", 1e9)]).finding, Some(Finding::Open), "too few ticks");
    let promise = [Goal::new("p50", None).unwrap()];
    assert_eq!(Look::new(100_000, &rounds, &promise, RULES).finding, None);
    assert!(Goal::new("max", None).is_none());
}

#[test]
fn extreme_limits_need_only_coarse_looks() {
    for finding in [Finding::Kept, Finding::Broken] {
        let looks = search(RANGE, |step| look(step.period_ns, finding));
        assert_eq!(looks.len(), COARSE);
        let ends = [RANGE.longest_ns, RANGE.shortest_ns].map(Some);
        assert_eq!([looks.first(), looks.last()].map(|l| l.map(|l| l.period_ns)), ends);
    }
    let bracket_of = |finding| bracket(&search(RANGE, |step| look(step.period_ns, finding)));
    assert_eq!(
        bracket_of(Finding::Kept),
        Bracket { kept_ns: Some(RANGE.shortest_ns), ..Bracket::default() }
    );
    assert_eq!(
        bracket_of(Finding::Broken),
        Bracket { broken_ns: Some(RANGE.longest_ns), ..Bracket::default() }
    );
}

#[test]
fn open_periods_are_measured_again() {
    let run_search = |finding: &dyn Fn(Step) -> Finding| {
        let mut steps = Vec::new();
        let looks = search(RANGE, |step| {
            steps.push((step.period_ns, step.times));
            look(step.period_ns, finding(step))
        });
        (steps, bracket(&looks))
    };
    // If the goals hold nowhere so far, the longest period is first, then those with fewer looks.
    let (steps, found) = run_search(&|_| Finding::Open);
    let repeated =
        [(2_000_000, 4), (431_000, 4), (92_800, 4), (20_000, 4), (2_000_000, 16), (431_000, 16)];
    assert_eq!((&steps[COARSE..], found), (&repeated[..], Bracket::default()));
    // The second look with four times the ticks decides, and the search continues from there.
    let (steps, found) = run_search(&|step| match step.period_ns {
        2_000_000 if step.times == 1 => Finding::Open,
        2_000_000 => Finding::Kept,
        _ => Finding::Broken,
    });
    assert_eq!(steps[COARSE..COARSE + 2], [(2_000_000, 4), (928_000, 1)]);
    assert_eq!(found.kept_ns, Some(2_000_000));
    // Periods that are too close to the goal stay open.
    let ends = |ns: u64| {
        [(80_000, Finding::Broken), (120_000, Finding::Kept)].into_iter().find(|end| end.0 == ns)
    };
    let looks = search(
        PeriodRange { shortest_ns: 80_000, longest_ns: 120_000 },
        |Step { period_ns: ns, .. }| look(ns, ends(ns).map_or(Finding::Open, |e| e.1)),
    );
    let at = |ns| looks.iter().filter(|look| look.period_ns == ns).count();
    assert_eq!((looks.len(), [80_000, 91_600, 105_000, 120_000].map(at)), (8, [1, 3, 3, 1]));
}

#[test]
fn broken_longer_periods_are_reported() {
    let holds = |ns: u64| (100_000..1_000_000).contains(&ns);
    let finding = |ns| if holds(ns) { Finding::Kept } else { Finding::Broken };
    let looks = search(RANGE, |step| look(step.period_ns, finding(step.period_ns)));
    let found = bracket(&looks);
    assert!(found.broken_ns.unwrap() < 100_000 && found.kept_ns.unwrap() >= 100_000);
    assert_eq!(found.broken_above_ns, [RANGE.longest_ns]);
}

proptest! {
    #[test]
    fn exact_looks_give_narrow_brackets(limit_ns in 21_000_u64..1_900_000) {
        let looks = search(RANGE, |Step { period_ns: ns, .. }| {
            look(ns, if ns < limit_ns { Finding::Broken } else { Finding::Kept })
        });
        let found = bracket(&looks);
        let (low, high) = (found.broken_ns.unwrap(), found.kept_ns.unwrap());
        prop_assert!(low < limit_ns && limit_ns <= high && (high as f64) < low as f64 * 1.06, "{low} {high}");
        let mut periods: Vec<u64> = looks.iter().map(|l| l.period_ns).collect();
        periods.sort_unstable();
        periods.dedup();
        prop_assert_eq!(periods.len(), looks.len(), "no period twice");
    }

    #[test]
    fn open_periods_are_narrowed_in(limit_ns in 60_000_u64..900_000, width in 1.0_f64..1.6) {
        let open = |ns: u64| (ns as f64 / limit_ns as f64).max(limit_ns as f64 / ns as f64) < width;
        let looks = search(RANGE, |Step { period_ns: ns, .. }| look(ns, match () {
            () if open(ns) => Finding::Open,
            () if ns < limit_ns => Finding::Broken,
            () => Finding::Kept,
        }));
        let found = bracket(&looks);
        let (low, high) = (found.broken_ns.unwrap() as f64, found.kept_ns.unwrap() as f64);
        prop_assert!(low / 1.001 <= limit_ns as f64 && limit_ns as f64 <= high * 1.001);
        prop_assert!(high / low < width * width * 2.0, "{low} {high}");
    }
}

/// Returns the result of a search with a goal of punctuality and one of cost, whose looks have
/// these findings, a pair per ticker.
fn found(tickers: &[(&str, Finding, Finding)], control: Option<Finding>) -> Find {
    let text = include_str!("../../../../../fuzz/corpus/find/find.json");
    let mut find = Find::from_json(text).unwrap();
    find.goals = vec![Goal::new("p99", Some(1e6)).unwrap(), Goal::new("cpu", Some(1.0)).unwrap()];
    let template = find.tickers[0].clone();
    let ticker = |name: &str, punctuality: Finding, cost: Finding| {
        let check = |finding| Check { value: Some(1.0), interval: None, finding: Some(finding) };
        let look =
            Look { checks: vec![check(punctuality), check(cost)], ..template.looks[0].clone() };
        let has_kept = (punctuality, cost) == (Finding::Kept, Finding::Kept);
        let kept_ns = has_kept.then_some(look.period_ns);
        Ticker { subject: name.to_owned(), kept_ns, looks: vec![look], ..template.clone() }
    };
    find.tickers = tickers.iter().map(|(name, late, cost)| ticker(name, *late, *cost)).collect();
    find.control = control.map(|finding| ticker("spin", finding, Finding::Broken));
    find
}

#[test]
fn late_control_leaves_no_answer() {
    use Finding::{Broken, Kept, Open};
    let failed = |tickers: &[(&str, Finding, Finding)], control| {
        found(tickers, control).failed_control().map(|control| control.subject.clone())
    };
    let late = ("os-interval", Broken, Kept);
    assert_eq!(failed(&[late, ("nanosleep", Broken, Kept)], None).as_deref(), Some("nanosleep"));
    assert_eq!(failed(&[late], Some(Broken)).as_deref(), Some("spin"));
    assert_eq!(failed(&[late], Some(Kept)), None, "the control spins at any cost");
    assert_eq!(failed(&[late, ("nanosleep", Kept, Broken)], None), None, "cost is no lateness");
    assert_eq!(failed(&[late, ("nanosleep", Open, Kept)], Some(Open)), None);
    assert_eq!(failed(&[late], None), None);
    let answered = [late, ("tokio-interval", Kept, Kept), ("nanosleep", Broken, Kept)];
    assert_eq!(failed(&answered, Some(Broken)), None, "a ticker has an answer");
    let sleeping = [("nanosleep", Broken, Kept)];
    assert_eq!(failed(&sleeping, Some(Kept)), None, "it is the question");
    assert_eq!(failed(&sleeping, Some(Broken)).as_deref(), Some("spin"));
    let spinning = |punctuality| failed(&[("spin", punctuality, Kept)], None);
    assert_eq!(spinning(Broken).as_deref(), Some("spin"), "alone, it still shows the machine");
    assert_eq!([spinning(Kept), spinning(Open)], [None, None]);
    let unmeasured = |tickers: &[(&str, Finding, Finding)]| {
        let mut find = found(tickers, Some(Kept));
        let control = find.control.as_mut().unwrap();
        (control.looks, control.failure) = (Vec::new(), Some("excluded".to_owned()));
        find.failed_control().is_some()
    };
    assert!(unmeasured(&[late]) && !unmeasured(&answered));
    let slept = [("nanosleep", Kept, Kept), ("spin", Broken, Kept)];
    assert_eq!(failed(&slept, None), None, "the ticker in question has an answer");
}
