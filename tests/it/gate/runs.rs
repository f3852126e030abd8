//! Tests of whole runs, judged by metrics of the system and by metrics that the programs write.
#![cfg(unix)]

use std::path::{Path, PathBuf};
use std::process::Command;

use files::compare::{Comparison, Finding, Method};
use files::file::File as _;
use files::gate::verdict::RunsVerdict;
#[cfg(target_os = "linux")]
use files::report::Warning;
use jitterstat::gate::decision::{Outcome, Reason};

use super::Gate;
use crate::osjitter::{Osjitter, run_long_enough};
use crate::schema;

const PAIRS: [&str; 2] = ["--max-pairs", "24"];

/// Two shell scripts in a directory, which they find as `$HOME_OF_TEST`.
pub struct ScriptPair {
    home: tempfile::TempDir,
}

impl ScriptPair {
    pub fn new(a: &str, b: &str) -> Self {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join("a"), a).unwrap();
        std::fs::write(home.path().join("b"), b).unwrap();
        Self { home }
    }

    /// Creates scripts that write the given lines after the header.
    fn writing(a: &str, b: &str) -> Self {
        let script =
            |lines: &str| format!("printf 'osjitter.series/1\\n{lines}' >\"$OSJITTER_OUT\"\n");
        Self::new(&script(a), &script(b))
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    fn command(&self, name: &str) -> String {
        format!("sh '{}'", self.path(name).display())
    }

    pub fn gate(&self, args: &[&str]) -> Gate {
        Gate::from_ran(self.command_line(&[&PAIRS, args].concat()).run())
    }

    /// Gates the scripts with the number of pairs that the arguments give.
    pub fn gate_pairs(&self, args: &[&str]) -> Gate {
        Gate::from_ran(self.command_line(args).run())
    }

    fn command_line(&self, args: &[&str]) -> Osjitter {
        let (a, b) = (self.command("a"), self.command("b"));
        let sides = ["--base-cmd", &a, "--candidate-cmd", &b, "--min-run-time", "0us"];
        super::gate(&[&sides[..], args].concat()).env("HOME_OF_TEST", self.home.path())
    }

    /// Screens the scripts, with as many pairs as fit into its time.
    pub fn screen(&self, args: &[&str]) -> Gate {
        let (a, b) = (self.command("a"), self.command("b"));
        let sides = ["--base-cmd", &a, "--candidate-cmd", &b, "--min-run-time", "0us", "--screen"];
        let command = super::gate(&[&sides[..], args].concat());
        Gate::from_ran(command.env("HOME_OF_TEST", self.home.path()).run())
    }

    #[track_caller]
    pub fn refuses(&self, args: &[&str], says: &str) {
        self.gate(args).refuses(says);
    }

    /// Checks that the scripts are refused if they have these arguments.
    #[track_caller]
    pub fn refuses_command(&self, arguments: &str, args: &[&str], says: &str) {
        let command = |name| format!("{} {arguments}", self.command(name));
        let (a, b) = (command("a"), command("b"));
        let command = super::gate(&[&["--base-cmd", &a, "--candidate-cmd", &b], args].concat());
        Gate::from_ran(command.env("HOME_OF_TEST", self.home.path()).run()).refuses(says);
    }
}

#[track_caller]
pub fn runs(gate: &Gate) -> &RunsVerdict {
    let verdict = gate.verdict();
    assert!(verdict.comparisons.is_empty(), "whole runs are not judged by lateness");
    verdict.runs.as_ref().expect("a verdict about whole runs")
}

/// Counts the runs in `n`.
pub const COUNTED: &str =
    "n=$(cat \"$HOME_OF_TEST/n\" 2>/dev/null || echo 0); echo $((n + 1)) >\"$HOME_OF_TEST/n\"\n";

/// Binds the parent process to a CPU in one run, and to all of its CPUs in a later one.
#[cfg(target_os = "linux")]
fn bound_in_runs(first: u32, unbound: u32) -> String {
    format!(
        r#"cpus=$(taskset -cp $PPID); cpus=${{cpus##*: }}
        bind() {{ taskset -cp "$1" $PPID >/dev/null; }}
        case $n in
            {first}) echo "$cpus" >"$HOME_OF_TEST/cpus"; bind "${{cpus%%[-,]*}}";;
            {unbound}) bind "$(cat "$HOME_OF_TEST/cpus")";;
        esac
        "#
    )
}

