//! Runs the targets on their corpora and on mutations of them.
//!
//! `OSJITTER_FUZZ_RUNS` and `OSJITTER_FUZZ_SECONDS` limit the mutations of each target, whichever
//! comes first. `OSJITTER_FUZZ_SEED` is the seed of the mutations, and `OSJITTER_FUZZ_STATS` names
//! a file to which a line of JSON is appended for each target. Failing inputs are stored in
//! `fuzz/finds`.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::time::Duration;

use cli::printable;
use engine::machine::os::thread_cpu_ns;
use jitterstat::stats::random::SplitMix64;

use super::mutate::mutate;
use super::step_costs::StepCosts;
use super::{Body, TARGETS, gate, report};

/// Maximum CPU time of a step for an input below 1 MB. The slowest one, 900 histograms in one
/// format, takes a sixth of it on an idle machine.
const STEP_TIMEOUT: Duration = Duration::from_secs(10);
/// Number of runs of an input that exceeds the maximum. A hypervisor may charge the time that it
/// took to some of them.
const SLOW_RUNS: usize = 3;
/// Maximum memory of a step: a multiple of the size of the input, plus a constant.
const BYTES_PER_BYTE: u64 = 64;
const MAX_BYTES: u64 = 64 << 20;
/// Default limits, for the regular test run.
const RUNS: u64 = 2_000;
const SECONDS: f64 = 0.5;
const SEED: u64 = 0x051d_0b5e_55ed;
/// Maximum number of inputs kept for further mutation because they caused new behaviour.
const MAX_KEPT: usize = 2_000;

fn fuzz_directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz")
}

fn corpus(target: &str) -> Vec<Vec<u8>> {
    let directory = fuzz_directory().join("corpus").join(target);
    let mut files: Vec<PathBuf> = std::fs::read_dir(&directory)
        .unwrap_or_else(|e| panic!("{}: {e}", directory.display()))
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    assert!(!files.is_empty(), "{} is empty", directory.display());
    files.iter().map(|file| std::fs::read(file).unwrap()).collect()
}

fn number<T: std::str::FromStr>(name: &str, otherwise: T) -> T {
    std::env::var(name)
        .ok()
        .map_or(otherwise, |text| text.parse().unwrap_or_else(|_| panic!("{name}: {text:?}")))
}

/// The behaviour caused by an input: the beginning of the error, or the size of the result. Inputs
/// with a new behaviour are mutated further.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Behaviour {
    Accepted { input: Option<u32>, memory: Option<u32> },
    Refused(String),
}

fn classify(bytes: &[u8], result: &cli::exit::Result<()>, costs: &StepCosts) -> Behaviour {
    const WORDS: usize = 40;
    match result {
        // Steps of a quarter of an octave.
        Ok(()) => {
            let memory = costs.peak_bytes.get().checked_pow(4).unwrap_or(u64::MAX);
            Behaviour::Accepted {
                input: bytes.len().checked_ilog2(),
                memory: memory.checked_ilog2(),
            }
        }
        Err(error) => {
            let mut quoted = false;
            let message = error.to_string();
            let words = message.chars().filter(|c| {
                quoted ^= matches!(c, '"' | '`');
                !quoted && c.is_ascii_alphabetic()
            });
            Behaviour::Refused(words.take(WORDS).collect())
        }
    }
}

thread_local! {
    /// Message and location of the last panic of this thread.
    static PANIC: Cell<String> = const { Cell::new(String::new()) };
}

fn install_panic_hook() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let message = info.payload_as_str().unwrap_or_default();
            PANIC.set(format!(
                "{message} ({})",
                info.location().map_or(String::new(), ToString::to_string)
            ));
            before(info);
        }));
    });
}

