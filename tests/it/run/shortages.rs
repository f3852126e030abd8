//! Tests of subjects that lack descriptors or threads: the others are measured.
#![cfg(target_os = "linux")]

use files::report::Status;

use super::{find_subject, run};

#[test]
fn descriptor_shortage_fails_only_one_subject() {
    let subjects = ["--subject", "nanosleep", "--subject", "tokio-interval", "--ticks", "20"];
    let limited = run(&subjects).out("").in_shell(r#"ulimit -n 6; exec "$0" "$@""#);
    let ran = limited.run().exits(4);
    let (report, stderr) = (ran.report(), ran.stderr);
    assert_eq!(find_subject(&report, "nanosleep").status, Status::Measured);
    match &find_subject(&report, "tokio-interval").status {
        Status::Failed { reason } => assert!(reason.contains("ulimit -n"), "{reason}"),
        other => panic!("{other:?}"),
    }
    assert!(stderr.contains(": failed: "), "{stderr}");
}

/// Without this check, tokio panics or blocks forever if it gets only some of its threads.
#[test]
fn thread_shortage_fails_only_one_subject() {
    let subjects = ["--subject", "tokio-interval", "--subject", "spin", "--ticks", "40"];
    let threads = run(&subjects).args(["--runtime", "multi-thread:256"]).out("");
    let script = r#"ulimit -v 300000; exec timeout -s KILL 120 "$0" "$@""#;
    let ran = threads.in_shell(script).run().exits(4);
    assert!(ran.stderr.contains("cannot start 256 threads"), "{}", ran.stderr);
    assert!(!ran.stderr.contains("panicked"), "{}", ran.stderr);
    assert_eq!(find_subject(&ran.report(), "spin").status, Status::Measured);
}
