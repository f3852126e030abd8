//! `osjitter monitor`: started, scraped, starved of its disk, and killed.
#![cfg(unix)]

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use tickmeter::ENV_DIRECTORY;

use crate::osjitter::{Osjitter, Running};
use crate::schema;
use crate::top::Metered;

/// A monitor whose meters are in `home`, and which ends by itself should a test fail. Nothing is
/// stretched: how much CPU time it takes is another test's.
fn monitor(home: &Path, args: &[&str]) -> Osjitter {
    Osjitter::new(["monitor", "--budget", "400%"].iter().chain(args))
        .env(ENV_DIRECTORY, home.join("meters"))
}

fn started(home: &Path, args: &[&str]) -> Running {
    monitor(home, args).args(["--duration", "5m"]).start()
}

/// Polls until there is something.
#[allow(clippy::disallowed_methods, reason = "it waits for a process")]
fn awaited<T>(mut poll: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = poll() {
            return found;
        }
        assert!(began.elapsed() < Duration::from_secs(600), "it does not come");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The files of a log with that ending, the oldest first.
fn files(log: &Path, ending: &str) -> Vec<PathBuf> {
    let days = std::fs::read_dir(log).into_iter().flatten().flatten();
    let all = days.flat_map(|day| std::fs::read_dir(day.path()).into_iter().flatten().flatten());
    let mut files: Vec<PathBuf> = all.map(|file| file.path()).collect();
    files.retain(|file| file.to_string_lossy().ends_with(ending));
    files.sort();
    files
}

type Row = BTreeMap<String, String>;

/// The rows of a file, each as long as its heading.
#[track_caller]
fn rows(file: &Path) -> Vec<Row> {
    let text = std::fs::read_to_string(file).unwrap();
    assert!(text.ends_with('\n'), "{} is cut off", file.display());
    let mut lines = text.lines().map(|line| line.split(',').map(str::to_owned).collect::<Vec<_>>());
    let heading = lines.next().unwrap();
    let row = |line: Vec<String>| {
        assert_eq!(line.len(), heading.len(), "{}", file.display());
        heading.iter().cloned().zip(line).collect()
    };
    lines.map(row).collect()
}

fn number(row: &Row, column: &str) -> i64 {
    row[column].parse().unwrap_or_else(|_| panic!("{column} of {row:?}"))
}

/// All intervals of a log, held against their bins.
#[track_caller]
fn intervals(log: &Path) -> Vec<Row> {
    let all: Vec<Row> = files(log, ".intervals.csv").iter().flat_map(|file| rows(file)).collect();
    let bins: Vec<Row> = files(log, ".bins.csv").iter().flat_map(|file| rows(file)).collect();
    const KEY: [&str; 8] =
        ["host", "subject", "period_ns", "runtime", "labels", "start", "duration_ns", "run_id"];
    let key = |row: &Row| KEY.map(|column| row[column].clone());
    let mut by_key: BTreeMap<[String; 8], Vec<&Row>> = BTreeMap::new();
    bins.iter().for_each(|bin| by_key.entry(key(bin)).or_default().push(bin));
    for row in &all {
        let of = by_key.remove(&key(row)).unwrap_or_default();
        let [ticks, delivered, coalesced, skipped, early] =
            ["ticks", "delivered", "coalesced", "skipped", "early"]
                .map(|column| number(row, column));
        assert_eq!(
            of.iter().map(|bin| number(bin, "count")).sum::<i64>(),
            ticks - skipped,
            "{row:?}"
        );
        assert_eq!((delivered + coalesced + skipped, early), (ticks, 0), "{row:?}");
        if let Some(last) = of.iter().max_by_key(|bin| number(bin, "lower_ns")) {
            let [lower, upper] = ["lower_ns", "upper_ns"].map(|column| number(last, column));
            assert!((lower..=upper).contains(&number(row, "max_ns")), "{row:?} {last:?}");
        }
    }
    assert!(by_key.is_empty(), "bins of no interval: {:?}", by_key.keys());
    assert_eq!(
        all.iter().map(key).collect::<BTreeSet<_>>().len(),
        all.len(),
        "no interval is there twice"
    );
    all
}

/// One exchange with a listener.
fn asked(address: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn address(running: &mut Running) -> String {
    let line = running.says("metrics: http://");
    line.split("http://").nth(1).unwrap().trim_end_matches("/metrics").to_owned()
}

/// Samples by name and labels.
fn scraped(address: &str) -> BTreeMap<String, f64> {
    let accept = "Accept: application/openmetrics-text; version=1.0.0";
    let answer = asked(address, &format!("GET /metrics HTTP/1.1\r\nHost: a\r\n{accept}\r\n\r\n"));
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 ") && head.contains("openmetrics-text"), "{head}");
    assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())), "{head}");
    assert!(body.ends_with("# EOF\n"), "{body}");
    let samples = body.lines().filter(|line| !line.starts_with('#'));
    let pairs = samples.map(|line| line.rsplit_once(' ').unwrap());
    pairs.map(|(name, value)| (name.to_owned(), value.parse().unwrap())).collect()
}

