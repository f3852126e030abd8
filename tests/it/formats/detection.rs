//! A file is recognized by its content, and only the reader of its format reports errors.

use super::{NamelessFile, fixture, fixture_text, import};

#[test]
fn unknown_files_list_what_is_read() {
    for (text, says) in [
        ("hello\n", "begins with \"hello\""),
        ("# a comment\n1 2 3\n", "begins with \"# a comment\""),
        ("7\n", "begins with \"7\""),
        ("", "empty"),
        ("{\"results\": []}", "no \"schema\" key"),
        ("{\"results\": [", "cut off"),
        ("{\"results\": }", "invalid JSON"),
    ] {
        let error = NamelessFile::new(text).error();
        assert!(error.contains("unknown format") && error.contains(says), "{text}: {error}");
        for format in
            ["cyclictest", "oslat", "jitterdebugger", "hwlatdetect", "rtla", "HdrHistogram"]
        {
            assert!(error.contains(format), "{text}: {error}");
        }
    }
}

#[test]
fn errors_are_of_the_right_format() {
    let hist = fixture_text("cyclictest-hist.txt");
    let (cut_hist, _) = hist.split_once("# Min").unwrap();
    for (text, says) in [
        (cut_hist.to_owned(), "the output of cyclictest (line 1 begins with"),
        ("# RTLA timerlat histogram\n".to_owned(), "a histogram of rtla (line 1 begins with"),
        ("#[StartTime: 5.0 (x)]\n".to_owned(), "an HdrHistogram log (line 1 begins with"),
        ("hwlatdetect:  test duration 5 seconds\n".to_owned(), "the output of hwlatdetect (line 1"),
        ("oslat V 2.40\nTotal runtime: 1 seconds\n".to_owned(), "the output of oslat (line 1"),
        (
            "Value Percentile TotalCount 1/(1-Percentile)\n\n1.0 0.5 7 2.0\n".to_owned(),
            "a percentile distribution of HdrHistogram (line 1",
        ),
        ("{\"cpu\": {\"0\": 5}}".to_owned(), "a result of jitterdebugger (it has the keys"),
        ("{\"rt_test_version:\": 2}".to_owned(), "a result of rt-tests (it has the keys"),
    ] {
        let error = NamelessFile::new(&text).error();
        assert!(error.contains(says), "{says}: {error}");
        assert_eq!(error.matches("begins with").count() + error.matches("it has the").count(), 1);
    }
}

#[test]
fn unsupported_outputs_have_a_remedy() {
    for (text, says) in [
        ("                 Timer Latency         \n  0 00:00:01   |", "run rtla timerlat hist"),
        ("osjitter.series/1 period_ns=500000\n7\n", "osjitter run"),
    ] {
        let error = NamelessFile::new(text).error();
        assert!(error.contains(says), "{error}");
    }
    let threads =
        "{\"cmdline:\": \"ptsematest -d 5\", \"thread\": {\"0\": {\"sender\": {\"cpu\": 0}}}}";
    let error = NamelessFile::new(threads).error();
    assert!(error.contains("ptsematest") && error.contains("cyclictest and oslat"), "{error}");
}

#[test]
fn names_of_files_play_no_role() {
    for name in ["cyclictest-hist.txt", "java-1.2.1.hlog", "oslat-2.10-quiet-core.json"] {
        let nameless = NamelessFile::new(fixture_text(name)).import();
        assert_eq!(nameless, import(&fixture(name), &[]), "{name}");
        let mark = format!("\u{feff}{}", fixture_text(name));
        assert_eq!(NamelessFile::new(mark).import(), nameless, "{name}");
    }
}

#[test]
fn schema_may_be_at_the_end() {
    let report = import(&fixture("java-2.2.2.hlog"), &[]);
    let mut sorted = serde_json::to_string(&report).unwrap();
    let schema = format!("\"schema\":{},", report["schema"]);
    assert!(sorted.contains(&schema), "{sorted:.200}");
    sorted = sorted.replace(&schema, "");
    sorted.truncate(sorted.rfind('}').unwrap());
    let last = format!("{sorted},\"schema\":{}}}", report["schema"]);
    assert_eq!(NamelessFile::new(last).import(), report);
}
