//! Tests of `osjitter list`.
#![cfg(target_os = "linux")]

use serde_json::Value;

use crate::osjitter::Osjitter;

/// A subject whose timer cannot be created is unavailable. Depending on the number of free
/// descriptors, the creation fails at another call.
#[test]
fn descriptor_shortage_makes_subjects_unavailable() {
    let mut unavailable = 0;
    for descriptors in 4..=16 {
        let list = Osjitter::new(["list", "--format", "json"]);
        let ran = list.in_shell(&format!(r#"ulimit -n {descriptors}; exec "$0" "$@""#)).run();
        if ran.code == 127 {
            // Too few for the libraries of the program.
            continue;
        }
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{descriptors}");
        let subjects: Vec<Value> = serde_json::from_str(&ran.stdout).unwrap();
        for subject in subjects {
            let reason = subject["why_not"].as_str();
            assert_eq!(reason.is_none(), subject["available"] == true, "{subject}");
            unavailable += u32::from(reason.is_some_and(|reason| reason.contains("os error 24")));
        }
    }
    assert!(unavailable > 0, "every subject had enough descriptors");
}
