//! Checks the result of a row.

use std::path::Path;

use serde_json::Value;

use super::scene::{EARLIER_FILES, SceneOutcome, TICKS, names};
use super::table::{Expectation, FaultRow, Moment};
use crate::osjitter::{Osjitter, one_line};
use crate::schema;

/// Returns everything that differs from the expected result.
pub fn find_violations(row: &FaultRow, outcome: &SceneOutcome) -> Vec<String> {
    let Some(code) = outcome.code else { return vec!["the command hangs".to_owned()] };
    let mut violations = Vec::new();
    let mut check = |holds: bool, violation: String| {
        if !holds {
            violations.push(violation);
        }
    };
    check(outcome.faulted_calls != Some(0), "the fault did not occur".to_owned());
    check(!outcome.stderr.contains("panicked at"), "a panic is printed".to_owned());
    // A killed process cannot clean up.
    let was_killed = matches!(row.expected, Expectation::Killed(_));
    let leftovers = outcome.leftover_files();
    check(was_killed || leftovers.is_empty(), format!("leftover files: {leftovers:?}"));
    check_files(row, outcome, &mut check);
    let codes: &[i32] = match row.expected {
        Expectation::Unharmed | Expectation::TooLate | Expectation::Suspended(_) => &[0],
        Expectation::Refused(_) => &[2],
        Expectation::Killed(signal) => &[128 + signal],
        Expectation::Says(_) | Expectation::Moved => &[0, 4],
        _ => &[4],
    };
    check(codes.contains(&code), format!("exit code {code}, expected {codes:?}"));
    let (stdout, stderr) = (&outcome.stdout, &outcome.stderr);
    match row.expected {
        Expectation::Unharmed | Expectation::TooLate => {
            check_subjects(row, outcome, &[], "", &mut check);
        }
        Expectation::Moved => check_exclusions(row, outcome, &mut check),
        Expectation::Fails(subjects, reason) => {
            // The lines of a note are wrapped.
            let words = one_line(stdout);
            let is_shown = stdout.contains("not measured") || words.contains(reason);
            check(is_shown, format!("stdout lacks {reason:?}"));
            check_subjects(row, outcome, subjects, reason, &mut check);
        }
        Expectation::Unwritten(text) | Expectation::Stopped(text) | Expectation::Refused(text) => {
            check(stderr.contains(text), format!("stderr lacks {text:?}"));
            let is_written = result(row, outcome).is_some();
            check(!is_written || row.scene.has_earlier_files, "a result is written".to_owned());
            // The scene `page` has no result on stdout.
            let is_unwritten = matches!(row.expected, Expectation::Unwritten(_));
            let has_table = is_unwritten && row.scene.name != "page";
            let violation = format!("expected a result on stdout: {has_table}");
            check(has_table != stdout.is_empty(), violation);
        }
        Expectation::Interrupted => {
            let is_partial = result(row, outcome).is_some_and(|result| result["partial"] == true);
            check(is_partial, "there is no result, or it is not marked as partial".to_owned());
        }
        Expectation::NotMeasured(reason) => {
            let failure = result(row, outcome).map(|v| v["failure"].to_string());
            let failure = failure.unwrap_or_default();
            check(failure.contains(reason), format!("the verdict's failure is {failure}"));
        }
        Expectation::Says(text) => check(stderr.contains(text), format!("stderr lacks {text:?}")),
        Expectation::Suspended(length) => {
            check_subjects(row, outcome, &[], "", &mut check);
            let report = result(row, outcome).unwrap_or_default();
            check_suspension(&report, stdout, length, &mut check);
        }
        Expectation::Killed(_) => check_consistency(row, outcome, &mut check),
    }
    violations
}