/// The first pair consists of runs 2 and 3.
#[cfg(target_os = "linux")]
#[test]
fn pairs_with_changed_settings_are_excluded() {
    const NEVER: u32 = 1_000;
    if std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() == 1) {
        return;
    }
    for (unbound, code, pairs, excluded) in [(10, 0, 24, "1 pair"), (NEVER, 4, 3, "6 pairs")] {
        let script = format!("{COUNTED}{}", bound_in_runs(8, unbound));
        let scripts = ScriptPair::new(&script, &script);
        let gate = scripts.gate(&["--metric", "wall", "--tolerance", "wall=900%"]).exits(code);
        let verdict = gate.verdict();
        assert_eq!(runs(&gate).pairs, pairs, "{}", gate.ran.stdout);
        let says = format!("{excluded} of runs left out: the CPU affinity was changed from ");
        let is_warned = |warning: &Warning| {
            warning.code == "settings-changed" && warning.message.starts_with(&says)
        };
        assert!(verdict.warnings.iter().any(is_warned), "{:?}", verdict.warnings);
        let failure = verdict.failure.as_deref().unwrap_or_default();
        let says = "too many pairs ran with a changed setting: CPU affinity";
        assert_eq!(failure.contains(says), code == 4, "{failure}");
    }

    // The excluded pair follows the first look, which must not be repeated.
    let value = "printf 'osjitter.series/1\\nmetric work u lower\\nwork %d\\n' \
                 $((100 + n * 37 % 50)) >\"$OSJITTER_OUT\"\n";
    let script = format!("{COUNTED}{}{value}", bound_in_runs(50, 52));
    let args = ["--metric", "work", "--max-pairs", "50"];
    let gate = ScriptPair::new(&script, &script).gate_pairs(&args).exits(0);
    let found = runs(&gate);
    let seen = (found.verdict, found.pairs, found.looks_taken, gate.verdict().warnings.len());
    assert_eq!(seen, (Outcome::Inconclusive, 50, 2, 1), "{}", gate.ran.stdout);
}

#[test]
fn metrics_are_judged_by_direction() {
    use Outcome::{Improved, Pass, Regressed};
    let throughput =
        |value: &str| format!("metric throughput req/s higher\\nthroughput {value}\\n");
    for (a, b, args, code, outcome) in [
        ("1000", "980", &[][..], 0, Pass),
        ("1000", "900", &[], 1, Regressed),
        ("1000", "1100", &[], 0, Improved),
        ("1000", "900", &["--tolerance", "throughput=15%"], 0, Pass),
        ("1000", "600", &["--tolerance", "throughput=15%"], 1, Regressed),
    ] {
        let sides = ScriptPair::writing(&throughput(a), &throughput(b));
        let gate = sides.gate(&[&["--metric", "throughput"], args].concat()).exits(code);
        let found = runs(&gate);
        assert_eq!(
            (found.verdict, found.reason, found.pairs),
            (outcome, None, 24),
            "{a} {b}: {}",
            gate.ran.stdout
        );
        let [metric] = &found.metrics[..] else { panic!("{}", gate.ran.stdout) };
        let (a, b): (f64, f64) = (a.parse().unwrap(), b.parse().unwrap());
        assert_eq!((metric.unit.as_str(), metric.higher_is_better), ("req/s", true));
        assert!(
            (metric.a / a - 1.0).abs() < 1e-9 && (metric.b / b - 1.0).abs() < 1e-9,
            "{metric:?}"
        );
        assert!(
            (metric.judged.ratio.unwrap() - b / a).abs() < 1e-9
                && metric.values == vec![[a, b]; 24]
        );
        assert!(
            gate.ran.stdout.contains("throughput") && gate.ran.stdout.contains("1000 req/s"),
            "{}",
            gate.ran.stdout
        );
    }
}

#[test]
fn named_tolerances_hold_in_any_order() {
    let sides =
        ScriptPair::writing("metric lat u lower\\nlat 100\\n", "metric lat u lower\\nlat 120\\n");
    for tolerances in [["lat=10%", "50%"], ["50%", "lat=10%"]] {
        let [first, second] = tolerances;
        let args = ["--metric", "lat", "--tolerance", first, "--tolerance", second];
        let gate = sides.gate(&args).exits(1);
        let found = &runs(&gate).metrics[0].judged;
        assert_eq!(format!("{:.3}", found.tolerated_ratio), "1.100", "{tolerances:?}");
    }
    // A general tolerance can be one for the metrics that may rise alone.
    let lines = "metric lat u lower\\nmetric rate /s higher\\nlat 100\\nrate 100\\n";
    let metrics = ["--metric", "lat", "--metric", "rate"];
    let tolerances = ["--tolerance", "200%", "--tolerance", "rate=20%"];
    let sides = ScriptPair::writing(lines, lines);
    sides.gate(&[&metrics[..], &tolerances].concat()).exits(0);
}

