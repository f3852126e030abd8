//! Tests meters of another process: how they are found, read, swept and measured.
#![cfg(all(unix, not(loom)))]
#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "the test makes its own deadlines, and its processes print"
)]

use std::io::{BufRead, BufReader, Write as _};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tickmeter::read::{self, File};
use tickmeter::{ENV_DIRECTORY, Meter};

const PERIOD: Duration = Duration::from_millis(1);

/// The process of [`killed_meters_stay_readable_until_swept`].
#[test]
#[ignore = "runs as a process of another test"]
fn service() {
    if std::env::var_os(ENV_DIRECTORY).is_none() {
        return;
    }
    let mut meters = [(); 2].map(|()| Meter::register("loop", PERIOD).unwrap());
    for _ in 0..5 {
        meters[1].tick(Instant::now());
    }
    println!("\nready {}", std::process::id());
    // Runs until it is killed or its parent has ended.
    let _ = std::io::stdin().read_line(&mut String::new());
}

/// Lateness of the second loop of [`endless`]. No machine is so busy that the first one is as late.
const SECOND_LATENESS: Duration = Duration::from_secs(600);

/// The process of the tests of a measured program: two loops that tick `TICKS` times, or forever.
/// The period of the second is twice that of the first, or `SECOND_PERIOD_MS`.
#[test]
#[ignore = "runs as a process of other tests"]
fn endless() {
    if std::env::var_os("OSJITTER_OUT").is_none() {
        return;
    }
    let number = |name| std::env::var(name).map(|text| text.parse::<u64>().unwrap());
    let second = number("SECOND_PERIOD_MS").map_or(2 * PERIOD, Duration::from_millis);
    let mut meters = [("first", PERIOD), ("second", second)]
        .map(|(name, period)| Meter::register(name, period).unwrap());
    let ticks = number("TICKS").unwrap_or(u64::MAX);
    for _ in 0..ticks {
        meters[0].tick(Instant::now());
        meters[1].ticks(Instant::now() - SECOND_LATENESS, 2);
    }
    println!("\n{COMPLETED}");
}

/// The process of [`rounds_over_stdin_share_a_process`].
#[test]
#[ignore = "runs as a process of another test"]
fn rounds() {
    if std::env::var_os("OSJITTER_OUT").is_none() {
        return;
    }
    for round in tickmeter::rounds() {
        let mut meter = Meter::register("loop", PERIOD).unwrap();
        // A loop may tick once more than it needs to.
        for _ in 0..=round.ticks() {
            meter.tick(Instant::now());
        }
    }
    println!("\n{COMPLETED}");
}

#[test]
fn rounds_over_stdin_share_a_process() {
    let file = format!("tickmeter-rounds-{}", std::process::id());
    let out = std::env::temp_dir().join(file);
    let mut process = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "rounds", "--ignored", "--nocapture"])
        .env(ENV_DIRECTORY, out.with_extension("meters"))
        .envs([("OSJITTER_TICKS", "1"), ("OSJITTER_WARMUP", "0"), ("OSJITTER_ROUNDS", "stdin")])
        .envs([("OSJITTER_SERIES", "ticks"), ("OSJITTER_PERIOD_NS", "1000000")])
        .env("OSJITTER_OUT", &out)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut requests = process.stdin.take().unwrap();
    let mut lines = BufReader::new(process.stdout.take().unwrap()).lines().map(Result::unwrap);
    // The test harness writes lines of its own.
    assert!(lines.any(|line| line.ends_with("osjitter.requests/1 ready")));
    for ticks in [20, 1, 5] {
        writeln!(requests, "ticks={ticks} warmup=3").unwrap();
        assert!(lines.any(|line| line == "osjitter.requests/1 done"));
        let series = std::fs::read_to_string(&out).unwrap();
        assert!(series.starts_with("osjitter.series/1 period_ns=1000000\n"), "{series}");
        assert_eq!(lines_of_ticks(&series).count(), ticks);
        std::fs::remove_file(&out).unwrap();
    }
    drop(requests);
    assert!(lines.any(|line| line == COMPLETED));
    assert!(process.wait().unwrap().success());
    let _ = std::fs::remove_dir_all(out.with_extension("meters"));
}

/// Returns the lines of a series that are ticks.
fn lines_of_ticks(series: &str) -> impl Iterator<Item = &str> {
    series.lines().skip(1).filter(|line| !line.starts_with("usage "))
}

/// Printed by [`endless`] if the meter did not end it.
const COMPLETED: &str = "completed all ticks";

/// Result of a measured process.
struct MeasuredProcess {
    code: Option<i32>,
    series: Option<String>,
    stdout: String,
    stderr: String,
    /// Number of meters whose files are left.
    meters: usize,
}

