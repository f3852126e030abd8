//! hwlatdetect of rt-tests 0.x to 2.10: the versions of kernel modules, and those of the tracer.

use super::{Figures, NamelessFile, import_text, subject, warnings};

fn output(more_parameters: &str, interruption: &str, result: &str, samples: &str) -> String {
    format!(
        "hwlatdetect:  test duration 120 seconds\n{more_parameters}   parameters:\n        Latency threshold: 10us\n\
         \x20       Sample window:     1000000us\n        Sample width:      500000us\n\
         \x20    Non-sampling period:  500000us\n        Output File:       None\n\nStarting test\n{interruption}test \
         finished\n{result}{samples}"
    )
}

const RESULT: &str = "Max Latency: 345us\nSamples recorded: 3\nSamples exceeding threshold: 3\n";

#[test]
fn samples_of_every_version_are_read() {
    let expected = Figures::from_bins(&[(16_000, 1), (22_000, 1), (345_000, 1)], 127_666);
    for samples in [
        // 0.8 and later.
        "ts: 1503508231.541325243, inner:16, outer:0\nts: 1503508240.041325243, inner:12, outer:345\n\
         ts: 1503508255.941325243, inner:0, outer:22\n",
        // 2.8 and later; a count is that of the gaps in one window.
        "ts: 1503508231.541325243, inner:16, outer:0, cpu:0, count:3\n\
         ts: 1503508240.041325243, inner:12, outer:345, cpu:1, count:1\n\
         ts: 1503508255.941325243, inner:0, outer:22, cpu:13, count:2\n",
        // The module hwlat_detector, with and without the gap outside of the loop.
        "1503508231.0541325243\t16\t0\n1503508240.0041325243\t12\t345\n1503508255.0941325243\t0\t22\n",
        "1503508231.0541325243\t16\n1503508240.0041325243\t345\n1503508255.0941325243\t22\n",
        // The module smi_detector.
        "16\n345\n22\n",
    ] {
        let report = import_text(&output("", "", RESULT, samples));
        assert_eq!(Figures::new(subject(&report, "hwlatdetect")), expected, "{samples}");
        assert_eq!(report["duration_ns"], 120_000_000_000_u64);
    }
    // Samples as they come, with --watch; the CPU list and the type of the detector.
    let watched = output("   detector: tracer\n", "ts: 1.5, inner:16, outer:0\n", RESULT, "");
    let watched = watched.replace(
        "test finished",
        "ts: 2.5, inner:345, outer:1\nts: 3.5, inner:22, outer:1, cpu:3\ntest finished",
    );
    assert_eq!(Figures::new(subject(&import_text(&watched), "hwlatdetect")), expected);
}

#[test]
fn interrupted_run_has_no_length() {
    let sample = "ts: 1503508231.541325243, inner:16, outer:0\n";
    let result = "Max Latency: 16us\nSamples recorded: 1\nSamples exceeding threshold: 1\n";
    // A terminal echoes Ctrl-C in front of the word.
    for interruption in ["interrupted\n", "^Cinterrupted\n"] {
        let report = import_text(&output("", interruption, result, sample));
        assert_eq!(report["duration_ns"], 0);
        let gaps = warnings(&report, "import-gaps").concat();
        assert!(gaps.contains("unknown time") && !gaps.contains("120"), "{gaps}");
    }
    // The end of the test is not in the text.
    let unfinished = output("", "", result, sample).replace("test finished\n", "");
    assert_eq!(import_text(&unfinished)["duration_ns"], 0);
}

#[test]
fn report_file_has_samples_only() {
    let report =
        import_text("ts: 1503508231.541325243, inner:16, outer:0\nts: 2.5, inner:1, outer:17\n");
    let figures = Figures::new(subject(&report, "hwlatdetect"));
    assert_eq!((figures.count, figures.min, figures.max), (2, 16_000, 17_000));
}

#[test]
fn quiet_machine_has_no_gap() {
    let result =
        "Max Latency: Below threshold\nSamples recorded: 0\nSamples exceeding threshold: 0\n";
    let report = import_text(&output("", "", result, ""));
    let status = &subject(&report, "hwlatdetect")["status"];
    assert!(status["reason"].as_str().unwrap().contains("above 10 us in 120 s"), "{status}");
}

#[test]
fn missing_samples_are_an_error() {
    let error = NamelessFile::new(output("", "", RESULT, "ts: 2.5, inner:1, outer:17\n")).error();
    assert!(error.contains("output of hwlatdetect") && error.contains("recorded 3"), "{error}");
    let cut = NamelessFile::new("hwlatdetect:  test duration 120 seconds\n").error();
    assert!(cut.contains("cut off"), "{cut}");
}