#[derive(Default)]
struct Totals {
    executions: u64,
    accepted: u64,
    peak: (u64, usize),
    slowest: (u64, &'static str, usize),
}

/// Runs a target on one input. A defect is an error.
fn execute(body: Body, bytes: &[u8], totals: &mut Totals) -> Result<Behaviour, String> {
    let costs = StepCosts::default();
    let result =
        catch_unwind(AssertUnwindSafe(|| body(bytes, &costs))).map_err(|_| PANIC.take())?;
    totals.executions += 1;
    totals.accepted += u64::from(result.is_ok());
    let (peak, (spent, step)) = (costs.peak_bytes.get(), costs.slowest.get());
    totals.peak = totals.peak.max((peak, bytes.len()));
    totals.slowest = totals.slowest.max((spent, step, bytes.len()));
    if is_slow(spent) && is_slow_again(body, bytes) {
        return Err(format!(
            "{step} takes {:?} for {} bytes",
            Duration::from_nanos(spent),
            bytes.len()
        ));
    }
    if peak > BYTES_PER_BYTE * bytes.len() as u64 + MAX_BYTES {
        return Err(format!("it takes {peak} bytes of memory for {}", bytes.len()));
    }
    if let Err(error) = &result {
        let shown = printable::to_printable_message(&error.to_string());
        if shown.trim().is_empty() || error.code() != 2 {
            return Err(format!("refused without a word, or as no bad input: {error:?}"));
        }
    }
    Ok(classify(bytes, &result, &costs))
}

fn is_slow(spent_ns: u64) -> bool {
    u128::from(spent_ns) > STEP_TIMEOUT.as_nanos()
}

/// Returns whether all other runs of an input are slow as well.
fn is_slow_again(body: Body, bytes: &[u8]) -> bool {
    (1..SLOW_RUNS).all(|_| {
        let costs = StepCosts::default();
        let _ = body(bytes, &costs);
        is_slow(costs.slowest.get().0)
    })
}

/// Stores the input and panics.
fn fail(target: &str, bytes: &[u8], what: &str) -> ! {
    let directory = fuzz_directory().join("finds");
    std::fs::create_dir_all(&directory).unwrap();
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    let file = directory.join(format!("{target}-{:016x}", hasher.finish()));
    std::fs::write(&file, bytes).unwrap();
    panic!("{target}: {what}; the input is {}", file.display());
}

/// Returns the CPU time of this thread in seconds, so that a busy machine runs as many mutations as
/// an idle one.
#[allow(clippy::disallowed_methods, reason = "it bounds a test; nothing is measured")]
fn elapsed_seconds(begun: std::time::Instant) -> f64 {
    thread_cpu_ns().map_or_else(|| begun.elapsed().as_secs_f64(), |ns| ns as f64 / 1e9)
}

#[allow(clippy::disallowed_methods, reason = "it bounds a test; nothing is measured")]
fn fuzz_target(target: &str) {
    install_panic_hook();
    let (_, body) = *TARGETS.iter().find(|(name, _)| *name == target).unwrap();
    let seed = number("OSJITTER_FUZZ_SEED", SEED);
    let (runs, seconds) =
        (number("OSJITTER_FUZZ_RUNS", RUNS), number("OSJITTER_FUZZ_SECONDS", SECONDS));
    let begun = std::time::Instant::now();
    let mut kept = corpus(target);
    let mut refused: Vec<Vec<u8>> = Vec::new();
    let mut totals = Totals::default();
    let mut classes = BTreeSet::new();
    for bytes in &kept {
        match execute(body, bytes, &mut totals) {
            Ok(class) => drop(classes.insert(class)),
            Err(what) => fail(target, bytes, &what),
        }
    }
    let mut hasher = DefaultHasher::new();
    (seed, target).hash(&mut hasher);
    let mut random = SplitMix64::new(hasher.finish());
    let mut run = 0;
    while run < runs && elapsed_seconds(begun) < seconds {
        // Mostly from accepted inputs, which reach more of the program.
        let pools = [&kept, if refused.is_empty() { &kept } else { &refused }];
        let [input, other] = [(); 2].map(|()| {
            let pool = pools[usize::from(random.index(4) == 0)];
            // Mostly short inputs: more of them run in the same time, and a change is more likely
            // to matter.
            let drawn = (0..1 << random.index(4)).map(|_| &pool[random.index(pool.len())]);
            drawn.min_by_key(|bytes| bytes.len()).expect("at least one is drawn")
        });
        let bytes = mutate(input, other, &mut random);
        match execute(body, &bytes, &mut totals) {
            Ok(class) => {
                let pool = if matches!(class, Behaviour::Accepted { .. }) {
                    &mut kept
                } else {
                    &mut refused
                };
                if pool.len() < MAX_KEPT && classes.insert(class) {
                    pool.push(bytes);
                }
            }
            Err(what) => fail(target, &bytes, &format!("{what} (seed {seed}, mutation {run})")),
        }
        run += 1;
    }
    if let Some(file) = std::env::var_os("OSJITTER_FUZZ_STATS") {
        let line = serde_json::json!({
            "target": target, "executions": totals.executions, "accepted": totals.accepted,
            "behaviours": classes.len(), "seconds": elapsed_seconds(begun), "seed": seed,
            "peak_bytes": totals.peak.0, "peak_of_input_bytes": totals.peak.1,
            "slowest_ms": totals.slowest.0 as f64 / 1e6, "slowest_step": totals.slowest.1,
            "slowest_of_input_bytes": totals.slowest.2,
        });
        let mut file = std::fs::OpenOptions::new().create(true).append(true).open(file).unwrap();
        file.write_all(format!("{line}\n").as_bytes()).unwrap();
    }
}

macro_rules! tests {
    ($($target:ident)*) => {
        $(#[test]
        fn $target() {
            fuzz_target(stringify!($target));
        })*

        #[test]
        fn targets_have_corpora_and_binaries() {
            let names = TARGETS.map(|(name, _)| name.to_owned());
            assert_eq!(names, [$(stringify!($target)),*]);
            let directories = std::fs::read_dir(fuzz_directory().join("corpus")).unwrap();
            let corpora: BTreeSet<String> =
                directories.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
            assert_eq!(corpora, names.iter().cloned().collect());
            let manifest = std::fs::read_to_string(fuzz_directory().join("Cargo.toml")).unwrap();
            let manifest: toml::Table = manifest.parse().unwrap();
            let binaries = manifest["bin"].as_array().unwrap().iter().map(|bin| bin["name"].as_str().unwrap().to_owned());
            assert_eq!(binaries.collect::<BTreeSet<_>>(), corpora);
        }
    };
}

tests! {
    argument baseline bench bench_output bins bpftrace breaches calibration checkup comparison cyclictest cyclictest_text find flight gate
    glob hgrm histogram hlog hwlatdetect jitterdebugger meter oslat oslat_text plan report request rtla runs series
    settings stacks trace verdict xenomai
}

/// Alpha is 0.5 %: among gates whose sides are drawn from one distribution, no more end as
/// regressed than chance explains.
#[test]
fn equal_sides_rarely_raise_alarms() {
    let gates = number("OSJITTER_FUZZ_GATES", 40);
    let alarms = gate::count_alarms(gates, number("OSJITTER_FUZZ_SEED", SEED));
    let expected = gates as f64 * 0.005;
    // Four standard deviations, and one for the tail of small numbers.
    let max = expected + 4.0 * expected.sqrt() + 1.0;
    assert!(alarms as f64 <= max, "{alarms} of {gates}");
}

/// The input is not in the corpus, because mutations of it are slow.
#[test]
fn many_subjects_stay_within_limits() {
    install_panic_hook();
    let maps = (1..=900).map(|n| format!("@usecs[{n}]: \n[{n}]  12 |@@|\n\n"));
    let text: String = maps.collect();
    if let Err(what) = execute(report::body, text.as_bytes(), &mut Totals::default()) {
        panic!("{what}");
    }
}

/// Checks that each kind of defect is detected.
#[test]
fn defects_are_detected() {
    install_panic_hook();
    let mut totals = Totals::default();
    let panics: Body = |bytes, _| panic!("at {}", bytes[0]);
    assert!(execute(panics, &[7], &mut totals).unwrap_err().starts_with("at 7 (src/fuzz/tests.rs"));
    let hungry: Body = |_, costs| {
        costs.measure("eat", || drop(Vec::<u8>::with_capacity(65 << 20)));
        Ok(())
    };
    assert!(execute(hungry, &[0], &mut totals).unwrap_err().contains("bytes of memory"));
    let mute: Body = |_, _| Err(cli::exit::Error::usage("\n"));
    assert!(execute(mute, &[0], &mut totals).unwrap_err().contains("without a word"));
    let slow: Body = |_, costs| {
        costs.slowest.set((STEP_TIMEOUT.as_nanos() as u64 + 1, "think"));
        Ok(())
    };
    assert!(execute(slow, &[0], &mut totals).unwrap_err().contains("think takes"));
}

#[test]
fn steps_cost_cpu_time() {
    const SPENT_NS: u64 = 1_000_000;
    let costs = StepCosts::default();
    costs.measure("think", || {
        let until = thread_cpu_ns().map(|ns| ns + SPENT_NS);
        while thread_cpu_ns() < until {}
    });
    let (spent_ns, step) = costs.slowest.get();
    if thread_cpu_ns().is_some() {
        assert!(spent_ns >= SPENT_NS && step == "think", "{step}: {spent_ns}");
    }
}