#[test]
fn every_tick_of_a_metered_program_is_in_one_interval_and_in_the_scrape() {
    let home = tempfile::tempdir().unwrap();
    let log = home.path().join("log");
    let args = [
        "--interval",
        "1s",
        "--listen",
        "127.0.0.1:0",
        "--label",
        "rack=r7",
        "--host",
        "a,b",
        "--log",
    ];
    let mut running = started(home.path(), &[&args[..], &[log.to_str().unwrap()]].concat());
    let address = address(&mut running);
    let program = Metered::ticking(&home.path().join("meters"), 700);
    // What is no meter stands beside it.
    std::fs::write(home.path().join("meters/1.tickmeter"), "not a meter").unwrap();
    let count = |samples: &BTreeMap<String, f64>, name: &str, loop_of: &str| {
        samples
            .iter()
            .find(|(key, _)| key.starts_with(name) && key.contains(loop_of))
            .map_or(0.0, |(_, value)| *value)
    };
    let samples = awaited(|| {
        let samples = scraped(&address);
        let ticked = count(&samples, "osjitter_ticks_total", "meter=\"control-loop\"");
        (ticked == 700.0 && count(&samples, "osjitter_intervals_closed_total", "") >= 2.0)
            .then_some(samples)
    });
    running.says("1.tickmeter is not a meter's file");

    let histograms: BTreeSet<&str> = samples
        .keys()
        .filter_map(|key| key.strip_prefix("osjitter_lateness_seconds_count{"))
        .collect();
    assert_eq!(histograms.len(), 4, "two probes, two meters: {histograms:?}");
    for labels in histograms {
        let labels = labels.trim_end_matches('}');
        let bucket = format!("osjitter_lateness_seconds_bucket{{{labels},le=\"");
        let mut buckets: Vec<(f64, f64)> = samples
            .iter()
            .filter_map(|(key, value)| {
                let end = key.strip_prefix(&bucket)?.trim_end_matches("\"}");
                Some((end.parse().unwrap(), *value))
            })
            .collect();
        buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
        assert!(
            buckets.len() > 10 && buckets.is_sorted_by(|a, b| a.1 <= b.1),
            "{labels}: {buckets:?}"
        );
        let counted = samples[&format!("osjitter_lateness_seconds_count{{{labels}}}")];
        assert_eq!(buckets.last(), Some(&(f64::INFINITY, counted)), "{labels}");
        assert!(
            samples.contains_key(&format!("osjitter_lateness_seconds_sum{{{labels}}}")),
            "{labels}"
        );
    }
    assert!(
        samples["osjitter_cpu_seconds_total"] > 0.0
            && count(&samples, "osjitter_info", "version") == 1.0
    );

    // Somebody who says nothing keeps nobody waiting; what is no scrape is answered.
    let silent = TcpStream::connect(&address).unwrap();
    for (request, status) in [
        ("GET /metrics HTTP/1.1\r\n\r\n", "200"),
        ("GET /metrics HTTP/1.1\r\nAccept: application/unheard-of; a=\"b, */*;q\r\n\r\n", "200"),
        ("GET /other HTTP/1.1\r\n\r\n", "404"),
        ("POST /metrics HTTP/1.1\r\n\r\n", "405"),
        ("hello\r\n\r\n", "400"),
    ] {
        assert!(asked(&address, request).starts_with(&format!("HTTP/1.1 {status} ")), "{request}");
    }
    let protobuf = "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited";
    let asked_for =
        format!("HEAD /metrics HTTP/1.1\r\nAccept: text/plain;q=0.5, {protobuf}\r\n\r\n");
    assert!(asked(&address, &asked_for).contains(&format!("Content-Type: {protobuf}\r\n")));
    let long = format!("GET /metrics HTTP/1.1\r\nA: {}", "a".repeat(20_000));
    let mut stream = TcpStream::connect(&address).unwrap();
    let _ = stream.write_all(long.as_bytes());
    let mut status = [0; 12];
    stream.read_exact(&mut status).unwrap();
    assert_eq!(&status, b"HTTP/1.1 431");
    drop(silent);

    running.signal("TERM");
    let ran = running.ends().exits(0);
    assert_eq!(ran.stdout, "");
    let all = intervals(&log);
    let of = |subject: &str| all.iter().filter(|row| row["subject"] == subject).collect::<Vec<_>>();
    assert_eq!(of("control-loop").iter().map(|row| number(row, "ticks")).sum::<i64>(), 700);
    assert!(of("control-loop-2").iter().all(|row| row["max_ns"].is_empty() && row["ticks"] == "0"));
    for row in &all {
        assert_eq!((row["host"].as_str(), row["schema_version"].as_str()), ("a_b", "1"));
        assert!(row["start"].ends_with('Z') && row["start"].len() == 27, "{row:?}");
        let labels = row["labels"].as_str();
        let probe = matches!(row["subject"].as_str(), "os-interval" | "nanosleep");
        assert!(
            if probe { labels == "rack=r7" } else { labels.starts_with("program=it-") },
            "{row:?}"
        );
        assert!(!probe || !cfg!(target_os = "linux") || number(row, "cpu_ns") > 0, "{row:?}");
        assert!(probe || row["cpu_ns"].is_empty(), "another program's is not known: {row:?}");
    }
    assert!(of("os-interval").len() >= 3 && of("os-interval")[0]["runtime"] == "current-thread");
    assert_eq!(all.iter().map(|row| &row["run_id"]).collect::<BTreeSet<_>>().len(), 1);
    drop(program);
}

