//! The live view, seen through a terminal of our own making.
#![cfg(target_os = "linux")]

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::process::{Command, Stdio};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

const COLUMNS: u16 = 80;
const LINES: u16 = 24;
const TICKS: &str = "600";

/// What was written to the terminal, in the pieces in which it came, and to standard output.
struct Seen {
    pieces: Vec<Vec<u8>>,
    stdout: Vec<u8>,
    code: Option<i32>,
}

impl Seen {
    fn all(&self) -> Vec<u8> {
        self.pieces.concat()
    }

    /// Every screen that a person could see, and the last one.
    fn screens(&self) -> Vec<String> {
        let mut terminal = vt100::Parser::new(LINES, COLUMNS, 0);
        let screen = |piece: &Vec<u8>| {
            terminal.process(piece);
            terminal.screen().contents()
        };
        self.pieces.iter().map(screen).collect()
    }
}

/// Runs osjitter with a terminal as its standard error.
fn on_terminal(args: &[&str], environment: &[(&str, &str)]) -> Seen {
    let main = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&main).unwrap();
    unlockpt(&main).unwrap();
    let name = ptsname(&main, Vec::new()).unwrap();
    let other = OpenOptions::new().read(true).write(true).open(OsStr::from_bytes(name.as_bytes())).unwrap();
    tcsetwinsize(&other, Winsize { ws_row: LINES, ws_col: COLUMNS, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
    let child = Command::new(env!("CARGO_BIN_EXE_osjitter"))
        .args(args)
        .env("TERM", "xterm-256color")
        .env_remove("NO_COLOR")
        .envs(environment.iter().copied())
        .stderr(other)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let reader = std::thread::spawn(move || {
        let mut main = File::from(main);
        let mut pieces = Vec::new();
        let mut buffer = [0; 1 << 16];
        // The end of the last writer is an error here.
        while let Ok(n @ 1..) = main.read(&mut buffer) {
            pieces.push(buffer[..n].to_vec());
        }
        pieces
    });
    let output = child.wait_with_output().unwrap();
    Seen { pieces: reader.join().unwrap(), stdout: output.stdout, code: output.status.code() }
}

fn a_run(more: &[&str], environment: &[(&str, &str)]) -> Seen {
    let home = tempfile::tempdir().unwrap();
    let out = home.path().join("run");
    let mut args = vec!["run", "--subject", "os-interval", "--subject", "nanosleep", "--ticks", TICKS];
    args.extend(["--round-ticks", "30", "--out", out.to_str().unwrap()]);
    args.extend(more);
    let seen = on_terminal(&args, environment);
    assert_eq!(seen.code, Some(0), "{}", String::from_utf8_lossy(&seen.all()));
    seen
}

fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    haystack.windows(needle.len()).any(|w| w == needle)
}

#[test]
fn figures_are_seen_while_it_runs_and_gone_when_it_is_over() {
    let seen = a_run(&[], &[("NO_COLOR", "1")]);
    let screens = seen.screens();
    let with_figures: Vec<&String> = screens.iter().filter(|s| s.contains("missed")).collect();
    assert!(!with_figures.is_empty(), "{screens:?}");
    let mut ticks = Vec::new();
    for screen in &with_figures {
        for line in screen.lines().filter(|l| l.contains(&format!("/{TICKS}"))) {
            let done = line.split('/').next().unwrap().split_whitespace().last().unwrap();
            ticks.push(done.parse::<u32>().unwrap());
        }
        let running = screen.lines().filter(|l| l.starts_with("> ")).count();
        assert!(running <= 1, "one subject runs: {screen}");
    }
    assert!(ticks.iter().any(|&n| n > 0 && n < 600), "figures come while it runs: {ticks:?}");
    assert!(ticks.iter().all(|&n| n <= 600 && n.is_multiple_of(30)), "only between rounds: {ticks:?}");
    let last = screens.last().unwrap();
    assert!(!last.contains("missed") && last.contains("report: "), "{last}");
    assert!(String::from_utf8(seen.stdout.clone()).unwrap().contains("p99"), "the table is on standard output");
    assert!(!contains(&seen.stdout, b"\x1b"), "nothing that is drawn is data");
}

#[test]
fn nobody_who_does_not_want_it_sees_it() {
    for flag in ["--no-progress", "--quiet"] {
        let seen = a_run(&[flag], &[]);
        assert!(!contains(&seen.all(), b"\x1b"), "{flag}: {}", String::from_utf8_lossy(&seen.all()));
        assert_eq!(contains(&seen.all(), b"report: "), flag == "--no-progress");
    }
    let dumb = a_run(&[], &[("TERM", "dumb")]);
    assert!(!dumb.screens().iter().any(|s| s.contains("missed")), "a dumb terminal cannot draw");
    let home = tempfile::tempdir().unwrap();
    let out = home.path().join("run");
    let piped = Command::new(env!("CARGO_BIN_EXE_osjitter"))
        .args(["run", "--subject", "nanosleep", "--ticks", "60", "--out", out.to_str().unwrap()])
        .output()
        .unwrap();
    assert!(!contains(&piped.stderr, b"\x1b"), "a pipe is no terminal");
}

#[test]
fn no_color_is_honoured() {
    // `ESC [ … m` sets colours and weights.
    let colours = |bytes: &[u8]| {
        bytes.split(|&b| b == 0x1b).skip(1).any(|part| {
            part.first() == Some(&b'[')
                && part.iter().skip(1).find(|b| !(b.is_ascii_digit() || **b == b';')) == Some(&b'm')
        })
    };
    assert!(colours(b"\x1b[31mred") && !colours(b"\x1b[2K\x1b[1Amoved"));
    let bad = |environment: &[(&str, &str)]| on_terminal(&["run", "--no-such-flag"], environment).all();
    assert!(colours(&bad(&[])), "an error of usage is coloured on a terminal");
    assert!(!colours(&bad(&[("NO_COLOR", "1")])));
    assert!(!colours(&a_run(&[], &[("NO_COLOR", "1")]).all()));
}
