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
    let said = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok).any(|line| line == ready);
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
