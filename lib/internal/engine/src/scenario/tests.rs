use proptest::prelude::*;

use super::*;
use crate::subject;

fn args_for(subject: &str) -> ScenarioArgs {
    ScenarioArgs { subjects: subject.parse::<Subjects>().unwrap().0, ..ScenarioArgs::default() }
}

#[test]
fn rounds_follow_the_ticks() {
    for (ticks, period_us, round, warmup) in
        [(10_000, 500, 250, 20), (100, 500, 10, 20), (5, 1_000, 1, 10), (10_000, 100_000, 10, 3)]
    {
        let length = Some(Length::Ticks(ticks));
        let s = ScenarioArgs {
            length,
            periods: vec![Duration::from_micros(period_us)],
            ..args_for("spin")
        }
        .single_scenario()
        .unwrap();
        assert_eq!((s.round_ticks, s.warmup_ticks), (round, warmup), "{ticks} at {period_us} us");
        let sum: u64 = (0..s.rounds()).map(|i| s.ticks_of_round(i)).sum();
        assert_eq!(sum, ticks);
    }
}

#[test]
fn round_counts_give_full_rounds() {
    let lengths = |rounds, round_ticks, period_ms| {
        let (length, periods) =
            (Some(Length::Rounds(rounds)), vec![Duration::from_millis(period_ms)]);
        let s = ScenarioArgs { length, round_ticks, periods, ..args_for("spin") }
            .single_scenario()
            .unwrap();
        (s.round_ticks, s.rounds(), s.ticks)
    };
    assert_eq!(lengths(24, None, 1), (250, 24, 6_000));
    assert_eq!(lengths(24, Some(10), 1), (10, 24, 240));
    assert_eq!(lengths(3, None, 100), (10, 3, 30), "no longer than a second");
}

#[test]
fn round_lengths_match_long_runs() {
    for (round_ticks, warmup, period_us) in [
        (None, None, 500),
        (Some(7), None, 500),
        (None, Some(0), 1),
        (Some(1_000), Some(9), 100_000),
        (None, None, 3_000_000),
    ] {
        let period = Duration::from_micros(period_us);
        let (length, periods) = (Some(Length::Rounds(u64::MAX)), vec![period]);
        let args = ScenarioArgs { length, round_ticks, warmup, periods, ..args_for("spin") };
        let scenario = args.single_scenario().unwrap();
        let round = RoundLength::new(period, round_ticks, warmup).unwrap();
        assert_eq!(scenario.round_length(), round);
        assert_eq!(u128::from(round.period_ns()), period.as_nanos());
    }
    let refused = |period_us, ticks| {
        let period = Duration::from_micros(period_us);
        RoundLength::new(period, ticks, None).unwrap_err().to_string()
    };
    assert!(refused(0, None).contains("--period"));
    assert!(refused(500, Some(0)).contains("invalid --round-ticks 0"));
    assert!(refused(500, Some(u64::MAX)).contains("longer than a year"));
}

#[test]
fn twins_are_numbered() {
    let [first, second] = [5, 6].map(|n| {
        ScenarioArgs { length: Some(Length::Ticks(n)), ..args_for("spin") }
            .single_scenario()
            .unwrap()
    });
    let ids: Vec<String> = deduplicate(vec![first.clone(), second.clone(), first, second])
        .into_iter()
        .map(|s| s.id)
        .collect();
    assert_eq!(ids, ["spin@500us", "spin@500us#2"]);
}

#[test]
fn bare_threads_ignore_the_runtime() {
    let many = ScenarioArgs {
        runtimes: vec![Runtime::CurrentThread, Runtime::MultiThread(1)],
        ..args_for("spin")
    };
    assert_eq!(many.scenarios().unwrap().len(), 1, "a bare thread has no runtime");
}

