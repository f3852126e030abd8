//! The targets over their corpora and over mutations of them.
//!
//! `OSJITTER_FUZZ_RUNS` and `OSJITTER_FUZZ_SECONDS` bound what is run of each target beside the
//! corpus, whichever comes first; `OSJITTER_FUZZ_SEED` is where the mutations begin, and
//! `OSJITTER_FUZZ_STATS` a file that gets a line of JSON for each target. Whatever fails is kept in
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

use super::mutate::mutated;
use super::stage::Stages;
use super::{Body, TARGETS, gate};

/// What a step may take of a thread's time for an input below 1 MB.
const STEP_TIMEOUT: Duration = Duration::from_secs(1);
/// What it may allocate: so many times the input, and this.
const BYTES_PER_BYTE: u64 = 64;
const MAX_BYTES: u64 = 64 << 20;
/// Unless told otherwise: a part of the tests that everybody runs.
const RUNS: u64 = 2_000;
const SECONDS: f64 = 0.5;
const SEED: u64 = 0x051d_0b5e_55ed;
/// Inputs that did something new are mutated again; no more of them than this.
const MAX_KEPT: usize = 2_000;

fn fuzz() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz")
}

fn corpus(target: &str) -> Vec<Vec<u8>> {
    let directory = fuzz().join("corpus").join(target);
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

/// What one input did, as far as that is worth looking at again: how a refusal begins, or how much
/// was made of it.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    Accepted { input: Option<u32>, memory: Option<u32> },
    Refused(String),
}

fn class(bytes: &[u8], result: &cli::exit::Result<()>, stages: &Stages) -> Class {
    const WORDS: usize = 40;
    match result {
        // Steps of a quarter of an octave.
        Ok(()) => {
            let memory = stages.peak_bytes.get().checked_pow(4).unwrap_or(u64::MAX);
            Class::Accepted { input: bytes.len().checked_ilog2(), memory: memory.checked_ilog2() }
        }
        Err(error) => {
            let mut quoted = false;
            let message = error.to_string();
            let words = message.chars().filter(|c| {
                quoted ^= matches!(c, '"' | '`');
                !quoted && c.is_ascii_alphabetic()
            });
            Class::Refused(words.take(WORDS).collect())
        }
    }
}

thread_local! {
    /// What the last panic of this thread said, and where.
    static PANIC: Cell<String> = const { Cell::new(String::new()) };
}