impl MeasuredProcess {
    /// Runs [`endless`] and requests 20 ticks of 1 ms after a warm-up of 3. `name` identifies the
    /// files of the test.
    fn run(name: &str, variables: &[(&str, &str)]) -> Self {
        let file = format!("tickmeter-measured-{}-{name}", std::process::id());
        let out = std::env::temp_dir().join(file);
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "endless", "--ignored", "--nocapture"])
            .env(ENV_DIRECTORY, out.with_extension("meters"))
            .envs([("OSJITTER_TICKS", "20"), ("OSJITTER_WARMUP", "3")])
            .env("OSJITTER_PERIOD_NS", "1000000")
            .env("OSJITTER_OUT", &out)
            .envs(variables.iter().copied())
            .output()
            .unwrap();
        let series = std::fs::read_to_string(&out).ok();
        let _ = std::fs::remove_file(&out);
        let meters = std::fs::read_dir(out.with_extension("meters")).unwrap().count();
        std::fs::remove_dir_all(out.with_extension("meters")).unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        let (stdout, stderr) = (text(output.stdout), text(output.stderr));
        Self { code: output.status.code(), series, stdout, stderr, meters }
    }

    /// Returns the lateness of each tick in the series, which has this period.
    #[track_caller]
    fn lateness_ns(&self, period_ns: u64) -> Vec<i64> {
        assert_eq!(self.code, Some(0), "{}", self.stderr);
        let series = self.series.as_ref().expect("a series");
        let header = format!("osjitter.series/1 period_ns={period_ns}");
        assert_eq!(series.lines().next(), Some(header.as_str()));
        lines_of_ticks(series).map(|line| line.parse().unwrap()).collect()
    }

    fn has_completed(&self) -> bool {
        self.stdout.contains(COMPLETED)
    }
}

/// The process of [`file_size_limit_is_survived`].
#[test]
#[ignore = "runs as a process of another test"]
fn limited() {
    if std::env::var_os(ENV_DIRECTORY).is_none() {
        return;
    }
    let mut meter = Meter::register("limited", PERIOD).unwrap();
    meter.tick(Instant::now());
    println!("\n{} tick, {:?}", meter.snapshot().ticks, meter.place());
}

#[test]
fn file_size_limit_is_survived() {
    let name = format!("tickmeter-limited-{}", std::process::id());
    let directory = std::env::temp_dir().join(name);
    let run = |test: &str, variables: &[(&str, &str)]| {
        Command::new("sh")
            .args(["-c", "ulimit -f 0; exec \"$0\" \"$@\""])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", test, "--ignored", "--nocapture"])
            .env(ENV_DIRECTORY, &directory)
            .env("OSJITTER_OUT", directory.join("series"))
            .env("OSJITTER_PERIOD_NS", "1000000")
            .envs(variables.iter().copied())
            .output()
            .unwrap()
    };
    let output = run("limited", &[]);
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(stdout.contains("1 tick, Private(Refused("), "{output:?}");
    // The meter cannot write a series, and ends the program that osjitter runs with an error.
    let output = run("endless", &[WITH_SERIES, ("OSJITTER_TICKS", "20")]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("tickmeter: cannot write"));
    assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 0, "no file is left");
    std::fs::remove_dir(directory).unwrap();
}

/// A file system with room for the headers of some meters, but not for the ticks of one.
#[test]
#[cfg(target_os = "linux")]
fn full_file_system_is_survived() {
    let name = format!("tickmeter-full-{}", std::process::id());
    let directory = std::env::temp_dir().join(name);
    std::fs::create_dir(&directory).unwrap();
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c"])
        .arg("mount -t tmpfs -o size=40k,mode=0700 none \"$TICKMETER_DIR\" || exit 77; exec \"$0\" \"$@\"")
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "limited", "--ignored", "--nocapture"])
        .env(ENV_DIRECTORY, &directory)
        .output();
    std::fs::remove_dir(&directory).unwrap();
    // Only some systems let a process mount a file system.
    let Ok(output) = output else { return };
    let (stdout, stderr) =
        [&output.stdout, &output.stderr].map(|b| String::from_utf8_lossy(b)).into();
    if output.status.success() {
        assert!(stdout.contains("1 tick, Private(Refused("), "{output:?}");
        assert!(stdout.contains("StorageFull"), "{output:?}");
    } else {
        let is_refused = stderr.contains("unshare:") || output.status.code() == Some(77);
        assert!(is_refused, "{output:?}");
    }
}

/// Requests a series.
const WITH_SERIES: (&str, &str) = ("OSJITTER_SERIES", "ticks");

#[test]
fn measured_process_ends_after_its_ticks() {
    let process = MeasuredProcess::run("first", &[WITH_SERIES]);
    let lateness_ns = process.lateness_ns(1_000_000);
    assert_eq!(lateness_ns.len(), 20);
    assert!(lateness_ns.iter().all(|ns| (0..500_000_000_000).contains(ns)), "{lateness_ns:?}");
    assert!(!process.has_completed(), "{}", process.stdout);
    assert_eq!(process.meters, 0, "files of meters are left");
}

