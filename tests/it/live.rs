//! The live view, seen through a terminal of our own making.
#![cfg(target_os = "linux")]

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::process::{Command, Stdio};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use serde_json::json;

const COLUMNS: u16 = 80;
const LINES: u16 = 24;

/// What was written to the terminal, and to standard output.
struct Seen {
    stderr: Vec<u8>,
    stdout: Vec<u8>,
    code: Option<i32>,
}

impl Seen {
    /// Every screen that a person could see, and the last one: after each byte, as nobody knows
    /// when it is drawn.
    fn screens(&self) -> Vec<String> {
        let mut terminal = vt100::Parser::new(LINES, COLUMNS, 0);
        let screen = |byte: u8| {
            terminal.process(&[byte]);
            let rows = terminal.screen().rows(0, COLUMNS);
            rows.map(|row| row.trim_end().to_owned())
                .collect::<Vec<_>>()
                .join("\n")
                .trim_end()
                .to_owned()
        };
        let mut screens: Vec<String> = self.stderr.iter().copied().map(screen).collect();
        screens.dedup();
        screens
    }
}

/// Runs osjitter with a terminal as its standard error.
fn on_terminal(args: &[&str], environment: &[(&str, &str)]) -> Seen {
    let main = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&main).unwrap();
    unlockpt(&main).unwrap();
    let name = ptsname(&main, Vec::new()).unwrap();
    let other =
        OpenOptions::new().read(true).write(true).open(OsStr::from_bytes(name.as_bytes())).unwrap();
    tcsetwinsize(&other, Winsize { ws_row: LINES, ws_col: COLUMNS, ws_xpixel: 0, ws_ypixel: 0 })
        .unwrap();
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
        let mut seen = Vec::new();
        // The end of the last writer is an error here.
        let _ = main.read_to_end(&mut seen);
        seen
    });
    let output = child.wait_with_output().unwrap();
    Seen { stderr: reader.join().unwrap(), stdout: output.stdout, code: output.status.code() }
}

/// Two rounds of two subjects, played.
fn a_run(more: &[&str], environment: &[(&str, &str)]) -> Seen {
    let home = tempfile::tempdir().unwrap();
    let [out, script] =
        ["run", "script.json"].map(|name| home.path().join(name).to_str().unwrap().to_owned());
    let lateness = json!({
        "scripted": { "lateness_ns": [[14_000], [14_000, 15_000, 16_000]], "skipped": [3] },
        "scripted-b": { "lateness_ns": [[1_200_000], [1_100_000]] },
    });
    std::fs::write(&script, lateness.to_string()).unwrap();
    let mut args = vec![
        "run",
        "--subject",
        "scripted",
        "--subject",
        "scripted-b",
        "--ticks",
        "60",
        "--seed",
        "1",
    ];
    args.extend(["--round-ticks", "30", "--out", &out]);
    args.extend(more);
    let seen = on_terminal(&args, &[environment, &[("OSJITTER_SCRIPT", script.as_str())]].concat());
    assert_eq!(seen.code, Some(0), "{}", String::from_utf8_lossy(&seen.stderr));
    seen
}

fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    haystack.windows(needle.len()).any(|w| w == needle)
}

/// What is drawn before each round, below the bar and its estimate of the time.
const FRAMES: [&str; 4] = [
    "\
lateness      ticks  p50  p99  max  missed
> scripted     0/60    -    -    -       0
  scripted-b   0/60    -    -    -       0",
    "\
lateness      ticks      p50  p99      max  missed
  scripted    29/60  14.0 us    -  14.0 us  3.33 %
> scripted-b   0/60        -    -        -       0",
    "\
lateness      ticks      p50  p99      max  missed
> scripted    29/60  14.0 us    -  14.0 us  3.33 %
  scripted-b  30/60  1.20 ms    -  1.20 ms   100 %",
    "\
lateness      ticks      p50  p99      max  missed
  scripted    58/60  14.0 us    -  16.0 us  3.33 %
> scripted-b  30/60  1.20 ms    -  1.20 ms   100 %
scripted: 16.0 us late in round 2, its latest so far",
];

#[test]
fn figures_are_seen_while_it_runs_and_gone_when_it_is_over() {
    let seen = a_run(&[], &[("NO_COLOR", "1")]);
    let screens = seen.screens();
    let below_the_bar =
        |screen: &String| screen.splitn(3, '\n').nth(2).unwrap_or_default().to_owned();
    let mut drawn: Vec<String> =
        screens.iter().map(below_the_bar).filter(|s| FRAMES.contains(&s.as_str())).collect();
    drawn.dedup();
    assert_eq!(drawn, FRAMES, "{screens:#?}");
    let last = screens.last().unwrap();
    assert!(!last.contains("missed") && last.contains("report: "), "{last}");
    assert!(
        String::from_utf8(seen.stdout.clone()).unwrap().contains("p99"),
        "the table is on standard output"
    );
    assert!(!contains(&seen.stdout, b"\x1b"), "nothing that is drawn is data");
}

#[test]
fn nobody_who_does_not_want_it_sees_it() {
    for flag in ["--no-progress", "--quiet"] {
        let seen = a_run(&[flag], &[("TERM", "dumb")]);
        assert!(
            !contains(&seen.stderr, b"\x1b"),
            "{flag}: {}",
            String::from_utf8_lossy(&seen.stderr)
        );
        assert_eq!(contains(&seen.stderr, b"report: "), flag == "--no-progress");
        // The last line is the page, as a link where a terminal may know them.
        assert_eq!(contains(&seen.stderr, b"page: "), flag == "--no-progress");
        let linked = a_run(&[flag], &[("TERM", "xterm-256color")]).stderr;
        assert_eq!(contains(&linked, b"page: \x1b]8;;file:///"), flag == "--no-progress");
    }
    let dumb = a_run(&[], &[("TERM", "dumb")]);
    assert!(!dumb.screens().iter().any(|s| s.contains("missed")), "a dumb terminal cannot draw");
    let home = tempfile::tempdir().unwrap();
    let out = home.path().join("run");
    let piped = Command::new(env!("CARGO_BIN_EXE_osjitter"))
        .args(["run", "--subject", "nanosleep", "--ticks", "5", "--out", out.to_str().unwrap()])
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
    let bad =
        |environment: &[(&str, &str)]| on_terminal(&["run", "--no-such-flag"], environment).stderr;
    assert!(colours(&bad(&[])), "an error of usage is coloured on a terminal");
    assert!(!colours(&bad(&[("NO_COLOR", "1")])));
    assert!(!colours(&a_run(&[], &[("NO_COLOR", "1")]).stderr));
}