fn hook() {
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

/// One input. What must not be is the error.
fn execute(body: Body, bytes: &[u8], totals: &mut Totals) -> Result<Class, String> {
    let stages = Stages::default();
    let result =
        catch_unwind(AssertUnwindSafe(|| body(bytes, &stages))).map_err(|_| PANIC.take())?;
    totals.executions += 1;
    totals.accepted += u64::from(result.is_ok());
    let (peak, (spent, step)) = (stages.peak_bytes.get(), stages.slowest.get());
    totals.peak = totals.peak.max((peak, bytes.len()));
    totals.slowest = totals.slowest.max((spent, step, bytes.len()));
    if u128::from(spent) > STEP_TIMEOUT.as_nanos() {
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
    Ok(class(bytes, &result, &stages))
}

/// Keeps the input, and fails.
fn found(target: &str, bytes: &[u8], what: &str) -> ! {
    let directory = fuzz().join("finds");
    std::fs::create_dir_all(&directory).unwrap();
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    let file = directory.join(format!("{target}-{:016x}", hasher.finish()));
    std::fs::write(&file, bytes).unwrap();
    panic!("{target}: {what}; the input is {}", file.display());
}

/// Time that this thread has had: as much is done on a busy machine as on an idle one.
#[allow(clippy::disallowed_methods, reason = "it bounds a test; nothing is measured")]
fn spent(begun: std::time::Instant) -> f64 {
    thread_cpu_ns().map_or_else(|| begun.elapsed().as_secs_f64(), |ns| ns as f64 / 1e9)
}

#[allow(clippy::disallowed_methods, reason = "it bounds a test; nothing is measured")]
fn fuzzed(target: &str) {
    hook();
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
            Err(what) => found(target, bytes, &what),
        }
    }
    let mut hasher = DefaultHasher::new();
    (seed, target).hash(&mut hasher);
    let mut random = SplitMix64::new(hasher.finish());
    let mut run = 0;
    while run < runs && spent(begun) < seconds {
        // Mostly from what is accepted: the rest of the program is behind it.
        let pools = [&kept, if refused.is_empty() { &kept } else { &refused }];
        let [input, other] = [(); 2].map(|()| {
            let pool = pools[usize::from(random.index(4) == 0)];
            // Short ones mostly: there are more of them in the time, and a change hits more often
            // what matters.
            let drawn = (0..1 << random.index(4)).map(|_| &pool[random.index(pool.len())]);
            drawn.min_by_key(|bytes| bytes.len()).expect("at least one is drawn")
        });
        let bytes = mutated(input, other, &mut random);
        match execute(body, &bytes, &mut totals) {
            Ok(class) => {
                let pool =
                    if matches!(class, Class::Accepted { .. }) { &mut kept } else { &mut refused };
                if pool.len() < MAX_KEPT && classes.insert(class) {
                    pool.push(bytes);
                }
            }
            Err(what) => found(target, &bytes, &format!("{what} (seed {seed}, mutation {run})")),
        }
        run += 1;
    }
    if let Some(file) = std::env::var_os("OSJITTER_FUZZ_STATS") {
        let line = serde_json::json!({
            "target": target, "executions": totals.executions, "accepted": totals.accepted,
            "behaviours": classes.len(), "seconds": spent(begun), "seed": seed,
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
            fuzzed(stringify!($target));
        })*

        #[test]
        fn every_target_is_tested_has_a_corpus_and_a_binary_for_cargo_fuzz() {
            let names = TARGETS.map(|(name, _)| name.to_owned());
            assert_eq!(names, [$(stringify!($target)),*]);
            let directories = std::fs::read_dir(fuzz().join("corpus")).unwrap();
            let corpora: BTreeSet<String> =
                directories.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
            assert_eq!(corpora, names.iter().cloned().collect());
            let manifest = std::fs::read_to_string(fuzz().join("Cargo.toml")).unwrap();
            let manifest: toml::Table = manifest.parse().unwrap();
            let binaries = manifest["bin"].as_array().unwrap().iter().map(|bin| bin["name"].as_str().unwrap().to_owned());
            assert_eq!(binaries.collect::<BTreeSet<_>>(), corpora);
        }
    };
}

tests! {
    argument baseline bench bins calibration checkup comparison cyclictest find gate glob histogram hlog hwlatdetect
    jitterdebugger meter oslat plan report rtla runs series trace verdict
}

/// Alpha is 0.5 %: of gates whose sides are drawn from one distribution, no more end as regressed
/// than chance explains.
#[test]
fn equal_sides_raise_alarms_in_no_more_gates_than_alpha() {
    let gates = number("OSJITTER_FUZZ_GATES", 40);
    let alarms = gate::alarms(gates, number("OSJITTER_FUZZ_SEED", SEED));
    let expected = gates as f64 * 0.005;
    // Four standard deviations, and one for the tail of small numbers.
    let most = expected + 4.0 * expected.sqrt() + 1.0;
    assert!(alarms as f64 <= most, "{alarms} of {gates}");
}

/// A test that cannot fail is none: this is how a find looks.
#[test]
fn what_a_target_does_wrong_is_seen() {
    hook();
    let mut totals = Totals::default();
    let panics: Body = |bytes, _| panic!("at {}", bytes[0]);
    assert!(execute(panics, &[7], &mut totals).unwrap_err().starts_with("at 7 (src/fuzz/tests.rs"));
    let hungry: Body = |_, stages| {
        stages.of("eat", || drop(Vec::<u8>::with_capacity(65 << 20)));
        Ok(())
    };
    assert!(execute(hungry, &[0], &mut totals).unwrap_err().contains("bytes of memory"));
    let mute: Body = |_, _| Err(cli::exit::Error::usage("\n"));
    assert!(execute(mute, &[0], &mut totals).unwrap_err().contains("without a word"));
    let slow: Body = |_, stages| {
        let until = thread_cpu_ns().map(|ns| ns + 1_100_000_000);
        stages.of("think", || while thread_cpu_ns() < until {});
        Ok(())
    };
    let known = thread_cpu_ns().is_some();
    assert_eq!(execute(slow, &[0], &mut totals).is_err_and(|e| e.contains("think takes")), known);
}