/// Checks that every subject has all of its ticks, or rounds that are excluded as they were moved.
fn check_exclusions(row: &FaultRow, outcome: &SceneOutcome, check: &mut impl FnMut(bool, String)) {
    let report = result(row, outcome).unwrap_or_default();
    let subjects = report["subjects"].as_array().cloned().unwrap_or_default();
    check(subjects.len() == row.scene.subjects.len(), "a subject is missing".to_owned());
    let is_moved = |subject: &Value| subject["excluded"][0]["changes"][0]["what"] == "CPU affinity";
    // A thread that is moved at every call has moved before its first round is verified.
    let must_move = row.at == Moment::Always && has_several_cpus();
    check(!must_move || subjects.iter().any(is_moved), "no round is excluded".to_owned());
    for subject in &subjects {
        let (name, status) = (&subject["name"], &subject["status"]);
        let is_complete = subject["summary"]["ticks"] == TICKS && subject["excluded"].is_null();
        check(is_complete || is_moved(subject), format!("{name} is {status}, without a reason"));
        let reason = status["reason"].as_str().unwrap_or_default();
        let is_expected =
            status["state"] == "measured" || reason.contains("the CPU affinity was changed");
        check(is_expected, format!("{name} is {status}"));
    }
}

/// Returns whether a thread of this process can be moved to another CPU.
fn has_several_cpus() -> bool {
    engine::machine::os::affinity().is_some_and(|cpus| cpus.len() > 1)
}

/// Checks that the warnings, the table, the rounds and the fitness report the suspension.
fn check_suspension(
    report: &Value,
    table: &str,
    length: &str,
    check: &mut impl FnMut(bool, String),
) {
    let items = |list: &Value| list.as_array().cloned().unwrap_or_default();
    let message = format!("the machine was suspended for {length} during the run");
    let warnings = items(&report["warnings"]);
    let is_expected = |w: &Value| w["code"] == "suspended" && w["message"] == message.as_str();
    check(warnings.iter().any(is_expected), format!("the warnings are {warnings:?}"));
    let table = one_line(table);
    let is_in_table = table.contains(&format!("suspended: {message}."));
    check(is_in_table, format!("the table lacks {message:?}"));
    if !report["clock"]["why_not_counter"].is_null() {
        // Without the counter there are fewer anchors, and the jump comes after the round.
        return;
    }
    let rounds = items(&report["subjects"][0]["rounds"]);
    let suspended_ns: u64 = rounds.iter().filter_map(|round| round["suspended_ns"].as_u64()).sum();
    let seconds = (suspended_ns as f64 / 1e9).round();
    check(format!("{seconds:.1} s") == length, format!("the rounds contain {suspended_ns} ns"));
    let fitness = &report["fitness"];
    let cause = items(&fitness["reasons"]).iter().any(|reason| reason["cause"] == "suspended");
    check(cause && fitness["verdict"] == "unfit", format!("the fitness is {fitness}"));
}

/// Checks that the files in the output directory are consistent after a kill.
///
/// A new directory contains either all files or none. In an existing one the report is replaced
/// last: with an old report, other files may be new; with a new one, all files belong to it.
fn check_consistency(row: &FaultRow, outcome: &SceneOutcome, check: &mut impl FnMut(bool, String)) {
    let out = outcome.out();
    let files: Vec<String> =
        names(&out).into_iter().filter(|name| !name.starts_with('.')).collect();
    let mut reports = ["report.json", "clock.json"].into_iter();
    let Some(report) = reports.find(|name| files.iter().any(|file| file == name)) else {
        return check(files.is_empty(), format!("{files:?} without their report"));
    };
    let read = |path: &Path| std::fs::read_to_string(path).unwrap_or_default();
    let file = out.join(report);
    if row.scene.has_earlier_files && read(&file) == EARLIER_FILES[0].1 {
        return;
    }
    let render = |format: &str, out: &str| {
        Osjitter::new(["report", "--format", format]).args([&file]).out(out).run().exits(0)
    };
    if report == "report.json" {
        check(
            read(&out.join("report.html")) == render("html", "page").file("page"),
            "the page belongs to another run".to_owned(),
        );
    }
    let drawn = render("svg", "drawn");
    for name in names(&drawn.path("drawn")) {
        if files.contains(&name) {
            let picture = drawn.file(&format!("drawn/{name}"));
            check(read(&out.join(&name)) == picture, format!("{name} belongs to another run"));
        }
    }
}