#[test]
fn floors_have_the_unit_of_times() {
    for (unit, base) in [("ns", 1e5), ("us", 1e2), ("\u{b5}s", 1e2), ("ms", 0.1), ("s", 1e-4)] {
        let side = |value: f64| format!("metric lat {unit} lower\\nlat {value}\\n");
        let sides = ScriptPair::writing(&side(base), &side(base * 1.2));
        sides.gate(&["--metric", "lat", "--floor", "50us"]).exits(0);
        sides.gate(&["--metric", "lat", "--floor", "10us"]).exits(1);
    }
    let size = "metric size bytes lower\\nsize 100\\nmetric rate s higher\\nrate 5\\n";
    let metrics = ["--metric", "size", "--metric", "rate"];
    let sides = ScriptPair::writing(size, size);
    let floor = |floor| [&metrics[..], &["--floor", floor]].concat();
    for (value, is_noted) in [("1ns", true), ("0ns", false)] {
        let gate = sides.gate(&floor(value)).exits(0);
        let says = "--floor has no effect: it applies to times in ns, us, ms or s";
        assert_eq!(gate.ran.stderr.contains(says), is_noted, "{}", gate.ran.stderr);
    }
    // A default of a project applies to the metrics that are times.
    let settings = sides.path("osjitter.toml");
    std::fs::write(&settings, "[gate]\nfloor = \"1ns\"\n").unwrap();
    let config = ["--config", settings.to_str().unwrap()];
    let gate = sides.gate(&[&metrics[..], &config].concat()).exits(0);
    assert!(!gate.ran.stderr.contains("--floor has no effect"), "{}", gate.ran.stderr);
}

#[test]
fn sides_may_write_different_counts() {
    let side = |count: usize| format!("metric lat us lower\\n{}", "lat 9\\n".repeat(count));
    let sides = ScriptPair::writing(&side(100), &side(600));
    let gate = sides.gate(&["--metric", "lat"]).exits(0);
    let names: Vec<&str> = runs(&gate).metrics.iter().map(|m| m.name.as_str()).collect();
    // A tail that both sides have.
    assert_eq!(names, ["lat:p50", "lat:p95"]);
    assert!(runs(&gate).metrics.iter().all(|metric| metric.values.len() == 24));
}

#[test]
fn metrics_of_the_system_keep_names() {
    let side = |value: &str| format!("metric cpu percent lower\\ncpu {value}\\n");
    let sides = ScriptPair::writing(&side("10"), &side("90"));
    let says =
        "it declares the metric \"cpu\" in OSJITTER_OUT, and --metric cpu is that of the system";
    sides.refuses(&["--metric", "cpu"], says);
    let gate = sides.gate(&["--metric", "cpu:p50"]).exits(1);
    assert_eq!(runs(&gate).metrics[0].values[0], [10.0, 90.0]);
    // No other metric of the system is meant.
    sides.gate(&["--metric", "wall", "--tolerance", "9000%"]).exits(0);
}

