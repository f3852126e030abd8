//! Tests of builds that are interrupted, wait for others, or start processes.
#![cfg(target_os = "linux")]

use std::io::Write as _;
use std::time::Duration;

use rustix::process::Signal;

use super::package::{Package, assert_slower};
use crate::gate::Gate;
use crate::osjitter::names_in;
use crate::process_control::{is_alive, poll_until, read_process_id, send_signal};
use crate::pseudo_terminal::read_until;
use crate::test_programs::write_executable;

/// A cargo that builds nothing, and waits for a build script instead.
const WAITING_CARGO: &str = r#"#!/bin/sh
if [ "$1" = metadata ]; then
    echo "{\"target_directory\":\"$PWD/target\",\"workspace_root\":\"$PWD\",\"packages\":[]}"
    exit
fi
sleep 600 &
echo "$!" >"$HOME_OF_TEST/id.new" && mv "$HOME_OF_TEST/id.new" "$HOME_OF_TEST/id"
wait
"#;

#[test]
fn interrupts_end_the_whole_build() {
    for signal in [Signal::TERM, Signal::QUIT] {
        let Some(package) = Package::new() else { return };
        write_executable(&package.path("cargo"), WAITING_CARGO);
        let running = package.command(&["--base", "HEAD"]).start();
        let id = package.path("id");
        // The shell creates the file before it writes to it.
        let build_script =
            poll_until(|| std::fs::read_to_string(&id).ok()?.trim().parse::<u32>().ok());
        assert_eq!(package.trees(), 2);
        running.signal(signal);
        running.ends_within(Duration::from_secs(120)).exits(4);
        poll_until(|| (!is_alive(build_script)).then_some(()));
        assert_eq!(package.trees(), 1, "{signal:?}");
        let is_hidden = |name: &String| name.starts_with('.');
        assert!(!names_in(package.home()).iter().any(is_hidden), "{signal:?}");
    }
}

/// All bases are built in one directory, where cargo regards the products of a later build as those
/// of an earlier checkout.
#[test]
fn gates_wait_for_other_builds() {
    let Some(package) = Package::new() else { return };
    package.extend_cargo(
        r#"if [ "$1" = bench ] && mkdir "$HOME_OF_TEST/building" 2>/dev/null; then
    until [ -f "$HOME_OF_TEST/go" ]; do sleep 0.05; done
fi
"#,
    );
    let first = package.command(&["--base", "HEAD"]).start();
    poll_until(|| package.path("building").exists().then_some(()));
    let [mut second, mut interrupted] =
        [(); 2].map(|()| package.command(&["--base", "HEAD"]).start());
    for waiting in [&mut second, &mut interrupted] {
        let line = waiting.says("waiting for the build of another gate");
        assert!(line.contains("repository/package/target"), "{line}");
    }
    // Only the first gate has checked the base out.
    assert_eq!(package.trees(), 2);
    interrupted.signal(Signal::TERM);
    let ran = interrupted.ends_within(Duration::from_secs(120)).exits(4);
    assert!(ran.stderr.contains("interrupted while the benchmark was built"), "{}", ran.stderr);
    std::fs::write(package.path("go"), "").unwrap();
    for gate in [first, second] {
        let ran = gate.ends_within(Duration::from_secs(300));
        assert_slower(&Gate::from_ran(ran), 400.0, 500.0);
    }
    assert_eq!(package.log().lines().count(), 4);
}

/// Standard input of a hook is no terminal, although the tools find one.
#[test]
fn tools_read_passwords_from_the_terminal() {
    let Some(package) = Package::new() else { return };
    let word = package.path("word");
    package.extend_cargo(
        r#"if [ "$1" = bench ] && [ ! -f "$HOME_OF_TEST/word" ]; then
    echo "password?" >/dev/tty
    read -r word </dev/tty
    echo "$word" >"$HOME_OF_TEST/word"
fi
"#,
    );
    let (running, mut terminal) = package.command(&["--base", "HEAD"]).start_on_terminal();
    assert!(read_until(&mut terminal, "password?"));
    terminal.write_all(b"secret\n").unwrap();
    let output = std::thread::spawn(move || std::io::copy(&mut terminal, &mut std::io::sink()));
    running.ends_within(Duration::from_secs(120)).exits(1);
    assert_eq!(std::fs::read_to_string(word).unwrap(), "secret\n");
    // The last process of the terminal has ended, which is an error for its reader.
    let _ = output.join().unwrap();
}

/// The server of a compiler cache serves later builds.
#[test]
fn daemons_of_tools_outlive_gates() {
    let Some(package) = Package::new() else { return };
    let id = package.path("id");
    package.extend_cargo(
        r#"[ -f "$HOME_OF_TEST/id" ] || {
    sleep 600 >/dev/null 2>&1 &
    echo "$!" >"$HOME_OF_TEST/id"
}
"#,
    );
    package.gate(&["--base", "HEAD"]).exits(1);
    let daemon = read_process_id(&id);
    assert!(is_alive(daemon));
    send_signal(daemon, Signal::KILL);
}
