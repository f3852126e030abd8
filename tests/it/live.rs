//! Tests of the live view in an emulated terminal.
#![cfg(target_os = "linux")]

use std::io::Read;
use std::process::{Command, Stdio};

use serde_json::json;

use crate::osjitter::Osjitter;
use crate::pseudo_terminal::{COLUMNS, LINES, open_terminal};

/// The output of a program with a terminal.
struct TerminalRun {
    stderr: Vec<u8>,
    stdout: Vec<u8>,
    code: Option<i32>,
}

impl TerminalRun {
    /// Returns every visible screen. Any byte may be the last before a screen is shown.
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
fn run_with_terminal(args: &[&str], environment: &[(&str, &str)]) -> TerminalRun {
    let (mut main, other) = open_terminal();
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
        let mut bytes = Vec::new();
        // Reading fails when the last writer closes the terminal.
        let _ = main.read_to_end(&mut bytes);
        bytes
    });
    let output = child.wait_with_output().unwrap();
    TerminalRun {
        stderr: reader.join().unwrap(),
        stdout: output.stdout,
        code: output.status.code(),
    }
}

/// Runs two scripted rounds of two subjects.
fn run_on_terminal(more: &[&str], environment: &[(&str, &str)]) -> TerminalRun {
    let home = tempfile::tempdir().unwrap();
    let [out, script] =
        ["run", "script.json"].map(|name| home.path().join(name).to_str().unwrap().to_owned());
    let lateness = json!({
        "scripted": { "lateness_ns": [[14_000], [14_000, 15_000, 16_000]], "skipped": [3] },
        "scripted-b": { "lateness_ns": [[1_200_000], [1_100_000]] },
    });
    std::fs::write(&script, lateness.to_string()).unwrap();
    let mut args = vec![
        "run", "--subject", "scripted", "--subject", "scripted-b", "--ticks", "60", "--seed", "1",
    ];
    args.extend(["--round-ticks", "30", "--out", &out]);
    args.extend(more);
    let run =
        run_with_terminal(&args, &[environment, &[("OSJITTER_SCRIPT", script.as_str())]].concat());
    assert_eq!(run.code, Some(0), "{}", String::from_utf8_lossy(&run.stderr));
    run
}

fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    haystack.windows(needle.len()).any(|w| w == needle)
}

/// The frames that are drawn before each round, without the progress bar.
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
scripted: 16.0 us late in round 2, the worst tick so far",
];

#[test]
fn view_is_shown_during_the_run() {
    let run = run_on_terminal(&[], &[("NO_COLOR", "1")]);
    let screens = run.screens();
    let below_the_bar =
        |screen: &String| screen.splitn(3, '\n').nth(2).unwrap_or_default().to_owned();
    let mut drawn: Vec<String> =
        screens.iter().map(below_the_bar).filter(|s| FRAMES.contains(&s.as_str())).collect();
    drawn.dedup();
    assert_eq!(drawn, FRAMES, "{screens:#?}");
    let last = screens.last().unwrap();
    assert!(!last.contains("missed") && last.contains("report: "), "{last}");
    assert!(
        String::from_utf8(run.stdout.clone()).unwrap().contains("p99"),
        "the table is on standard output"
    );
    assert!(!contains(&run.stdout, b"\x1b"), "the view is not written to standard output");
}

/// The progress of a gate shows the difference so far: B is 20 % later.
#[test]
fn gate_shows_an_estimate() {
    let home = tempfile::tempdir().unwrap();
    let [out, script] =
        ["gate", "script.json"].map(|name| home.path().join(name).to_str().unwrap().to_owned());
    let lateness = json!({
        "scripted": { "lateness_ns": [100_000] },
        "scripted-b": { "lateness_ns": [120_000] },
    });
    std::fs::write(&script, lateness.to_string()).unwrap();
    let args = ["gate", "--a", "scripted", "--b", "scripted-b", "--max-pairs", "24", "--out", &out];
    let run = run_with_terminal(&args, &[("OSJITTER_SCRIPT", &script)]);
    let screens = run.screens();
    let has_estimate = |screen: &String| screen.contains("p50 of B +20.0 %");
    assert!(screens.iter().any(has_estimate), "{screens:#?}");
    assert!(!screens.last().unwrap().contains("p50 of B"), "{screens:#?}");
    let quiet = run_with_terminal(&[&args[..], &["-q"]].concat(), &[("OSJITTER_SCRIPT", &script)]);
    assert!(!quiet.screens().iter().any(has_estimate));
}

#[test]
fn view_can_be_disabled() {
    for flag in ["--no-progress", "--quiet"] {
        let run = run_on_terminal(&[flag], &[("TERM", "dumb")]);
        assert!(
            !contains(&run.stderr, b"\x1b"),
            "{flag}: {}",
            String::from_utf8_lossy(&run.stderr)
        );
        assert_eq!(contains(&run.stderr, b"report: "), flag == "--no-progress");
        // The last line names the page, as a link if the terminal may support links.
        assert_eq!(contains(&run.stderr, b"page: "), flag == "--no-progress");
        let linked = run_on_terminal(&[flag], &[("TERM", "xterm-256color")]).stderr;
        assert_eq!(contains(&linked, b"page: \x1b]8;;file:///"), flag == "--no-progress");
    }
    let plain = run_on_terminal(&[], &[("TERM", "dumb")]);
    assert!(!plain.screens().iter().any(|s| s.contains("missed")), "a dumb terminal cannot draw");
    let piped = Osjitter::new(["run", "--subject", "nanosleep", "--ticks", "5"]).out("").run();
    assert!(!piped.stderr.contains('\x1b'), "a pipe is not a terminal");
}

#[test]
fn no_color_is_respected() {
    // `ESC [ … m` sets colours and weights.
    let colours = |bytes: &[u8]| {
        bytes.split(|&b| b == 0x1b).skip(1).any(|part| {
            part.first() == Some(&b'[')
                && part.iter().skip(1).find(|b| !(b.is_ascii_digit() || **b == b';')) == Some(&b'm')
        })
    };
    assert!(colours(b"\x1b[31mred") && !colours(b"\x1b[2K\x1b[1Amoved"));
    let bad = |environment: &[(&str, &str)]| {
        run_with_terminal(&["run", "--no-such-flag"], environment).stderr
    };
    assert!(colours(&bad(&[])), "an error of usage is coloured on a terminal");
    assert!(!colours(&bad(&[("NO_COLOR", "1")])));
    // The value of the flag has priority over the variables.
    for (flag, variable, expected) in [
        ("--color=never", ("TERM", "xterm-256color"), false),
        ("--color=always", ("NO_COLOR", "1"), true),
        ("--color=auto", ("NO_COLOR", "1"), false),
    ] {
        for args in [&["run", flag, "--no-such-flag"][..], &["report", flag, "no-such-file"]] {
            let stderr = run_with_terminal(args, &[variable]).stderr;
            assert_eq!(colours(&stderr), expected, "{args:?}");
        }
    }
    for (variable, expected) in [(("CLICOLOR_FORCE", "1"), true), (("CLICOLOR_FORCE", "0"), false)]
    {
        let piped = Osjitter::new(["report", "no-such-file"]).env(variable.0, variable.1).run();
        assert_eq!(colours(piped.stderr.as_bytes()), expected, "{variable:?}");
    }
    assert!(!colours(&run_on_terminal(&[], &[("NO_COLOR", "1")]).stderr));
}
