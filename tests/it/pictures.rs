//! Tests the pictures of `osjitter run`: which are drawn, and how many subjects share their axes.

use std::collections::BTreeMap;

use files::file::File as _;
use files::report::{Report, Scenario, Subject};

use crate::fixtures::recorded_report;
use crate::osjitter::{Osjitter, Ran, names_in};
use crate::workspace::root;

fn run(args: &[&str]) -> Osjitter {
    Osjitter::new(["run", "--quiet"]).args(args)
}

#[test]
fn single_subjects_are_drawn_on_request() {
    let files = |more: &[&str]| {
        let ran =
            run(&["--subject", "spin", "--ticks", "30"]).args(more).out("fresh").run().exits(0);
        names_in(&ran.path("fresh"))
    };
    let main = ["over-time.svg", "percentiles.svg", "report.html", "report.json", "tradeoff.svg"];
    assert_eq!(files(&[]), main);
    let all = files(&["--svg"]);
    assert!(all.len() > main.len() && main.iter().all(|name| all.iter().any(|file| file == name)));
}

/// Up to 12 subjects share their axes and have their names next to them; more have separate axes
/// and a legend.
#[test]
fn many_subjects_get_separate_charts() {
    const SUBJECTS: &str = "os-interval os-interval-delay os-interval-skip os-interval-group os-sleep os-timeout nanosleep \
                    tokio-interval tokio-interval-delay tokio-interval-skip tokio-sleep tokio-sleep-reused tokio-timeout \
                    periodic-interval tokio-busy";
    let example = recorded_report();
    let pictures = |subjects: usize| {
        let mut report = example.clone();
        let scenario = report.plan.scenarios[0].clone();
        let subject = report.subjects[0].clone();
        let names = SUBJECTS.split_whitespace().take(subjects).map(str::to_owned);
        (report.plan.scenarios, report.subjects) = names
            .map(|name| {
                (
                    Scenario { id: name.clone(), subject: name.clone(), ..scenario.clone() },
                    Subject { id: name.clone(), name, ..subject.clone() },
                )
            })
            .unzip();
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("report.json");
        std::fs::write(&file, report.to_json()).unwrap();
        let pictures = draw(file.to_str().unwrap());
        ["percentiles", "tradeoff"].map(|name| pictures[&format!("{name}.svg")].clone())
    };
    // The command below a picture contains the names as well.
    let label = |name: &str| format!("\n{name}\n");
    let [few, names] = pictures(12);
    assert_eq!(
        (
            few.matches("percentile of the ticks").count(),
            names.matches(&label("tokio-interval")).count()
        ),
        (1, 1)
    );
    let [many, legend] = pictures(15);
    assert_eq!(
        (
            many.matches("percentile of the ticks").count(),
            many.matches(&label("tokio-interval")).count()
        ),
        (0, 1)
    );
    assert!(
        legend.find(&label("tokio-timeout")) < legend.find(&label("CPU time per tick")),
        "the legend comes before the axes"
    );
}

/// A small chart of each subject has only some of the others in its background.
#[test]
fn pictures_grow_with_their_subjects() {
    let home = tempfile::tempdir().unwrap();
    let size = |maps: usize| {
        let file = home.path().join("hist.txt");
        let maps = (0..maps).map(|n| format!("@usecs[{n}]: \n[{}]  12 |@@|\n\n", n + 1));
        std::fs::write(&file, maps.collect::<String>()).unwrap();
        let ran = Osjitter::new(["report", "-", "--format", "svg"]).input(&file);
        ran.out("drawn").run().exits(0).file("drawn/percentiles.svg").len()
    };
    let (small, large) = (size(100), size(400));
    assert!(large < 5 * small, "{small} bytes for 100 subjects, {large} for 400");
}

#[test]
fn pictures_of_many_subjects_are_limited() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("hist.txt");
    let maps = (1..=600).map(|n| format!("@usecs[{n}]: \n[{n}]  12 |@@|\n\n"));
    std::fs::write(&file, maps.collect::<String>()).unwrap();
    let ran = Osjitter::new(["report", "-", "--format", "svg"]).input(&file);
    let ran = ran.out("drawn").run().exits(0);
    assert!(ran.stderr.contains("512 of 600 subjects are drawn"), "{}", ran.stderr);
    assert!(ran.file("drawn/percentiles.svg").contains("512 of 600 subjects are drawn"));
    assert_eq!(count_histograms(&ran), 512);
}