/// A candidate that leaves its work to a process in the background does less only by its metrics.
#[cfg(target_os = "linux")]
#[test]
fn work_in_the_background_is_reported() {
    let value = |value: u32| {
        format!(
            "printf 'osjitter.series/1\\nmetric work u lower\\nwork {value}\\n' >\"$OSJITTER_OUT\"\n"
        )
    };
    let waits = |work| value(work);
    let leaves = |work| format!("{}sleep 600 &", value(work));
    let doubtful = (Outcome::Inconclusive, Some(Reason::LeftOverProcesses));
    for (a, b, (left_a, left_b), expected) in [
        (waits(9), waits(9), (0, 0), (Outcome::Pass, None)),
        (waits(9), leaves(9), (0, 24), doubtful),
        (waits(9), leaves(5), (0, 24), doubtful),
        (waits(5), leaves(9), (0, 24), (Outcome::Regressed, None)),
        (leaves(9), leaves(5), (24, 24), (Outcome::Improved, None)),
        (leaves(9), waits(5), (24, 0), (Outcome::Improved, None)),
        (leaves(5), waits(9), (24, 0), doubtful),
    ] {
        let gate = ScriptPair::new(&a, &b).gate(&["--metric", "work"]);
        let verdict = gate.verdict();
        assert_eq!((verdict.verdict, verdict.reason), expected, "{}", gate.ran.stdout);
        let metric = &runs(&gate).metrics[0].judged;
        assert_eq!((metric.verdict, metric.reason), expected, "{}", gate.ran.stdout);
        let pairs = runs(&gate).pairs;
        let left = verdict.left_over.unwrap_or_default();
        let expected = [left_a, left_b].map(|count: u64| count / 24 * pairs);
        assert_eq!([left.a, left.b], expected, "{}", gate.ran.stdout);
        let is_left_over = |warning: &Warning| warning.code == "left-over-processes";
        let is_expected = left_a + left_b > 0;
        assert_eq!(verdict.warnings.iter().any(is_left_over), is_expected);
        assert_eq!(gate.ran.stdout.contains("had exited"), is_expected, "{}", gate.ran.stdout);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn left_over_is_counted_by_owner() {
    let sides = ScriptPair::new("sleep 0.01", "sleep 0.01");
    let prepare = "sh -c 'sleep 600 &'";
    let gate = sides.gate(&["--metric", "wall", "--prepare", prepare]);
    let left = gate.verdict().left_over.expect("processes of the preparation");
    assert_eq!((left.a, left.b, left.prepare), (0, 0, 2 * runs(&gate).pairs));
}

#[test]
fn samples_are_judged_by_percentiles() {
    let samples = |tail: u32| -> String {
        (0..200)
            .map(|i| format!("latency {}\\n", if i >= 190 { tail } else { 1_000_000 }))
            .collect()
    };
    let side = |tail| {
        format!(
            "metric latency ns lower\\nmetric size bytes lower\\nsize 5000000\\n{}",
            samples(tail)
        )
    };
    let sides = ScriptPair::writing(&side(5_000_000), &side(9_000_000));
    for format in ["table", "markdown", "junit"] {
        let args = [
            "--metric", "latency", "--metric", "size", "--metric", "latency:p90", "--format",
            format,
        ];
        let gate = sides.gate(&args).exits(1);
        let found = runs(&gate);
        let names: Vec<(&str, Outcome)> =
            found.metrics.iter().map(|m| (m.name.as_str(), m.judged.verdict)).collect();
        let expected = [
            ("latency:p50", Outcome::Pass),
            ("latency:p99", Outcome::Regressed),
            ("size", Outcome::Pass),
            ("latency:p90", Outcome::Pass),
        ];
        assert_eq!((names.as_slice(), found.plan.alpha), (&expected[..], 0.005));
        let tolerated: Vec<f64> =
            found.metrics.iter().map(|m| (m.judged.tolerated_ratio * 1e3).round()).collect();
        assert_eq!(tolerated, [1_050.0, 1_200.0, 1_050.0, 1_200.0]);
        let says = match format {
            "junit" => "tests=\"4\" failures=\"1\"",
            "markdown" => "| latency:p99 | 5.00 ms | 9.00 ms | +80.0 % |",
            _ => "24 pairs of runs, 1 look",
        };
        assert!(gate.ran.stdout.contains(says), "{}", gate.ran.stdout);
    }
}

/// The work of a script's children.
struct ChildWork {
    sleep_ms: u32,
    loops: u32,
    megabytes: u32,
}

impl ChildWork {
    fn script(&self) -> String {
        let Self { sleep_ms, loops, megabytes } = self;
        format!(
            "sleep 0.{sleep_ms:03}\nsh -c 'i=0; while [ $i -lt {loops} ]; do i=$((i + 1)); done'\n\
             head -c {megabytes}M /dev/zero | tail -c {megabytes}M >/dev/null\n"
        )
    }

    /// Returns the minimum of a metric in a run, in its unit.
    fn min_value(&self, metric: &str) -> f64 {
        match metric {
            "wall" => f64::from(self.sleep_ms) * 1e6,
            "max-rss" => f64::from(self.megabytes << 20),
            _ => 0.0,
        }
    }
}

/// Checks that a gate detects that the candidate's children use more time and memory than those of
/// the base.
#[track_caller]
fn assert_children_are_measured(base: &ChildWork, candidate: &ChildWork) {
    let sides = ScriptPair::new(&base.script(), &candidate.script());
    let gate = sides.gate(&["--metric", "wall", "--metric", "cpu", "--metric", "max-rss"]).exits(1);
    let found = runs(&gate);
    let seen: Vec<_> = found
        .metrics
        .iter()
        .map(|m| (m.name.as_str(), m.unit.as_str(), m.judged.verdict))
        .collect();
    let expected = [("wall", "ns"), ("cpu", "ns"), ("max-rss", "bytes")]
        .map(|(n, u)| (n, u, Outcome::Regressed));
    assert_eq!(seen, expected, "{}", gate.ran.stdout);
    for metric in &found.metrics {
        let (min_base, min_candidate) =
            (base.min_value(&metric.name), candidate.min_value(&metric.name));
        for pair in &metric.values {
            assert!(pair[0] >= min_base && pair[1] >= min_candidate, "{}: {pair:?}", metric.name);
        }
    }
}

#[test]
fn children_count_in_every_metric() {
    let base = ChildWork { sleep_ms: 10, loops: 2_000, megabytes: 50 };
    let candidate = ChildWork { sleep_ms: 400, loops: 50_000, megabytes: 80 };
    assert_children_are_measured(&base, &candidate);
}

mod nightly {
    use super::*;

    #[test]
    #[ignore = "nightly: 50 runs of up to half a second"]
    fn children_count_in_every_metric() {
        let base = ChildWork { sleep_ms: 50, loops: 2_000, megabytes: 90 };
        let candidate = ChildWork { sleep_ms: 200, loops: 50_000, megabytes: 140 };
        assert_children_are_measured(&base, &candidate);
    }
}

#[test]
fn instructions_are_judged_if_counted() {
    let work = |rounds: u32| format!("i=0; while [ $i -lt {rounds} ]; do i=$((i + 1)); done");
    // At least 50 ms, so that the start of the shell is a small part.
    let sides = ScriptPair::new(&work(100_000), &work(200_000));
    let gate = sides.gate(&["--metric", "instructions"]);
    if gate.ran.code == 2 {
        gate.refuses("instructions cannot be counted");
    } else {
        let gate = gate.exits(1);
        let found = runs(&gate);
        let seen = &found.metrics[0];
        assert_eq!((seen.name.as_str(), seen.unit.as_str()), ("instructions", "instructions"));
        assert_eq!(seen.judged.verdict, Outcome::Regressed);
        assert!(
            seen.values.iter().all(|pair| pair[0] > 1e6 && pair[1] > 1.5 * pair[0]),
            "{:?}",
            seen.values
        );
    }
}

#[test]
fn meter_does_not_end_a_run() {
    let sides = ScriptPair::new("exit ${OSJITTER_SERIES:+7}", "exit ${OSJITTER_SERIES:+7}");
    let gate = sides.gate(&["--metric", "wall", "--tolerance", "wall=9000%"]).exits(0);
    assert_eq!(runs(&gate).pairs, 24, "{}", gate.ran.stdout);
}

#[test]
fn prepare_runs_before_each_run() {
    let sides =
        ScriptPair::new("echo a >>\"$HOME_OF_TEST/order\"", "echo b >>\"$HOME_OF_TEST/order\"");
    std::fs::write(sides.path("prepare"), "sleep 0.1; echo p >>\"$HOME_OF_TEST/order\"").unwrap();
    let prepare = sides.command("prepare");
    let args = [
        "--metric", "wall", "--tolerance", "wall=2000%", "--warmup-runs", "3", "--prepare",
        &prepare, "--seed", "1",
    ];
    let gate = sides.gate(&args).exits(0);
    let found = runs(&gate);
    assert_eq!(
        (found.pairs, found.plan.warmup_runs, found.plan.prepare.as_deref()),
        (24, 3, Some(prepare.as_str()))
    );
    let order: String =
        std::fs::read_to_string(sides.path("order")).unwrap().split_whitespace().collect();
    assert!(order.starts_with("papbpapbpapb") && order.len() == 4 * (3 + 24), "{order}");
    assert!(
        order.contains("pbpapapb") || order.contains("papbpbpa"),
        "the order of each pair is random: {order}"
    );
    let fastest = found.metrics[0].values.iter().flatten().copied().fold(f64::MAX, f64::min);
    assert!(fastest < 1e8, "a run does not include its preparation: {fastest}");

    std::fs::write(sides.path("prepare"), "exit 9").unwrap();
    sides.refuses(&args, "exit status: 9");
}

#[test]
fn unsuitable_metrics_are_rejected() {
    let good = "metric x ns lower\\nx 5\\n";
    let samples = "metric x ns lower\\nx 5\\nx 5\\n";
    for (a, b, args, says) in [
        (good, "", &["--metric", "x"][..], "it writes no metric \"x\""),
        (good, good, &["--metric", "y"], "it writes x"),
        (good, good, &["--metric", "libtset"], "did you mean libtest? it writes x"),
        (good, good, &["--metric", "x", "--allow-unjudged", "^"], "a part of a benchmark's name"),
        (good, "metric x us lower\\nx 5\\n", &["--metric", "x"], "x in ns and x in us"),
        (good, "metric x ns lower\\nx 5\\nx 5\\n", &["--metric", "x"], "different metrics"),
        (
            good,
            "metric x ns higher\\nx 5\\n",
            &["--metric", "x"],
            "different metrics: x in ns (lower is better) and x in ns (higher is better)",
        ),
        (
            good,
            "metric x ns lower\\n",
            &["--metric", "x"],
            "it declares the metric \"x\" in OSJITTER_OUT, and writes no value of it; nothing",
        ),
        (samples, samples, &["--metric", "x", "--metric", "x:p50"], "--metric names x:p50 twice"),
        (good, good, &["--metric", "x", "--metric", "x"], "names a number twice; give each once"),
        (
            good,
            good,
            &["--metric", "x", "--tolerance", "x=5%", "--tolerance", "x=300%"],
            "--tolerance is given twice for x",
        ),
        (
            good,
            good,
            &["--metric", "x", "--tolerance", "p50=5%"],
            "--tolerance names p50, which is not judged; choose from x",
        ),
        (
            "metric x /s higher\\nx 5\\n",
            "metric x /s higher\\nx 5\\n",
            &["--metric", "x", "--tolerance", "x=100%"],
            "more of x is better: it cannot fall by 100%",
        ),
        (
            "metric x /s higher\\nx 5\\n",
            "metric x /s higher\\nx 5\\n",
            &["--metric", "x", "--tolerance", "200%"],
            "more of x is better: it cannot fall by 200%",
        ),
        (
            good,
            good,
            &["--metric", "wall", "--min-run-time", "1h"],
            "starting the process is much of that",
        ),
        (good, good, &["--metric", "max-rss"], "MiB of osjitter itself"),
    ] {
        if says.contains("osjitter itself") && !cfg!(target_os = "linux") {
            continue;
        }
        let sides = ScriptPair::writing(a, b);
        let (a, b) = (sides.command("a"), sides.command("b"));
        let gate =
            Gate::run(&[&["--base-cmd", &a, "--candidate-cmd", &b], &PAIRS[..], args].concat());
        gate.refuses(says);
    }
    ScriptPair::writing(good, good).refuses(&["--metric", "x:p98"], "unknown percentile");
    Gate::run(&["--a", "spin", "--b", "spin", "--metric", "wall"]).refuses("--candidate-cmd");
    let detect = ["--detect", "5%", "--detect", "9%", "--calibration", "calibration.json"];
    Gate::run(&[&["--a", "spin", "--b", "spin"], &detect[..]].concat())
        .refuses("--detect is given twice for all numbers");
}

/// A system without free descriptors is no mistake of the user.
#[test]
fn scarce_descriptors_are_no_bad_usage() {
    let directory = tempfile::tempdir().unwrap();
    let mut failures = 0;
    for descriptors in [4, 6, 7, 8, 9, 16] {
        let script = format!("ulimit -n {descriptors}; exec \"$0\" \"$@\"");
        let ran = Command::new("sh")
            .args(["-c", &script, env!("CARGO_BIN_EXE_osjitter")])
            .args(["gate", "--metric", "wall", "--max-pairs", "24"])
            .args(["--base-cmd", "sleep 0.02", "--candidate-cmd", "sleep 0.02"])
            .current_dir(directory.path())
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&ran.stderr);
        let code = ran.status.code().unwrap();
        if stderr.contains("Too many open files") {
            assert_eq!(code, 4, "{stderr}");
            failures += 1;
        } else {
            assert!(code == 0 || code == 1, "{descriptors} descriptors: {code}, {stderr}");
        }
    }
    assert!(failures > 0);
}

/// A program that takes all descriptors of osjitter, whose directories are removed nevertheless.
#[test]
fn lost_descriptors_leave_no_directories() {
    let home = tempfile::tempdir().unwrap();
    let temporary = home.path().join("temporary");
    std::fs::create_dir(&temporary).unwrap();
    let program = "sh -c 'touch $OSJITTER_OUT.more; prlimit --pid $PPID --nofile=3:'";
    let gate = ["gate", "--metric", "wall", "--base-cmd", program, "--candidate-cmd", program];
    let ran = Osjitter::new(gate).env("TMPDIR", &temporary).run();
    assert_eq!(ran.code, 4, "{}", ran.stderr);
    assert!(ran.stderr.contains("Too many open files"), "{}", ran.stderr);
    assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 0);
}

