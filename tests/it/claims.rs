//! Tests that no output names a better subject, or by how much it is better, where `osjitter
//! compare` shows no difference.

use std::path::Path;

use serde_json::{Value, json};

use crate::osjitter::{Osjitter, Ran, one_line};

const ROUNDS: usize = 30;
const TICKS: usize = 250;

/// The lateness of a scripted subject: that of most ticks, and that of three in a hundred.
#[derive(Clone, Copy)]
struct Shape {
    typical_us: u64,
    tail_us: u64,
}

const fn shape(typical_us: u64, tail_us: u64) -> Shape {
    Shape { typical_us, tail_us }
}

/// Returns rounds with noise that depends on the seed.
fn rounds(shape: Shape, seed: u64) -> Vec<Vec<u64>> {
    let mut state = seed;
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let mut round = Vec::with_capacity(TICKS);
        for tick in 0..TICKS {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let thousandths = 700 + (state >> 33) % 600;
            let us = if tick % 33 == 7 { shape.tail_us } else { shape.typical_us };
            round.push(us * thousandths);
        }
        rounds.push(round);
    }
    rounds
}

/// Names of the scripted subjects.
const NAMES: [&str; 3] = ["scripted", "scripted-b", "scripted-c"];

/// Measures two scripted subjects of the same cost. The seeds are those of their noise.
fn measure(base: Shape, candidate: Shape, seeds: (u64, u64)) -> Ran {
    measure_rounds(&[rounds(base, seeds.0), rounds(candidate, seeds.1)])
}

/// Measures scripted subjects of the same cost with the lateness of each round.
fn measure_rounds(subjects: &[Vec<Vec<u64>>]) -> Ran {
    let mut script = json!({});
    let mut args = vec!["run", "--period", "1ms", "--warmup", "0", "--svg"];
    for (name, rounds) in NAMES.into_iter().zip(subjects) {
        script[name] = json!({ "lateness_ns": rounds, "cpu_ns_per_tick": 9_000 });
        args.extend(["--subject", name]);
    }
    let ticks = (ROUNDS * TICKS).to_string();
    let round_ticks = TICKS.to_string();
    Osjitter::new(args)
        .args(["--ticks", &ticks, "--round-ticks", &round_ticks])
        .script(&script)
        .without_width()
        .out("")
        .run()
        .exits(0)
}

/// A percentile as `osjitter compare` shows it.
struct ComparedPercentile {
    name: String,
    /// The subject that is lower, if a difference is shown.
    lower: Option<&'static str>,
    ratio: f64,
}

/// Compares the first two subjects in both directions, which agree.
fn compare(report: &Path) -> Vec<ComparedPercentile> {
    let compared = compare_sides(report, NAMES[0], NAMES[1]);
    let reversed = compare_sides(report, NAMES[1], NAMES[0]);
    assert!(!compared.is_empty() && compared.len() == reversed.len());
    for (forward, backward) in compared.iter().zip(&reversed) {
        assert_eq!((&forward.name, forward.lower), (&backward.name, backward.lower));
    }
    compared
}

fn compare_sides(
    report: &Path,
    base: &'static str,
    candidate: &'static str,
) -> Vec<ComparedPercentile> {
    let side = |name: &str| format!("{}#{name}@1ms/current-thread", report.display());
    let args = ["compare", &side(base), &side(candidate), "--format", "json"];
    let compared: Value =
        serde_json::from_str(&Osjitter::new(args).run().exits(0).stdout).expect("a comparison");
    let mut percentiles = Vec::new();
    for percentile in compared["subjects"][0]["percentiles"].as_array().expect("percentiles") {
        let lower = match percentile["all"]["finding"].as_str().expect("a finding") {
            "later" => Some(base),
            "earlier" => Some(candidate),
            _ => None,
        };
        let name = percentile["name"].as_str().expect("a name").to_owned();
        percentiles.push(ComparedPercentile {
            name,
            lower,
            ratio: percentile["all"]["ratio"].as_f64().expect("a ratio"),
        });
    }
    percentiles
}