#[test]
fn task_loads_need_a_runtime() {
    let loads = ["none", "cpu:2", "tasks:3x50us"].map(|text| text.parse().unwrap()).to_vec();
    let ids = |subjects: &str| {
        let args = ScenarioArgs { loads: loads.clone(), ..args_for(subjects) };
        args.scenarios().map(|scenarios| scenarios.into_iter().map(|s| s.id).collect::<Vec<_>>())
    };
    let tokio = "tokio-interval@500us/current-thread";
    let expected = [tokio.to_owned(), format!("{tokio}+cpu:2"), format!("{tokio}+tasks:3x50us")];
    assert_eq!(ids("tokio-interval").unwrap(), expected);
    assert!(ids("spin").unwrap_err().to_string().contains("none of these subjects has one"));
    let mixed = ids("*n*").unwrap();
    assert_eq!(
        mixed.iter().filter(|id| id.starts_with("spin")).collect::<Vec<_>>(),
        ["spin@500us", "spin@500us+cpu:2"]
    );
}

#[test]
fn invalid_lengths_are_rejected() {
    let hour = Duration::from_secs(3600);
    let error = |args: ScenarioArgs| args.scenarios().unwrap_err().to_string();
    let ticks = |n| Some(Length::Ticks(n));
    assert!(
        error(ScenarioArgs { length: ticks(0), ..args_for("spin") })
            .starts_with("invalid --ticks 0")
    );
    assert!(
        error(ScenarioArgs { round_ticks: Some(0), ..args_for("spin") })
            .starts_with("invalid --round-ticks 0")
    );
    assert!(
        error(ScenarioArgs { periods: vec![Duration::ZERO], ..args_for("spin") })
            .contains("expected 1us to 1h")
    );
    let time = Some(Length::Time(Duration::from_micros(499)));
    assert!(
        error(ScenarioArgs { length: time, ..args_for("spin") })
            .contains("499us contains no tick of --period 500us")
    );
    let long = ScenarioArgs {
        length: ticks(10_000),
        round_ticks: Some(9_000),
        periods: vec![hour],
        ..args_for("spin")
    };
    assert!(error(long).contains("longer than a year"));
}

#[test]
fn unknown_subjects_suggest_similar_names() {
    let error = "tokio-intervall".parse::<Subjects>().unwrap_err().to_string();
    assert!(error.contains("did you mean tokio-interval?"), "{error}");
    for written in ["Tokio", "tokyo", "TOKIO-*"] {
        let error = written.parse::<Subjects>().unwrap_err().to_string();
        assert!(error.contains("did you mean tokio-interval, "), "{error}");
    }
    let several = "spin,nanosleep".parse::<Subjects>().unwrap_err().to_string();
    assert!(several.contains("expected one name; repeat --subject for several"), "{several}");
    let far = "wibble".parse::<Subjects>().unwrap_err().to_string();
    assert_eq!(far, "unknown subject \"wibble\"; `osjitter list` shows all");
    assert_eq!("*sleep*".parse::<Subjects>().unwrap().0.len(), 5);
    let available = subject::ALL.iter().filter(|e| subject::check_available(e).is_ok());
    assert_eq!("all".parse::<Subjects>().unwrap().0.len(), available.count());
    assert_eq!(parse_subject("spi?").unwrap().name, "spin");
    assert!(parse_subject("tokio-*").unwrap_err().to_string().contains("several subjects"));
}

#[test]
fn many_stars_match_quickly() {
    let (pattern, name) = (format!("{}z", "*a".repeat(40)), "a".repeat(4_000));
    assert!(!matches_glob(&pattern, &name) && matches_glob(&pattern[..80], &name));
}

proptest! {
    #[test]
    fn globs_match_their_definition(pattern in "[ab*?]{0,8}", name in "[ab]{0,8}") {
        fn by_definition(pattern: &[u8], name: &[u8]) -> bool {
            match (pattern, name) {
                ([], _) => name.is_empty(),
                ([b'*', rest @ ..], _) => (0..=name.len()).any(|n| by_definition(rest, &name[n..])),
                ([p, pattern @ ..], [c, name @ ..]) => (*p == b'?' || p == c) && by_definition(pattern, name),
                _ => false,
            }
        }
        prop_assert_eq!(matches_glob(&pattern, &name), by_definition(pattern.as_bytes(), name.as_bytes()));
    }

    #[test]
    fn runtimes_parse_back(workers in 1..=MAX_WORKERS) {
        for runtime in [Runtime::CurrentThread, Runtime::MultiThread(workers)] {
            prop_assert_eq!(runtime.to_string().parse().ok(), Some(runtime));
        }
    }
}