#[test]
fn failing_run_keeps_earlier_pairs() {
    for (lines, says) in [
        ("metric x us lower\\nx 5\\n", "x is in us"),
        ("metric x ns lower\\nx 0\\n", "above zero"),
        ("metric x ns lower\\nx NaN\\n", "above zero"),
        ("metric x ns lower\\nx -5\\n", "above zero"),
        ("metric x ns lower\\nx 5\\nx 6\\n", "it wrote 2 values of x, and 1 in the first run"),
        ("", "no metric \"x\""),
    ] {
        // The tenth run, counting both sides, is the first to go wrong.
        let script = format!(
            "{COUNTED}printf 'osjitter.series/1\\n' >\"$OSJITTER_OUT\"\n\
             if [ $n -lt 10 ]; then printf 'metric x ns lower\\nx 5\\n'; else printf '{lines}'; fi >>\"$OSJITTER_OUT\"\n"
        );
        let gate = ScriptPair::new(&script, &script).gate(&["--metric", "x"]).exits(4);
        let verdict = gate.verdict();
        assert!(
            verdict.failure.as_ref().is_some_and(|f| f.contains(says)),
            "{says}: {:?}",
            verdict.failure
        );
        let found = runs(&gate);
        assert_eq!(
            (verdict.partial, found.pairs, found.reason),
            (true, 4, Some(Reason::NotMeasured))
        );
        assert!(found.metrics.iter().all(|m| m.judged.is_inconclusive() && m.values.len() == 4));
        // More pairs would fail as well.
        let sentence = gate.ran.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
        let remedy = "remove the cause of the failure, and run it again";
        assert!(sentence.contains(remedy) && !sentence.contains("--max-"), "{sentence}");
    }
}

