//! Meters of another process, from outside: found, read, and swept once that was killed.
#![cfg(all(unix, not(loom)))]
#![allow(clippy::disallowed_methods, clippy::print_stdout, reason = "deadlines of a program's own")]

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tickmeter::read::{self, File};
use tickmeter::{ENV_DIRECTORY, Meter};

/// What the other process does: run by the test below, as a program of its own.
#[test]
#[ignore = "a process for the other test"]
fn service() {
    if std::env::var_os(ENV_DIRECTORY).is_none() {
        return;
    }
    let mut meters = [(); 2].map(|()| Meter::register("loop", Duration::from_millis(1)).unwrap());
    for _ in 0..5 {
        meters[1].tick(Instant::now());
    }
    println!("\nready {}", std::process::id());
    // Until it is killed, or its parent has gone.
    let _ = std::io::stdin().read_line(&mut String::new());
}

/// A loop without end, beside a meter that ticks less.
#[test]
#[ignore = "a process for the other test"]
fn endless() {
    if std::env::var_os("OSJITTER_OUT").is_none() {
        return;
    }
    let mut meters =
        ["first", "second"].map(|name| Meter::register(name, Duration::from_millis(1)).unwrap());
    let mut left = std::env::var("TICKS").map_or(u64::MAX, |ticks| ticks.parse().unwrap());
    while left > 0 {
        meters[0].tick(Instant::now());
        meters[1].ticks(Instant::now() - Duration::from_secs(5), 2);
        left -= 1;
    }
    println!("\nended by itself");
}

/// What the process above writes and says where it is asked for 20 ticks after 3.
fn measured(name: &str, more: &[(&str, &str)]) -> (Option<String>, String) {
    let out =
        std::env::temp_dir().join(format!("tickmeter-measured-{}-{name}", std::process::id()));
    let ran = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "endless", "--ignored", "--nocapture"])
        .env(ENV_DIRECTORY, out.with_extension("meters"))
        .envs([("OSJITTER_TICKS", "20"), ("OSJITTER_WARMUP", "3")])
        .env("OSJITTER_OUT", &out)
        .envs(more.iter().copied())
        .output()
        .unwrap();
    assert_eq!(ran.status.code(), Some(0), "{ran:?}");
    let text = std::fs::read_to_string(&out).ok();
    let _ = std::fs::remove_file(&out);
    let _ = std::fs::remove_dir_all(out.with_extension("meters"));
    (text, String::from_utf8(ran.stdout).unwrap())
}

#[test]
fn a_process_that_is_measured_writes_its_ticks_and_ends() {
    let ticks = ("OSJITTER_SERIES", "ticks");
    let lines = |text: Option<String>| -> Vec<i64> {
        let text = text.expect("a series");
        let mut lines = text.lines();
        assert_eq!(lines.next(), Some("osjitter.series/1 period_ns=1000000"));
        lines.map(|line| line.parse().unwrap()).collect()
    };
    let (series, said) = measured("first", &[ticks]);
    let first = lines(series);
    assert!(
        first.len() == 20 && first.iter().all(|&ns| (0..4_000_000_000).contains(&ns)),
        "{first:?}"
    );
    assert!(!said.contains("ended by itself"), "{said}");
    // The other meter, by name; two ticks come with each wake-up, the second due a period later.
    let second = lines(measured("second", &[ticks, ("OSJITTER_METER", "second")]).0);
    assert!(second.len() == 20 && second.iter().all(|&ns| ns > 4_000_000_000), "{second:?}");
    assert!(second[1..].chunks_exact(2).all(|pair| pair[0] - pair[1] == 1_000_000), "{second:?}");
    // One that counts its ticks ends by itself, and one that ends too soon says what it has.
    for (asked, kept) in [("23", 20), ("10", 7)] {
        let (series, said) = measured(asked, &[ticks, ("TICKS", asked)]);
        assert!(lines(series).len() == kept && said.contains("ended by itself"), "{said}");
    }
    // Where no ticks are wanted, or there is no such meter, nothing is written and nothing ends.
    for (name, more) in [("numbers", ("UNUSED", "")), ("nobody", ("OSJITTER_METER", "third"))] {
        let series = if name == "nobody" { ticks } else { ("OSJITTER_SERIES", "") };
        let (written, said) = measured(name, &[series, more, ("TICKS", "100")]);
        assert!(written.is_none() && said.contains("ended by itself"), "{name}: {said}");
    }
}

#[test]
fn meters_of_a_process_that_is_killed() {
    let directory = std::env::temp_dir().join(format!("tickmeter-process-{}", std::process::id()));
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "service", "--ignored", "--nocapture"])
        .env(ENV_DIRECTORY, &directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let ready = format!("ready {}", child.id());
    let said = BufReader::new(child.stdout.take().unwrap())
        .lines()
        .map_while(Result::ok)
        .any(|line| line == ready);
    assert!(said, "the process announces itself");
    let paths = read::list(&directory).unwrap();
    let mut files: Vec<File> = paths.iter().map(|path| File::open(path).unwrap()).collect();
    let snapshots: Vec<_> = files.iter_mut().map(|file| file.snapshot().unwrap()).collect();
    let seen: Vec<_> = snapshots.iter().map(|s| (s.name.as_str(), s.pid, s.ticks)).collect();
    assert_eq!(seen, [("loop", child.id(), 0), ("loop-2", child.id(), 5)]);
    assert!(files.iter().all(File::is_alive) && read::sweep(&directory) == 0);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!files.iter().any(File::is_alive));
    assert_eq!(files[1].snapshot().unwrap().ticks, 5, "what it had booked is still there");
    assert_eq!((read::sweep(&directory), read::list(&directory).unwrap().len()), (2, 0));
    std::fs::remove_dir(directory).unwrap();
}