#[test]
fn meter_is_selected_by_request() {
    for (name, variable) in
        [("period", ("OSJITTER_PERIOD_NS", "2000000")), ("named", ("OSJITTER_METER", "second"))]
    {
        let process = MeasuredProcess::run(name, &[WITH_SERIES, variable]);
        let lateness_ns = process.lateness_ns(2_000_000);
        assert_eq!(lateness_ns.len(), 20);
        assert!(lateness_ns.iter().all(|&ns| ns > 500_000_000_000), "{lateness_ns:?}");
        // Two ticks come with each wake-up, the second due a period later. The warm-up ends between
        // two.
        for pair in lateness_ns[1..].chunks_exact(2) {
            assert_eq!(pair[0] - pair[1], 2_000_000, "{lateness_ns:?}");
        }
    }
}

#[test]
fn unclear_request_lists_the_meters() {
    let [twin, other] = ["1", "5"].map(|period_ms| ("SECOND_PERIOD_MS", period_ms));
    let no_such_period = ("OSJITTER_PERIOD_NS", "7000000");
    for (name, variables, second) in [
        ("twins", &[WITH_SERIES, twin][..], "second (1ms)"),
        ("unmatched", &[WITH_SERIES, other, no_such_period], "second (5ms)"),
        ("unnamed", &[WITH_SERIES, ("OSJITTER_METER", "third")], "second (2ms)"),
    ] {
        let process = MeasuredProcess::run(name, variables);
        let message = process.stderr.lines().find(|line| line.starts_with("tickmeter: "));
        let message = message.unwrap_or_else(|| panic!("{name}: {}", process.stderr));
        assert!(message.contains(&format!("first (1ms), {second}")), "{name}: {message}");
        assert_eq!((process.code, process.series.as_ref()), (Some(1), None), "{name}");
        assert_eq!(process.meters, 0, "{name}: files of meters are left");
        assert!(!process.has_completed(), "{name}: {}", process.stdout);
    }
}

#[test]
fn finite_process_writes_its_ticks() {
    for (ticks, written) in [("23", 20), ("10", 7)] {
        let process = MeasuredProcess::run(ticks, &[WITH_SERIES, ("TICKS", ticks)]);
        assert_eq!(process.lateness_ns(1_000_000).len(), written, "{ticks}");
        assert!(process.has_completed(), "{}", process.stdout);
    }
}

#[test]
fn unmeasured_process_completes() {
    let own_metrics = ("OSJITTER_SERIES", "");
    let unknown_meter = ("OSJITTER_METER", "third");
    let variables = [vec![own_metrics], vec![WITH_SERIES, unknown_meter]];
    for (name, mut variables) in ["metrics", "unknown"].into_iter().zip(variables) {
        variables.push(("TICKS", "100"));
        let run = || MeasuredProcess::run(name, &variables);
        // On a busy machine, the ticks may take longer than the meter waits for the unknown one.
        let is_refused = |process: &MeasuredProcess| {
            process.code == Some(1) && process.stderr.contains("no meter is called \"third\"")
        };
        let mut process = run();
        for _ in 0..10 {
            if !is_refused(&process) {
                break;
            }
            process = run();
        }
        assert_eq!(process.code, Some(0), "{name}: {}", process.stderr);
        assert!(process.series.is_none() && process.has_completed(), "{name}: {}", process.stdout);
    }
}

/// Waits until [`service`] has registered its meters.
fn wait_until_ready(child: &mut Child) {
    let ready = format!("ready {}", child.id());
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.any(|line| line == ready), "the process is not ready");
}

#[test]
fn killed_meters_stay_readable_until_swept() {
    let directory = std::env::temp_dir().join(format!("tickmeter-process-{}", std::process::id()));
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "service", "--ignored", "--nocapture"])
        .env(ENV_DIRECTORY, &directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    wait_until_ready(&mut child);
    let paths = read::list(&directory).unwrap();
    let mut files: Vec<File> = paths.iter().map(|path| File::open(path).unwrap()).collect();
    let snapshots: Vec<_> = files.iter_mut().map(|file| file.snapshot().unwrap()).collect();
    let meters: Vec<_> = snapshots.iter().map(|s| (s.name.as_str(), s.pid, s.ticks)).collect();
    assert_eq!(meters, [("loop", child.id(), 0), ("loop-2", child.id(), 5)]);
    assert!(files.iter().all(File::is_alive) && read::sweep(&directory) == 0);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!files.iter().any(File::is_alive));
    assert_eq!(files[1].snapshot().unwrap().ticks, 5, "the records are still readable");
    assert_eq!((read::sweep(&directory), read::list(&directory).unwrap().len()), (2, 0));
    std::fs::remove_dir(directory).unwrap();
}