#[test]
fn sigterm_writes_the_open_interval_and_leaves_no_meter() {
    let home = tempfile::tempdir().unwrap();
    let log = home.path().join("log");
    let args = ["--period", "1ms", "--listen", "0", "--log", log.to_str().unwrap()];
    let mut running = started(home.path(), &args);
    let address = address(&mut running);
    let ticked = |samples: BTreeMap<String, f64>| {
        let ticks: Vec<f64> = samples
            .iter()
            .filter(|(key, _)| key.starts_with("osjitter_ticks_total"))
            .map(|(_, n)| *n)
            .collect();
        (ticks.len() == 2 && ticks.iter().all(|n| *n > 0.0)).then_some(())
    };
    awaited(|| ticked(scraped(&address)));
    assert_eq!(
        tickmeter::read::list(&home.path().join("meters")).unwrap().len(),
        2,
        "top shows them, too"
    );
    running.signal("TERM");
    let ran = running.ends().exits(0);
    assert!(ran.stderr.contains("ended after 1 interval"), "{}", ran.stderr);
    let all = intervals(&log);
    assert_eq!(all.len(), 2);
    assert!(all.iter().all(|row| number(row, "ticks") > 0));
    assert_eq!(tickmeter::read::list(&home.path().join("meters")).unwrap().len(), 0);
}

#[test]
#[allow(clippy::disallowed_methods, reason = "moments to be killed at")]
fn killed_at_any_moment_it_leaves_whole_files() {
    let home = tempfile::tempdir().unwrap();
    let log = home.path().join("log");
    let mut all: Vec<Running> = (0..6)
        .map(|n| {
            let host = format!("host-{n}");
            let args = [
                "--interval",
                "1s",
                "--no-meters",
                "--host",
                &host,
                "--log",
                log.to_str().unwrap(),
            ];
            let mut running = started(home.path(), &args);
            running.says("log: ");
            running
        })
        .collect();
    awaited(|| (!files(&log, ".bins.csv").is_empty()).then_some(()));
    // Around the next ends of intervals, which all have at the same time.
    while let Some(running) = all.pop() {
        std::thread::sleep(Duration::from_millis(170));
        running.kill();
        files(&log, ".csv").iter().for_each(|file| drop(rows(file)));
    }
    // Between the two of a pair is a moment, too.
    for file in files(&log, ".intervals.csv") {
        if !Path::new(&file.to_string_lossy().replace(".intervals.", ".bins.")).exists() {
            std::fs::remove_file(file).unwrap();
        }
    }
    assert!(!intervals(&log).is_empty());
}

