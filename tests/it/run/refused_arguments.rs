//! Tests of arguments that are refused.

use super::run;
use crate::fixtures::fixture;
use crate::osjitter::Osjitter;

#[test]
fn invalid_arguments_write_nothing() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("plan.toml"), "[defaults]\nsubjekt = \"spin\"\n").unwrap();
    std::fs::write(home.path().join("newer.json"), "{\"schema\": \"osjitter.report/99\"}").unwrap();
    std::fs::copy(fixture("report.json"), home.path().join("report.json")).unwrap();
    for (line, expected) in [
        ("run --period 0us", "'--period <DURATION>': invalid period 0us: expected 1us to 1h"),
        ("run --period -5us", "'--period <DURATION>': \"-5us\" is negative"),
        ("run --period 500", "no unit"),
        (
            "run --period 0",
            "for '--period <DURATION>': \"0\" has no unit; write for example 500us, 500ms or 500s",
        ),
        ("run --period 2h", "outside 1us to 1h"),
        ("run --ticks 0", "at least 1"),
        ("run --ticks 5 --duration 1s", "cannot be used with"),
        ("run --duration 1ms --period 2ms", "--duration 1ms contains no tick of --period 2ms"),
        ("run --ticks 18000000000000000000", "fewer --ticks"),
        ("run --warmup few", "for '--warmup <N>': \"few\" is not a whole number, such as 0 or 20"),
        ("run --seed x", "for '--seed <N>': \"x\" is not a whole number; give one from 0 to "),
        (
            "run --subject tokio-intervall",
            "'--subject <NAME>': unknown subject \"tokio-intervall\"; did you mean tokio-interval?",
        ),
        ("run --plan plan.toml", "plan.toml:2:1: unknown field `subjekt`"),
        ("run --plan newer.json", "schema \"osjitter.report/99\" is not known"),
        ("run --plan no-such-file.toml", "the plan: cannot read"),
        ("run --timer-slack -1us", "'--timer-slack <DURATION>': \"-1us\" is negative"),
        #[cfg(target_os = "linux")]
        ("run --timer-slack 0s", "cannot set the timer slack to 0ns: the kernel made "),
        ("run --instances 0", "at least 1"),
        ("run --instances 100001", "1 to 100000"),
        ("run --cpu 100000", "CPU 100000"),
        ("run --cpu x", "invalid value 'x' for '--cpu <N>': \"x\" is not a number such as 0 or 3"),
        (
            "run --sched fifo:100",
            "'--sched <CLASS>': unknown scheduling class \"fifo:100\": expected other, fifo:N or rr:N with a priority from 1 to 99",
        ),
        (
            "run --runtime green-threads",
            "'--runtime <KIND>': unknown runtime \"green-threads\": expected current-thread",
        ),
        ("run --out /proc/no-such-place", "--out"),
        ("run --subject nanosleep --instances 3", "--instances is for tokio subjects"),
        ("run --subject spin --runtime multi-thread", "--runtime is for tokio subjects"),
        (
            "gate --limit p99=1ms --subject spin --tolerance p50=9%",
            "--tolerance is for two sides or --baseline",
        ),
        (
            "gate --limit p99=1ms --subject spin --max-time 1s",
            "--max-time is for two sides or --baseline",
        ),
        (
            "gate --limit max=1ms --report report.json --subject nanosleep --cpu 0",
            "--cpu is for a measurement",
        ),
        (
            "gate --limit max=1ms --report report.json --subject nanosleep --seed 7",
            "--seed is for a measurement",
        ),
        ("gate --a spin --b spin --runtime multi-thread", "--runtime is for tokio subjects"),
        ("gate --limit p99=1s --subject spin --runtime multi-thread", "--runtime is for tokio"),
        ("calibrate --subject spin --runtime multi-thread", "--runtime is for tokio subjects"),
        (
            "find --subject nanosleep --goal p99=1ms --runtime multi-thread",
            "--runtime is for tokio",
        ),
        ("monitor --subject nanosleep --runtime multi-thread --listen 0", "--runtime is for tokio"),
        ("monitor --subject nanosleep --limit p99=1ms --host zz", "--log <DIR>"),
        ("gate --max-pairs 3", "for '--max-pairs <N>': 3 is outside 24 to 6400"),
        ("history --kind x", "for '--kind <N>': \"x\" is not a number such as 0 or 3"),
    ] {
        Osjitter::new(line.split(' ')).directory(home.path()).run().refuses(expected);
        assert!(!home.path().join("results").exists(), "{line} left something behind");
    }
}

#[test]
fn counts_can_have_suffixes() {
    let plan = run(&["--ticks", "10k", "--print-plan", "--subject", "spin"]).run().exits(0).stdout;
    assert!(plan.contains("ticks = 10000"), "{plan}");
}