/// Subjects without values do not displace those with values.
#[test]
fn subjects_with_values_are_drawn() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("threads.json");
    let mut threads = serde_json::Map::new();
    for number in 0..600 {
        let mut thread = serde_json::json!({"cycles": 1, "min": 7, "max": 7, "avg": 7.0});
        if number >= 580 {
            thread["histogram"] = serde_json::json!({"7": 1});
        }
        threads.insert(number.to_string(), thread);
    }
    let threads = serde_json::json!({"cmdline": "cyclictest -i 500", "thread": threads});
    std::fs::write(&file, threads.to_string()).unwrap();
    let ran = Osjitter::new(["report", "-", "--format", "svg"]).input(&file);
    let ran = ran.out("drawn").run().exits(0);
    assert!(!ran.stderr.contains("are drawn"), "{}", ran.stderr);
    assert_eq!(count_histograms(&ran), 20);
}

/// Returns the number of pictures with the histogram of a subject.
fn count_histograms(ran: &Ran) -> usize {
    let pictures = std::fs::read_dir(ran.path("drawn")).unwrap();
    let names = pictures.map(|picture| picture.unwrap().file_name());
    names.filter(|name| name.to_string_lossy().starts_with("histogram-")).count()
}

/// Returns the command on the page of a run, as words.
fn command(page: &str) -> Vec<String> {
    let (_, rest) = page.split_once("<pre class=\"command\">").expect("a command");
    let (html, _) = rest.split_once("</pre>").unwrap();
    let text = html.replace("<span>", "").replace("</span>", "");
    text.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn command_repeats_the_plan() {
    for args in [
        "--ticks 30",
        "--period 1ms --period 2ms --duration 60ms --subject spin",
        "--period 1ms --period 2ms --ticks 30 --round-ticks 7 --warmup 4 --subject spin --subject os-sleep --no-samples",
        "--ticks 20 --subject os-interval --runtime current-thread --runtime multi-thread:1 --load none --load cpu:1",
        "--ticks 20 --subject os-sleep --subject nanosleep --instances 3 --cpu 0 --timer-slack 2us",
    ] {
        let args: Vec<&str> = args.split(' ').collect();
        let ran = run(&args).out("first").run().exits(0);
        let page = ran.file("first/report.html");
        let command = command(&page);
        assert_eq!(command[..2], ["osjitter", "run"]);
        assert!(command.len() <= args.len() + 2, "{command:?} is longer than {args:?}");
        let flags: Vec<&str> = command[2..].iter().map(String::as_str).collect();
        let plan = |args: &[&str]| {
            let text = run(args).args(["--print-plan", "--seed", "1"]).run().exits(0).stdout;
            let scenarios = text.find("[[scenario]]").expect("scenarios");
            text[scenarios..].to_owned()
        };
        let report = ran.path("first/report.json");
        assert_eq!(plan(&flags), plan(&["--plan", report.to_str().unwrap()]), "{command:?}");
    }
}

#[test]
fn every_picture_has_verdict_and_command() {
    let ran = run(&["--ticks", "60", "--svg"]).out("drawn").run().exits(0);
    let pictures: Vec<_> = std::fs::read_dir(ran.path("drawn"))
        .unwrap()
        .map(|file| file.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "svg"))
        .collect();
    assert!(pictures.len() > 10, "{pictures:?}");
    for path in &pictures {
        let svg = std::fs::read_to_string(path).unwrap();
        assert!(svg.contains("\nosjitter run --ticks 60\n"), "{}", path.display());
        assert!(svg.contains(" machine: ") || svg.contains(" machine\n"), "{}", path.display());
    }
    let card = Osjitter::new(["report", ran.path("drawn").to_str().unwrap(), "--format", "card"]);
    let card = card.run().exits(0).stdout;
    assert_eq!(card, ran.file("drawn/card.svg"));
    assert!(card.contains("width=\"1200\" height=\"630\""), "{card}");
    let report = Report::from_json(&ran.file("drawn/report.json")).unwrap();
    let has_row = |subject: &&Subject| card.contains(&format!("\n{}\n", subject.name));
    assert!(report.subjects.iter().filter(has_row).count() >= 2, "{card}");
}