#[test]
fn a_broken_limit_is_said_counted_and_written() {
    let home = tempfile::tempdir().unwrap();
    let log = home.path().join("log");
    // No tick is on time to the nanosecond; no day is a millisecond late.
    let limits = ["--limit", "nanosleep:max=1ns", "--limit", "max=24h", "--limit", "missed=99%"];
    let args = ["--interval", "1s", "--listen", "127.0.0.1:0", "--log", log.to_str().unwrap()];
    let mut running = started(home.path(), &[&limits[..], &args[..]].concat());
    let line = running.says("limit broken");
    assert!(
        line.starts_with("limit broken: nanosleep@10ms: nanosleep:max=1ns, measured "),
        "{line}"
    );
    let address = address(&mut running);
    let key = "osjitter_limit_breaches_total{subject=\"nanosleep\",period=\"0.01\",limit=\"nanosleep:max=1ns\"}";
    let broken = |samples: BTreeMap<String, f64>| samples.get(key).copied();
    assert!(awaited(|| broken(scraped(&address))) >= 1.0);
    let file = awaited(|| files(&log, ".breaches.json").first().cloned());
    running.signal("INT");
    let ran = running.ends().exits(0);
    assert!(!ran.stderr.contains("os-interval@"), "{}", ran.stderr);
    let breaches = schema::valid(&std::fs::read_to_string(file).unwrap(), "breaches.1");
    let breach = &breaches["breaches"][0];
    assert_eq!((&breach["subject"], &breach["limit"]), (&"nanosleep".into(), &1.0.into()));
    let late = breach["late"].as_array().unwrap();
    assert!(!late.is_empty() && late.len() <= 128, "{breaches:#}");
    assert!(
        late.iter().any(|tick| tick["lateness_ns"].as_f64() == breach["value"].as_f64())
            || late.len() == 128
    );
}

#[test]
fn a_disk_that_vanishes_costs_intervals_and_not_the_monitor() {
    let home = tempfile::tempdir().unwrap();
    let log = home.path().join("log");
    let mut running =
        started(home.path(), &["--interval", "1s", "--no-meters", "--log", log.to_str().unwrap()]);
    awaited(|| files(&log, ".bins.csv").first().cloned());
    std::fs::rename(&log, home.path().join("gone")).unwrap();
    let line = running.says(" is lost: ");
    assert!(line.starts_with("the interval of 20"), "{line}");
    assert!(!log.exists(), "it makes no directory where a disk was");
    // It comes back, and so do the intervals.
    std::fs::rename(home.path().join("gone"), &log).unwrap();
    let there = files(&log, ".bins.csv").len();
    awaited(|| (files(&log, ".bins.csv").len() > there).then_some(()));
    running.signal("TERM");
    let ran = running.ends().exits(4);
    assert!(ran.stderr.contains("intervals could not be written"), "{}", ran.stderr);
    intervals(&log);
}

#[test]
fn a_full_disk_leaves_no_half_of_a_file() {
    let home = tempfile::tempdir().unwrap();
    let log = home.path().join("log");
    // Nothing can be written to any file: neither to a meter's, so that the probes' are private.
    let script = r#"trap "" XFSZ; ulimit -f 0; exec "$0" "$@""#;
    let ran = Command::new("sh")
        .args([
            "-c",
            script,
            env!("CARGO_BIN_EXE_osjitter"),
            "monitor",
            "--interval",
            "1s",
            "--duration",
            "2500ms",
        ])
        .args(["--budget", "400%", "--log"])
        .arg(&log)
        .env(ENV_DIRECTORY, home.path().join("meters"))
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(4), "{stderr}");
    assert!(
        stderr.contains(" is lost: ") && stderr.contains("intervals could not be written"),
        "{stderr}"
    );
    assert_eq!(files(&log, ""), Vec::<PathBuf>::new(), "{stderr}");
}

#[test]
fn a_budget_is_kept_by_longer_periods() {
    let home = tempfile::tempdir().unwrap();
    let log = home.path().join("log");
    let args = [
        "monitor",
        "--budget",
        "0.001%",
        "--interval",
        "1s",
        "--no-meters",
        "--duration",
        "5m",
        "--log",
    ];
    let mut running =
        Osjitter::new(args).args([&log]).env(ENV_DIRECTORY, home.path().join("meters")).start();
    let line = running.says("lengthened");
    assert!(
        line.ends_with("lengthened the periods of its probes: os-interval 20ms, nanosleep 20ms"),
        "{line}"
    );
    let stretched = |row: &Row| row["subject"] == "os-interval" && row["period_ns"] == "20000000";
    awaited(|| intervals_so_far(&log).iter().any(stretched).then_some(()));
    running.signal("TERM");
    running.ends().exits(0);
    let all = intervals(&log);
    assert!(all.iter().any(|row| row["period_ns"] == "10000000") && all.iter().any(stretched));
}