/// Checks that each file is complete, and that each earlier file still exists or was replaced by a
/// complete one.
fn check_files(row: &FaultRow, outcome: &SceneOutcome, check: &mut impl FnMut(bool, String)) {
    let out = outcome.out();
    let read = |path: &Path| std::fs::read_to_string(path).unwrap_or_default();
    let earlier =
        |name: &str| EARLIER_FILES.iter().find(|(known, _)| *known == name).map(|(_, text)| *text);
    for name in names(&out) {
        let text = read(&out.join(&name));
        let is_complete = match name.rsplit('.').next() {
            // A temporary file of a killed process.
            _ if name.starts_with('.') => true,
            Some("json") => serde_json::from_str::<Value>(&text).is_ok(),
            Some("html") => text.trim_end().ends_with("</html>"),
            Some("svg") => text.trim_end().ends_with("</svg>"),
            _ => text.is_empty() || text.ends_with('\n'),
        };
        let is_unchanged = row.scene.has_earlier_files && earlier(&name) == Some(&text);
        check(is_complete || is_unchanged, format!("{name} is truncated"));
    }
    if row.scene.has_earlier_files {
        for (name, text) in EARLIER_FILES {
            let now = read(&out.join(name));
            check(!now.is_empty(), format!("{name} was removed"));
            // The report is renamed last, so other files may be new if it could not be renamed.
            // Which pictures there are depends on the lateness.
            let is_result = name != "notes.txt";
            let may_be_new = match row.expected {
                Expectation::Killed(_) => is_result,
                _ => is_result && name != "report.json" && row.name().contains("rename"),
            };
            check(now == text || may_be_new, format!("{name} was replaced"));
        }
    }
    let page = out.with_extension("html");
    check(
        !page.exists() || read(&page).trim_end().ends_with("</html>"),
        "the page is truncated".to_owned(),
    );
}

/// Returns the JSON that the command wrote, if any, validated against its published schema.
fn result(row: &FaultRow, outcome: &SceneOutcome) -> Option<Value> {
    let results = [
        ("out/report.json", "report.1"),
        ("out/verdict.json", "verdict.1"),
        ("baseline.json", "baseline.1"),
    ];
    let mut files = results.into_iter();
    let (file, schema) = files.find(|(file, _)| outcome.home().join(file).is_file())?;
    let text = std::fs::read_to_string(outcome.home().join(file)).ok()?;
    let is_earlier =
        row.scene.has_earlier_files && EARLIER_FILES.iter().any(|(_, earlier)| *earlier == text);
    (!is_earlier).then(|| schema::valid(&text, schema))
}

/// Checks the subjects of a report: those in `may_fail` may fail with the reason, and the others
/// must have all their ticks.
fn check_subjects(
    row: &FaultRow,
    outcome: &SceneOutcome,
    may_fail: &[&str],
    reason: &str,
    check: &mut impl FnMut(bool, String),
) {
    if row.scene.subjects.is_empty() {
        return;
    }
    let Some(report) = result(row, outcome) else {
        return check(false, "there is no report".to_owned());
    };
    let subjects = report["subjects"].as_array().map_or(&[][..], Vec::as_slice);
    check(subjects.len() == row.scene.subjects.len(), "a subject is missing".to_owned());
    let mut failed = 0;
    for subject in subjects {
        let name = subject["name"].as_str().unwrap_or_default();
        let status = &subject["status"];
        if status["state"] == "failed" && may_fail.contains(&name) {
            failed += 1;
            let actual = status["reason"].as_str().unwrap_or_default();
            check(actual.contains(reason), format!("{name} failed with {actual:?}"));
        } else {
            check(status["state"] == "measured", format!("{name} is {status}"));
            let ticks = &subject["summary"]["ticks"];
            check(*ticks == TICKS, format!("{name} has {ticks} ticks"));
        }
    }
    let is_single_call = matches!(row.at, Moment::Start | Moment::Middle | Moment::End);
    let is_expected = match failed {
        0 => may_fail.is_empty(),
        1 => !may_fail.is_empty(),
        _ => !may_fail.is_empty() && !is_single_call,
    };
    check(is_expected, format!("{failed} subjects failed"));
}