/// Renders a report in each format that has words, with lines joined.
fn render_all(report: &Path) -> Vec<String> {
    let mut texts = Vec::new();
    for format in ["table", "markdown", "html", "card"] {
        let args = [Path::new("report"), report, Path::new("--format"), Path::new(format)];
        let text = Osjitter::new(args).without_width().run().exits(0).stdout;
        // The title repeats the answer for readers who do not see the picture.
        match text.split_once("</title>").filter(|_| format == "card") {
            Some((_, seen)) => texts.push(seen.to_owned()),
            None => texts.push(text),
        }
    }
    texts
}

/// Returns the text of all elements of a picture or page, in one line.
fn words(text: &str) -> String {
    let mut words = String::new();
    let mut is_tag = false;
    for c in text.chars() {
        match c {
            '<' => is_tag = true,
            '>' => is_tag = false,
            '\n' if !is_tag => words.push(' '),
            _ if !is_tag => words.push(c),
            _ => {}
        }
    }
    one_line(&words).replace('\\', "")
}

/// Phrases that name a better subject, or by how much it is better.
const CLAIMS: [&str; 5] = [
    "had the lowest",
    " as high",
    "used the least CPU",
    "every other ranked subject",
    "; no other ranked subject was clearly better",
];

/// The ring around a subject on the front, in a picture.
const RING: &str = "r=\"10\"";

#[test]
fn unclear_differences_are_never_claims() {
    // Equal rounds, and equal distributions with noise that shows no difference by chance.
    for seeds in [(1, 1), (3, 4)] {
        let ran = measure(shape(40, 200), shape(40, 200), seeds);
        let report = ran.path("report.json");
        let is_equal = |percentile: &ComparedPercentile| percentile.lower.is_none();
        assert!(compare(&report).iter().all(is_equal), "{seeds:?}");
        assert!(
            ran.stdout.starts_with("No difference is shown at p99, p90 or p50 "),
            "{}",
            ran.stdout
        );
        for text in render_all(&report) {
            let in_words = words(&text);
            for claim in CLAIMS {
                assert!(!in_words.contains(claim), "{claim}: {in_words}");
            }
            assert!(!text.contains("\"front\":true"), "a ring");
            assert!(!text.lines().any(|line| line.contains("  *")), "a mark: {text}");
        }
        assert!(!ran.file("tradeoff.svg").contains(RING), "a ring");
    }
}

#[test]
fn claims_agree_with_compare() {
    for (base, candidate, at, winner) in [
        (shape(48, 240), shape(40, 200), "p99", "scripted-b"),
        (shape(40, 200), shape(48, 240), "p99", "scripted"),
        // Equal tails: the answer leads with the percentile that separates.
        (shape(60, 200), shape(40, 200), "p90", "scripted-b"),
        (shape(40, 300), shape(60, 200), "p99", "scripted-b"),
    ] {
        let ran = measure(base, candidate, (1, 2));
        let report = ran.path("report.json");
        let compared = compare(&report);
        let found = compared.iter().find(|percentile| percentile.name == at).expect("compared");
        assert_eq!(found.lower, Some(winner), "{at}");
        let larger = if found.ratio < 1.0 { 1.0 / found.ratio } else { found.ratio };
        let factor = format!("was {larger:.2} times [");
        let loser = if winner == "scripted" { "scripted-b" } else { "scripted" };
        let texts: Vec<String> = render_all(&report).iter().map(|text| words(text)).collect();
        let on_front = "; no other ranked subject was clearly better";
        assert!(texts.iter().any(|text| text.contains(on_front)), "{texts:?}");
        for in_words in texts {
            assert!(in_words.contains(&format!("{winner} had the lowest {at} (")), "{in_words}");
            assert!(!in_words.contains(&format!("{loser} had the lowest")), "{in_words}");
            assert_eq!(in_words.matches(&factor).count(), 1, "{factor}: {in_words}");
            let is_tied = in_words.contains(". p99 shows no clear difference.");
            assert_eq!(is_tied, at != "p99", "{in_words}");
        }
        assert_eq!(ran.file("tradeoff.svg").matches(RING).count(), 1, "{winner}");
        let marked: Vec<&str> = ran.stdout.lines().filter(|line| line.contains("  *")).collect();
        assert_eq!(marked.len(), 1, "{}", ran.stdout);
        assert!(marked[0].starts_with(&format!("{winner} ")), "{}", ran.stdout);
    }
}