#[test]
fn program_output_is_bounded() {
    for (script, says) in [
        ("mkfifo \"$OSJITTER_OUT\"", "OSJITTER_OUT cannot be read: it is not a regular file"),
        ("mkdir \"$OSJITTER_OUT\"", "OSJITTER_OUT cannot be read: it is not a regular file"),
        (
            "ln -s /dev/zero \"$OSJITTER_OUT\"",
            "OSJITTER_OUT cannot be read: it is a link, not a regular file",
        ),
        (
            "dd if=/dev/zero of=\"$OSJITTER_OUT\" bs=1 count=1 seek=1T 2>/dev/null",
            "wrote more than 1024 MiB",
        ),
        // Slightly below the maximum size, in one line and in many.
        (
            "dd if=/dev/zero of=\"$OSJITTER_OUT\" bs=1 count=1 seek=1000M 2>/dev/null",
            "at most 255 bytes",
        ),
        (
            "{ echo osjitter.series/1; yes 'metric x ns lower' | head -c 100M; } >\"$OSJITTER_OUT\"",
            "declared once",
        ),
    ] {
        let sides = ScriptPair::new(script, script);
        let command = sides.command("a");
        let output = std::process::Command::new("sh")
            .args([
                "-c",
                "ulimit -v 700000 2>/dev/null; exec \"$0\" gate \"$@\"",
                env!("CARGO_BIN_EXE_osjitter"),
            ])
            .args([
                "--base-cmd", &command, "--candidate-cmd", &command, "--metric", "x",
                "--min-run-time", "0us",
            ])
            .args(PAIRS)
            .arg("--out")
            .arg(sides.path("out"))
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{script}: {stderr}");
        assert!(stderr.contains(says) && stderr.len() < 3_000, "{script}: {stderr}");
        assert!(!sides.path("out/verdict.json").exists(), "{script}");
    }
}