#[test]
fn page_begins_with_the_answer() {
    let args = ["report", "tests/fixtures/report.json", "--format", "html"];
    let page = Osjitter::new(args).run().exits(0).stdout;
    assert!(
        page.contains(
            "<title>os-interval and 2 more, 1ms, 2026-11-21 08:44, AMD EPYC - osjitter</title>"
        ),
        "{page}"
    );
    let positions = [
        "<h1>os-interval was 559 us late at p99 and used 3.3 % of one core.",
        "<pre class=\"command\"><span>osjitter run</span> <span>--period 1ms</span>",
        "<table class=\"numbers\">",
        "<div class=\"chart tradeoff\">",
        "<div class=\"chart percentiles\">",
        "<ul class=\"answers\">",
    ]
    .map(|part| page.find(part));
    assert!(positions.iter().all(Option::is_some) && positions.is_sorted(), "{positions:?}");
}

/// Draws every picture of a file.
fn draw(file: &str) -> BTreeMap<String, String> {
    let file = root().join(file);
    let file = file.to_str().expect("UTF-8");
    let ran = Osjitter::new(["report", file, "--format", "svg"]).out("pictures").run().exits(0);
    let mut pictures = BTreeMap::new();
    if ran.path("pictures").is_file() {
        pictures.insert("picture.svg".to_owned(), ran.file("pictures"));
        return pictures;
    }
    for entry in std::fs::read_dir(ran.path("pictures")).expect("a directory") {
        let path = entry.expect("a picture").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        pictures.insert(name, std::fs::read_to_string(path).expect("a picture"));
    }
    pictures
}

/// Returns the texts of a picture, with those of a wrapped line joined.
fn texts(svg: &str) -> String {
    let document = roxmltree::Document::parse(svg).expect("XML");
    let texts = document.descendants().filter(|node| node.has_tag_name("text"));
    let texts: Vec<&str> = texts.filter_map(|node| node.text()).map(str::trim).collect();
    texts.join(" ")
}

#[test]
fn titles_of_pictures_are_answers() {
    let names = ["report", "clock", "dispatch", "timeout", "cyclictest", "oslat"];
    let mut files: Vec<String> =
        names.iter().map(|name| format!("tests/fixtures/{name}.json")).collect();
    let find = "results/2026-11-27-epyc-kvm-2cpu-find/find.json";
    files.extend(root().join(find).exists().then(|| find.to_owned()));
    for file in files {
        let pictures = draw(&file);
        assert!(!pictures.is_empty(), "{file}");
        for (name, svg) in pictures {
            let document = roxmltree::Document::parse(&svg).expect("XML");
            let image = document.root_element();
            assert_eq!(image.attribute("role"), Some("img"), "{file}: {name}");
            let title = image.children().find(|node| node.has_tag_name("title"));
            let title = title.and_then(|title| title.text()).expect("a title");
            // A sentence with a figure, which the picture shows first.
            let is_answer = title.ends_with('.') && title.contains(|c: char| c.is_ascii_digit());
            assert!(is_answer, "{file}: {name}: {title}");
            let beginning: Vec<&str> = title.split_whitespace().take(4).collect();
            assert!(texts(&svg).contains(&beginning.join(" ")), "{file}: {name}: {title}");
        }
    }
}

#[test]
fn captions_match_what_is_drawn() {
    let report = draw("tests/fixtures/report.json");
    let import = draw("tests/fixtures/cyclictest.json");
    assert!(texts(&import["percentiles.svg"]).contains("Hatched"));
    assert!(!texts(&report["percentiles.svg"]).contains("Hatched"));
    // Each of the three curves has four marks, and one in the legend.
    let svg = &report["percentiles.svg"];
    assert!(svg.matches("<circle").count() + svg.matches("<polygon").count() >= 3 * 5, "{svg}");
    assert!(!texts(&report["tradeoff.svg"]).contains("Ringed"), "nothing is clearly better");
    assert!(!report["tradeoff.svg"].contains("r=\"10\""));
}

#[test]
fn pictures_without_values_are_left_out() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let file = home.path().join("cyclictest.txt");
    let line = "T: 0 (1) P:95 I:500 C:  20000 Min:      1 Act:    3 Avg:    4 Max:      57\n";
    std::fs::write(&file, line).expect("a file");
    let pictures = draw(file.to_str().expect("UTF-8"));
    assert_eq!(pictures.keys().collect::<Vec<_>>(), ["card.svg"]);
}