/// Rows that are there by now: the pair of an interval appears one after the other.
fn intervals_so_far(log: &Path) -> Vec<Row> {
    files(log, ".intervals.csv").iter().flat_map(|file| rows(file)).collect()
}

/// glibc begins an arena of a thread at a multiple of 64 MB, reserves as much, and makes it usable
/// bit by bit.
#[cfg(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64"))]
#[test]
fn scrapes_do_not_get_memory_of_their_own() {
    const ARENA: usize = 64 << 20;
    let home = tempfile::tempdir().unwrap();
    let mut running = started(home.path(), &["--no-meters", "--listen", "127.0.0.1:0"]);
    let address = address(&mut running);
    let silent: Vec<TcpStream> = (0..3).map(|_| TcpStream::connect(&address).unwrap()).collect();
    for _ in 0..20 {
        scraped(&address);
    }
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", running.id())).unwrap();
    let ends = |line: &str| {
        let (from, to) = line.split_once(' ')?.0.split_once('-')?;
        Some([from, to].map(|end| usize::from_str_radix(end, 16).unwrap()))
    };
    let mapped: Vec<[usize; 2]> = maps.lines().filter_map(ends).collect();
    let arenas = mapped.windows(2).filter(|pair| {
        let [[from, end], [next, to]] = [pair[0], pair[1]];
        from % ARENA == 0 && end == next && to == from + ARENA
    });
    assert_eq!(arenas.count(), 0, "{maps}");
    drop(silent);
    running.kill();
}

#[test]
fn old_intervals_go() {
    let home = tempfile::tempdir().unwrap();
    let log = home.path().join("log");
    let args = [
        "--interval",
        "1s",
        "--no-meters",
        "--keep",
        "2",
        "--duration",
        "5500ms",
        "--log",
        log.to_str().unwrap(),
    ];
    monitor(home.path(), &args).run().exits(0);
    assert_eq!([".bins.csv", ".intervals.csv"].map(|ending| files(&log, ending).len()), [2, 2]);
    intervals(&log);
}

#[test]
fn what_cannot_be_is_refused_before_anything_is_written() {
    let home = tempfile::tempdir().unwrap();
    let log = home.path().join("log");
    let file = home.path().join("file");
    std::fs::write(&file, "").unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let [log_name, file] = [&log, &file].map(|path| path.to_str().unwrap());
    for (args, says) in [
        (vec![], "--listen ADDR"),
        (vec!["--log", file], "--log"),
        (vec!["--listen", &taken], "address is in use"),
        (vec!["--listen", "nonsense"], "127.0.0.1:9891"),
        (vec!["--log", log_name, "--interval", "10ms"], "outside 1s to"),
        (vec!["--log", log_name, "--limit", "p98=1ms"], "expected one of p50"),
        (vec!["--log", log_name, "--interval", "1s", "--limit", "p99=1ms"], "needs 500 ticks"),
        (vec!["--log", log_name, "--budget", "0%"], "0.5%"),
        (vec!["--log", log_name, "--budget", "50%", "--subject", "spin"], "--budget 110%"),
        (vec!["--log", log_name, "--subject", "tokio-interval-delay"], "moves its grid"),
        (vec!["--log", log_name, "--label", "a=b", "--label", "a=c"], "given twice"),
        (vec!["--log", log_name, "--label", "a"], "rack=r7"),
        (vec!["--log", log_name, "--no-probes", "--no-meters"], "cannot be used with"),
        (vec!["--log", log_name, "--no-probes", "--subject", "spin"], "cannot be used with"),
        (vec!["--listen", "0", "--keep", "3"], "--log <DIR>"),
        (vec!["--log", log_name, "--subject", "wibble"], "unknown subject"),
    ] {
        let ran = Osjitter::new(["monitor"])
            .args(&args)
            .env(ENV_DIRECTORY, home.path().join("meters"))
            .run()
            .exits(2);
        assert!(ran.stderr.contains(says) && ran.stdout.is_empty(), "{args:?}: {}", ran.stderr);
    }
    assert!(!log.exists());
}