#[test]
fn slow_runs_respect_the_time_limit() {
    let script = format!("{COUNTED}[ $n -lt 2 ] || sleep 2\n");
    let sides = ScriptPair::new(&script, &script);
    let command = |time: &str| {
        let _ = std::fs::remove_file(sides.path("n"));
        sides.command_line(&["--metric", "wall", "--max-time", time])
    };
    let gate = Gate::from_ran(run_long_enough(4, command, |_| true)).exits(0);
    let found = runs(&gate);
    assert!((1..24).contains(&found.pairs) && found.looks_taken == 0, "{}", gate.ran.stdout);
    assert_eq!((found.verdict, found.reason), (Outcome::Inconclusive, Some(Reason::TooFewRounds)));
    assert!(
        !gate.verdict().partial && gate.ran.stderr.contains("not a pass"),
        "{}",
        gate.ran.stderr
    );
}

#[test]
fn unstartable_program_is_rejected() {
    let nope = Path::new("./nope").to_str().unwrap();
    let args = ["--base-cmd", "true", "--candidate-cmd", nope, "--metric", "wall"];
    Gate::run(&args).refuses("cannot start ./nope: there is no such program");
    let directory = tempfile::tempdir().unwrap();
    let args = ["--base-cmd", "true", "--candidate-cmd", directory.path().to_str().unwrap()];
    Gate::run(&[&args[..], &["--metric", "wall"]].concat())
        .refuses("its first word is a directory");
    let file = directory.path().join("data");
    std::fs::write(&file, "").unwrap();
    let args = ["--base-cmd", "true", "--candidate-cmd", file.to_str().unwrap()];
    Gate::run(&[&args[..], &["--metric", "wall"]].concat()).refuses("the file is not executable");
}

