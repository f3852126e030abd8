//! Runs the programs like `osjitter run` does, and reads the series that they write.

use std::path::PathBuf;
use std::process::{Command, Output};

use jitterstat::series::{self, Reader};

const PERIOD_NS: u64 = 1_000_000;
const TICKS: usize = 5;

/// The paths of the programs that were built, by name.
const PROGRAMS: [(&str, Option<&str>); 16] = [
    ("async-io", option_env!("CARGO_BIN_EXE_wait-async-io")),
    ("async-timer", option_env!("CARGO_BIN_EXE_wait-async-timer")),
    ("busypoll", option_env!("CARGO_BIN_EXE_wait-busypoll")),
    ("compio", option_env!("CARGO_BIN_EXE_wait-compio")),
    ("embassy-time", option_env!("CARGO_BIN_EXE_wait-embassy-time")),
    ("futures-timer", option_env!("CARGO_BIN_EXE_wait-futures-timer")),
    ("glommio", option_env!("CARGO_BIN_EXE_wait-glommio")),
    ("monoio", option_env!("CARGO_BIN_EXE_wait-monoio")),
    ("osinterval", option_env!("CARGO_BIN_EXE_wait-osinterval")),
    ("osinterval-blocking", option_env!("CARGO_BIN_EXE_wait-osinterval-blocking")),
    ("smol", option_env!("CARGO_BIN_EXE_wait-smol")),
    ("spin_sleep", option_env!("CARGO_BIN_EXE_wait-spin-sleep")),
    ("spin_sleep_util", option_env!("CARGO_BIN_EXE_wait-spin-sleep-util")),
    ("std", option_env!("CARGO_BIN_EXE_wait-std")),
    ("tokio", option_env!("CARGO_BIN_EXE_wait-tokio")),
    ("tokio-hrtime", option_env!("CARGO_BIN_EXE_wait-tokio-hrtime")),
];

fn run(name: &str, program: &str, arguments: &[&str], period_ns: &str) -> (Output, PathBuf) {
    let file_name = [&[name], arguments, &[period_ns]].concat().join("-");
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(file_name);
    let output = Command::new(program)
        .args(arguments)
        .env(series::ENV_PERIOD, period_ns)
        .env(series::ENV_WARMUP, "2")
        .env(series::ENV_TICKS, TICKS.to_string())
        .env(series::ENV_OUT, &file)
        .output();
    (output.expect("the program starts"), file)
}

/// Runs a program and checks its series. Returns false if the kernel does not permit io_uring.
fn check_series(name: &str, program: &str, arguments: &[&str]) -> bool {
    let (output, file) = run(name, program, arguments, &PERIOD_NS.to_string());
    let message = String::from_utf8_lossy(&output.stderr);
    if message.contains("cannot create a ring") {
        return false;
    }
    assert!(output.status.success(), "{name}: {message}");
    let series = Reader::read(std::fs::File::open(file).expect("a series")).expect(name);
    assert_eq!((series.period_ns, series.lateness_ns.len()), (PERIOD_NS, TICKS), "{name}");
    assert!(series.lateness_ns.iter().all(|&late| late >= 0), "{name}: {series:?}");
    true
}

#[test]
fn programs_write_the_requested_series() {
    let mut measured = 0;
    for (name, program) in PROGRAMS {
        let Some(program) = program else { continue };
        measured += usize::from(check_series(name, program, &[]));
    }
    assert!(measured > 0, "no program was built");
}

#[test]
fn precise_mode_is_measured() {
    let Some(program) = option_env!("CARGO_BIN_EXE_wait-osinterval") else { return };
    assert!(check_series("osinterval", program, &["precise"]));
    let (output, _) = run("osinterval", program, &["exact"], &PERIOD_NS.to_string());
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains("invalid mode \"exact\": expected precise"), "{message}");
}

#[test]
fn errors_name_the_runtime() {
    for (name, program) in PROGRAMS {
        let Some(program) = program else { continue };
        let (output, _) = run(name, program, &[], "soon");
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{name}: {message}");
        let expected = format!("cannot wait in {name}: invalid {} \"soon\"", series::ENV_PERIOD);
        assert!(message.contains(&expected), "{message}");
    }
}
