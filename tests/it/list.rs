//! Tests of `osjitter list`.

use serde_json::Value;

/// A subject whose timer cannot be created is unavailable. Depending on the number of free
/// descriptors, the creation fails at another call.
#[cfg(target_os = "linux")]
#[test]
fn descriptor_shortage_makes_subjects_unavailable() {
    let mut unavailable = 0;
    for descriptors in 4..=16 {
        let command = format!(
            "ulimit -n {descriptors}; exec '{}' list --format json",
            env!("CARGO_BIN_EXE_osjitter")
        );
        let output = std::process::Command::new("sh").args(["-c", &command]).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        if output.status.code() == Some(127) {
            // Too few for the libraries of the program.
            continue;
        }
        assert_eq!(output.status.code(), Some(0), "{descriptors}: {stderr}");
        assert_eq!(stderr, "", "{descriptors}");
        let subjects: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
        for subject in subjects {
            let reason = subject["why_not"].as_str();
            assert_eq!(reason.is_none(), subject["available"] == true, "{subject}");
            unavailable += u32::from(reason.is_some_and(|reason| reason.contains("os error 24")));
        }
    }
    assert!(unavailable > 0, "every subject had enough descriptors");
}