#[test]
fn contradicting_ticks_are_no_claims() {
    // The first subject is lower in most rounds, and has the higher p99 of all ticks.
    let mut base = rounds(shape(40, 200), 1);
    for round in &mut base[..3] {
        round.iter_mut().for_each(|late_ns| *late_ns += 700_000);
    }
    let ran = measure_rounds(&[base, rounds(shape(48, 240), 2)]);
    let report = ran.path("report.json");
    let compared = compare(&report);
    let lower = |name: &str| {
        let mut found = compared.iter().filter(|percentile| percentile.name == name);
        found.next().expect("compared").lower
    };
    assert_eq!((lower("p99"), lower("p50")), (None, Some("scripted")));
    for text in render_all(&report) {
        let in_words = words(&text);
        assert!(in_words.contains(". p99 and p90 show no clear difference."), "{in_words}");
        assert!(!in_words.contains("had the lowest p99"), "{in_words}");
    }
}

#[test]
fn ties_of_three_claim_compared_pairs() {
    let equal = [3, 4, 3].map(|seed| rounds(shape(40, 200), seed));
    let ran = measure_rounds(&equal);
    let tie = "No difference is shown at p99, p90 or p50 between the lowest and the others of scripted, scripted-b and \
               scripted-c.";
    for text in render_all(&ran.path("report.json")) {
        let in_words = words(&text);
        assert!(in_words.contains(tie), "{in_words}");
        for claim in CLAIMS {
            assert!(!in_words.contains(claim), "{claim}: {in_words}");
        }
    }
}

#[test]
fn tied_rows_keep_their_order() {
    // One of the two runs has the subjects in descending order of their p99.
    for seeds in [(3, 4), (4, 3)] {
        let ran = measure(shape(40, 200), shape(40, 200), seeds);
        let report = ran.path("report.json");
        let args = [Path::new("report"), &report, Path::new("--sort"), Path::new("lateness")];
        let table = Osjitter::new(args).without_width().run().exits(0).stdout;
        let row = |name: &str| table.find(&format!("\n{name} ")).expect("a row");
        assert!(row("scripted") < row("scripted-b"), "{table}");
    }
}

#[test]
fn files_without_intervals_name_no_winner() {
    let home = tempfile::tempdir().expect("a directory");
    let file = home.path().join("cyclictest.txt");
    let output = "# /dev/cpu_dma_latency set to 0us\n# Histogram\n000002 010000\t010000\n000003 029000\t029900\n\
                  000004 001000\t000100\n# Min Latencies: 00002 00002\n# Avg Latencies: 00002 00002\n\
                  # Max Latencies: 00004 00004\n# Histogram Overflows: 00000 00000\n";
    std::fs::write(&file, output).expect("a file");
    for text in render_all(&file) {
        let in_words = words(&text);
        assert!(
            in_words.contains("No difference is shown at p99, p90 or p50 between"),
            "{in_words}"
        );
        assert!(in_words.contains("without confidence intervals"), "{in_words}");
        for claim in CLAIMS {
            assert!(!in_words.contains(claim), "{claim}: {in_words}");
        }
    }
}

#[test]
fn run_prints_the_answer_first() {
    let ran = measure(shape(48, 240), shape(40, 200), (1, 2));
    let at = |part: &str| ran.stdout.find(part).unwrap_or_else(|| panic!("{part}: {}", ran.stdout));
    let order =
        [at("had the lowest p99"), at("Lateness and CPU time per tick"), at("* lowest p99")];
    assert!(order.is_sorted() && ran.stdout.starts_with("scripted-b had"), "{}", ran.stdout);
}
