//! jitterdebugger 0.1 to 0.3.1, and the development version that Debian has.

use serde_json::Value;

use super::{
    Figures, NamelessFile, fixture, fixture_text, ids, import, import_text, json_figures,
    run_report, subject, warnings,
};

/// A CPU with a thousand values, as all versions write it.
const CPU: &str =
    r#""histogram": {"7": 900, "8": 99}, "count": 1000, "min": 7, "max": 1090, "avg": 8.18"#;

#[test]
fn every_version_is_read() {
    let sysinfo = |resolution: u64| {
        format!(
            r#""sysinfo": {{"sysname": "Linux", "nodename": "host", "release": "6.1", "version": "PREEMPT_RT", "machine": "x86_64", "cpus_online": 4, "resolution_in_ns": {resolution}}},"#
        )
    };
    for (head, unit_ns) in [
        // 0.1 has no version, 0.2 and 0.3 have the first.
        (String::new(), 1_000),
        (r#""version": 1,"#.to_owned(), 1_000),
        (format!(r#""version": 3, {}"#, sysinfo(1_000)), 1_000),
        (format!(r#""version": 3, {}"#, sysinfo(1)), 1),
    ] {
        let report = import_text(&format!("{{{head} \"cpu\": {{\"3\": {{{CPU}}}}}}}"));
        let bins = [(7 * unit_ns, 900), (8 * unit_ns, 99), (1_090 * unit_ns, 1)];
        let mean = if unit_ns == 1 { 8 } else { 8_180 };
        let found = subject(&report, "jitterdebugger/cpu-3");
        assert_eq!(Figures::new(found), Figures::from_bins(&bins, mean), "{head}");
        assert_eq!(warnings(&report, "import-no-period").len(), 1);
    }
}

#[test]
fn cpu_without_a_sample_is_dropped() {
    let none = r#""histogram": {}, "count": 0, "min": 4294967295, "max": 0, "avg": -nan"#;
    let report = import_text(&format!("{{\"cpu\": {{\"0\": {{{CPU}}}, \"1\": {{{none}}}}}}}"));
    assert_eq!(ids(&report), ["jitterdebugger/cpu-0", "jitterdebugger/cpu-1"]);
    assert!(subject(&report, "jitterdebugger/cpu-1")["summary"].is_null());
}

#[test]
fn number_of_thread_is_no_cpu() {
    // With `--affinity 2,5`, the threads are numbered 0 and 1.
    let file = NamelessFile::new(format!("{{\"cpu\": {{\"0\": {{{CPU}}}, \"1\": {{{CPU}}}}}}}"));
    let report = file.import();
    for id in ["jitterdebugger/cpu-0", "jitterdebugger/cpu-1"] {
        assert!(subject(&report, id)["cpu"].is_null(), "{id}");
    }
    assert_eq!(warnings(&report, "import-no-cpu").len(), 1);
    let exported = run_report(&file.path(), &["--format", "cyclictest-json"]).exits(0).stdout;
    let exported: Value = serde_json::from_str(&exported).unwrap();
    assert_eq!(exported["thread"]["1"]["cpu"], -1);
    for key in ["sysname", "machine", "release", "version"] {
        assert_eq!(exported["sysinfo"][key], "", "{key} is not known");
    }
}

#[test]
fn unknown_versions_are_rejected() {
    let error =
        NamelessFile::new(format!("{{\"version\": 9, \"cpu\": {{\"0\": {{{CPU}}}}}}}")).error();
    assert!(error.contains("a result of jitterdebugger") && error.contains("version 9"), "{error}");
}

#[test]
fn file_of_debian_is_read() {
    let name = "jitterdebugger-0.3.1+git.json";
    let report = import(&fixture(name), &[]);
    let raw: Value = serde_json::from_str(&fixture_text(name)).unwrap();
    for cpu in ["0", "1"] {
        let found = subject(&report, &format!("jitterdebugger/cpu-{cpu}"));
        assert_eq!(Figures::new(found), json_figures(&raw["cpu"][cpu], "count", 1_000), "{cpu}");
    }
}
