//! The programs that tests run: those of the workspace, of a test and of the machine.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Returns the path of a loop that implements the contract of `run` and `gate` without a library.
pub fn gated_loop() -> PathBuf {
    example("gated-loop", &[])
}

/// Returns the path of the endless service in the README of tickmeter.
pub fn service() -> PathBuf {
    example("service", &["--package", "tickmeter", "--features", "tokio"])
}

/// Returns a service whose loop is late when it parses a large message.
#[cfg(target_os = "linux")]
pub fn late_service() -> PathBuf {
    example("orders", &["--package", "tickmeter", "--features", "tokio"])
}

/// Returns the path of an example, and builds it if necessary: cargo builds examples of osjitter
/// with the tests, unless a single target is selected.
fn example(name: &str, build_args: &[&str]) -> PathBuf {
    let binary = Path::new(env!("CARGO_BIN_EXE_osjitter"));
    let example = binary
        .with_file_name("examples")
        .join(name)
        .with_extension(std::env::consts::EXE_EXTENSION);
    if !example.exists() {
        let profile: &[&str] = if cfg!(debug_assertions) { &[] } else { &["--release"] };
        let status = Command::new(env!("CARGO"))
            .args(["build", "--example", name])
            .args(build_args)
            .args(profile)
            .status();
        assert!(status.unwrap().success());
    }
    example
}

/// Writes a program in a child process. If this process wrote it, another thread that starts a
/// process at that moment would hand the open file on, and the program could not be executed.
#[cfg(unix)]
pub fn write_executable(file: &Path, content: impl AsRef<[u8]>) {
    use std::io::Write as _;
    let mut writer = Command::new("sh")
        .args(["-c", r#"cat >"$0" && chmod 755 "$0""#])
        .arg(file)
        .stdin(Stdio::piped())
        .spawn()
        .expect("a shell");
    let mut input = writer.stdin.take().expect("stdin is piped");
    input.write_all(content.as_ref()).expect("a shell that reads");
    drop(input);
    assert!(writer.wait().expect("a shell").success(), "cannot write {}", file.display());
}

/// Returns whether the machine has a program that works. A test that needs it and cannot run is
/// named on stderr, because the test harness hides what a test prints that passes.
pub fn has_program(program: &str, argument: &str) -> bool {
    use std::io::Write as _;
    let mut command = Command::new(program);
    let silent = command.arg(argument).stdout(Stdio::null()).stderr(Stdio::null());
    let is_found = silent.status().is_ok_and(|status| status.success());
    if !is_found {
        let thread = std::thread::current();
        let test = thread.name().unwrap_or("a test");
        writeln!(std::io::stderr(), "no {program}: {test} skips what needs it").expect("stderr");
    }
    is_found
}