#[test]
fn hanging_run_is_killed() {
    let sides = ScriptPair::new("exit 0", "sleep 600");
    let args = ["--metric", "wall", "--max-round-time", "5s"];
    sides.refuses(&args, "still running after 5 s");
    // A run that hangs after complete pairs.
    let script = format!("{COUNTED}[ $n -lt 10 ] || sleep 600");
    let gate = ScriptPair::new(&script, &script).gate(&args).exits(4);
    assert!(gate.verdict().failure.as_ref().unwrap().contains("still running after 5 s"));
}

#[test]
fn gated_programs_are_compared() {
    let throughput =
        |value: &str| format!("metric throughput req/s higher\\nthroughput {value}\\n");
    let sides = ScriptPair::writing(&throughput("1000"), &throughput("900"));
    let gate = sides.gate(&["--metric", "throughput"]).exits(1);
    let first = gate.verdict();
    // On another day the machine is twice as fast, and the candidate equals the baseline.
    let mut second = first.clone();
    second.started_utc = "2000-01-01T00:00:00Z".to_owned();
    second.runs.as_mut().unwrap().metrics[0]
        .values
        .iter_mut()
        .for_each(|pair| *pair = [2_000.0, 2_000.0]);
    let kept = sides.path("kept");
    std::fs::create_dir(&kept).unwrap();
    std::fs::write(kept.join("verdict.json"), first.to_json()).unwrap();
    std::fs::write(sides.path("two.json"), second.to_json()).unwrap();
    let compare =
        |args: &[&str]| Osjitter::new(["compare"]).args(args).directory(sides.home.path()).run();
    let comparison = |a: &str, b: &str| {
        let json = compare(&[a, b, "--format", "json"]).exits(0).stdout;
        schema::valid(&json, "comparison.1");
        let comparison = Comparison::from_json(&json).unwrap();
        assert!(comparison.subjects.is_empty());
        comparison
    };

    let paired = comparison("kept#baseline", "kept");
    let [metric] = &paired.metrics[..] else { panic!("{paired:?}") };
    assert_eq!(
        (metric.method, metric.all.finding, metric.all.ratio),
        (Method::PairedByRound, Finding::Worse, 0.9)
    );
    assert_eq!((metric.all.a, metric.all.b, metric.all.runs_a), (1_000.0, 900.0, 24));
    assert_eq!(paired.b.program.as_deref(), Some(first.runs.as_ref().unwrap().b.as_str()));
    let days = comparison("kept", "two.json#candidate");
    let relative = days.metrics[0].beside_baseline.as_ref().unwrap();
    assert_eq!(
        (days.metrics[0].method, relative.finding, relative.a, relative.b),
        (Method::TwoRuns, Finding::Better, 0.9, 1.0)
    );
    assert!((days.metrics[0].all.ratio - 2_000.0 / 900.0).abs() < 1e-4);
    assert_eq!(days.warnings[0].code, "two-gates");

    let table = compare(&["kept", "two.json"]).exits(0).stdout;
    assert!(
        table.contains("throughput, throughput rel: B is better.")
            && table.contains("2.22 [2.22, 2.22]"),
        "{table}"
    );
    let markdown = compare(&["kept#baseline", "kept", "--format", "markdown"]).exits(0).stdout;
    assert!(markdown.contains("| throughput | 1000 req/s | 900 req/s | 0.900 "), "{markdown}");
    for (args, says) in [
        (&["kept", "kept"][..], "kept/verdict.json#baseline"),
        (
            &["kept#baseline", "kept#baseline"],
            "the other program of kept/verdict.json is kept/verdict.json#candidate",
        ),
        (&["kept#old", "kept"], "write kept/verdict.json#baseline or kept/verdict.json#candidate"),
        (&["kept", "two.json", "--format", "svg"], "there is a table"),
    ] {
        assert!(compare(args).exits(2).stderr.contains(says), "{args:?}");
    }
    #[cfg(unix)]
    {
        let pipe = sides.path("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let text = first.to_json();
        let writer = std::thread::spawn(move || std::fs::write(pipe, text));
        assert!(
            compare(&["kept#baseline", "pipe"]).exits(0).stdout.contains("B is worse"),
            "the pipe is read only once"
        );
        writer.join().unwrap().unwrap();
    }
    second.host.kernel = Some("another".to_owned());
    std::fs::write(sides.path("elsewhere.json"), second.to_json()).unwrap();
    assert!(compare(&["kept", "elsewhere.json"]).exits(2).stderr.contains("kernel"));
    assert!(compare(&["kept", "elsewhere.json", "--force"]).exits(0).stdout.contains("FORCED"));
    second.runs = None;
    std::fs::write(sides.path("lateness.json"), second.to_json()).unwrap();
    assert!(compare(&["kept", "lateness.json"]).exits(2).stderr.contains("without whole runs"));
}
