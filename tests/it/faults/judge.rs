//! What must hold after a row.

use std::path::Path;

use serde_json::Value;

use super::scene::{EARLIER, Ended, TICKS, names};
use super::table::{Ends, Moment, Row};
use crate::osjitter::Osjitter;
use crate::schema;

/// What is wrong.
pub fn judge(row: &Row, ended: &Ended) -> Vec<String> {
    let Some(code) = ended.code else { return vec!["it hangs".to_owned()] };
    let mut wrong = Vec::new();
    let mut must = |holds: bool, what: String| {
        if !holds {
            wrong.push(what);
        }
    };
    must(ended.met != Some(0), "the fault has not come about".to_owned());
    must(!ended.stderr.contains("panicked at"), "a panic reaches the user".to_owned());
    let was_killed = matches!(row.ends, Ends::Killed(_));
    // Who is killed cannot clean up.
    must(was_killed || ended.left().is_empty(), format!("left behind: {:?}", ended.left()));
    files(row, ended, &mut must);
    let expected: &[i32] = match row.ends {
        Ends::Unharmed | Ends::TooLate | Ends::Suspended(_) => &[0],
        Ends::Refused(_) => &[2],
        Ends::Killed(signal) => &[128 + signal],
        Ends::Says(_) => &[0, 4],
        _ => &[4],
    };
    must(expected.contains(&code), format!("exit {code}, not {expected:?}"));
    let says = |text: &str, what: &str| text.contains(what);
    let is_written = result(row, ended).is_some();
    match row.ends {
        Ends::Unharmed | Ends::TooLate => subjects(row, ended, &[], "", &mut must),
        Ends::Fails(of, reason) => {
            must(
                says(&ended.stdout, "not measured") || says(&ended.stdout, reason),
                format!("{reason:?} is not shown"),
            );
            subjects(row, ended, of, reason, &mut must);
        }
        Ends::Unwritten(what) | Ends::Stopped(what) | Ends::Refused(what) => {
            must(says(&ended.stderr, what), format!("{what:?} is not said"));
            must(!is_written || row.scene.earlier, "a result is written".to_owned());
            // Only a page is nothing but the file.
            let shows = matches!(row.ends, Ends::Unwritten(_)) && row.scene.name != "page";
            must(shows != ended.stdout.is_empty(), "stdout has a result, or has none".to_owned());
        }
        Ends::Interrupted => match result(row, ended) {
            Some(result) => {
                must(result["partial"] == true, "the result is not marked as partial".to_owned())
            }
            None => must(false, "nothing is written".to_owned()),
        },
        Ends::NotMeasured(why) => {
            let failure = result(row, ended).map(|v| v["failure"].to_string()).unwrap_or_default();
            must(failure.contains(why), format!("the verdict's failure is {failure}"));
        }
        Ends::Says(what) => must(says(&ended.stderr, what), format!("{what:?} is not said")),
        Ends::Suspended(length) => {
            subjects(row, ended, &[], "", &mut must);
            suspended(&result(row, ended).unwrap_or_default(), &ended.stdout, length, &mut must);
        }
        Ends::Killed(_) => one_state(row, ended, &mut must),
    }
    wrong
}

/// Said of the run, of the round in which it was, and of what to think of the machine.
fn suspended(report: &Value, table: &str, length: &str, must: &mut impl FnMut(bool, String)) {
    let all = |list: &Value| list.as_array().cloned().unwrap_or_default();
    let says = format!("the machine was suspended for {length} during the run");
    let warnings = all(&report["warnings"]);
    let warned = warnings
        .iter()
        .any(|warning| warning["code"] == "suspended" && warning["message"] == says.as_str());
    must(warned, format!("the warnings are {warnings:?}"));
    let table = table.split_whitespace().collect::<Vec<_>>().join(" ");
    must(
        table.contains(&format!("suspended: {says}.")),
        format!("the table does not say {says:?}"),
    );
    if !report["clock"]["why_not_counter"].is_null() {
        // Without the counter fewer anchors are taken, and the jump comes after the round.
        return;
    }
    let rounds = all(&report["subjects"][0]["rounds"]);
    let within = rounds.iter().filter_map(|round| round["suspended_ns"].as_u64()).sum::<u64>();
    let seconds = (within as f64 / 1e9).round();
    must(format!("{seconds:.1} s") == length, format!("the rounds say {within} ns"));
    let fitness = &report["fitness"];
    let cause = all(&fitness["reasons"]).iter().any(|reason| reason["cause"] == "suspended");
    must(cause && fitness["verdict"] == "unfit", format!("the fitness is {fitness}"));
}

/// A directory that was not there has all of its files or none. In one that was there, the report
/// is the last to be replaced: beside an older one, others may be new; beside a new one, all are
/// drawn from it.
fn one_state(row: &Row, ended: &Ended, must: &mut impl FnMut(bool, String)) {
    let out = ended.out();
    let there: Vec<String> =
        names(&out).into_iter().filter(|name| !name.starts_with('.')).collect();
    let Some(report) = ["report.json", "clock.json"]
        .into_iter()
        .find(|name| there.iter().any(|file| file == name))
    else {
        return must(there.is_empty(), format!("{there:?} without their report"));
    };
    let read = |path: &Path| std::fs::read_to_string(path).unwrap_or_default();
    let file = out.join(report);
    if row.scene.earlier && read(&file) == EARLIER[0].1 {
        return;
    }
    let again = |format: &str, to: &str| {
        Osjitter::new(["report", "--format", format]).args([&file]).out(to).run().exits(0)
    };
    if report == "report.json" {
        must(
            read(&out.join("report.html")) == again("html", "page").file("page"),
            "the page is of another run".to_owned(),
        );
    }
    if report == "clock.json" || row.scene.args.contains(&"--svg") {
        let drawn = again("svg", "drawn");
        for name in names(&drawn.path("drawn")) {
            let picture = drawn.file(&format!("drawn/{name}"));
            must(read(&out.join(&name)) == picture, format!("{name} is of another run"));
        }
    }
}

/// What is there is whole, and what was there is still there or was replaced by what is whole.
fn files(row: &Row, ended: &Ended, must: &mut impl FnMut(bool, String)) {
    let out = ended.out();
    let read = |path: &Path| std::fs::read_to_string(path).unwrap_or_default();
    let earlier =
        |name: &str| EARLIER.iter().find(|(known, _)| *known == name).map(|(_, text)| *text);
    for name in names(&out) {
        let text = read(&out.join(&name));
        let is_whole = match name.rsplit('.').next() {
            // A temporary one of a process that was killed.
            _ if name.starts_with('.') => true,
            Some("json") => serde_json::from_str::<Value>(&text).is_ok(),
            Some("html") => text.trim_end().ends_with("</html>"),
            Some("svg") => text.trim_end().ends_with("</svg>"),
            _ => text.is_empty() || text.ends_with('\n'),
        };
        let stays = row.scene.earlier && earlier(&name) == Some(&text);
        must(is_whole || stays, format!("{name} is cut off"));
    }
    if row.scene.earlier {
        for (name, text) in EARLIER {
            let now = read(&out.join(name));
            must(!now.is_empty(), format!("{name} is gone"));
            // The report is the last: where it could not be renamed, others may have been.
            let may_be_new = match row.ends {
                Ends::Killed(_) => name != "notes.txt",
                _ => name == "report.html" && row.name().contains("rename"),
            };
            must(now == text || may_be_new, format!("{name} was replaced"));
        }
    }
    let page = out.with_extension("html");
    must(
        !page.exists() || read(&page).trim_end().ends_with("</html>"),
        "the page is cut off".to_owned(),
    );
}

/// The JSON that was promised, valid by its published schema.
fn result(row: &Row, ended: &Ended) -> Option<Value> {
    let all = [
        ("out/report.json", "report.1"),
        ("out/verdict.json", "verdict.1"),
        ("baseline.json", "baseline.1"),
    ];
    let (file, schema) = all.into_iter().find(|(file, _)| ended.home().join(file).is_file())?;
    let text = std::fs::read_to_string(ended.home().join(file)).ok()?;
    let is_of_before = row.scene.earlier && EARLIER.iter().any(|(_, earlier)| *earlier == text);
    (!is_of_before).then(|| schema::valid(&text, schema))
}

/// Of a report: these may fail for that reason, the others have all their ticks.
fn subjects(
    row: &Row,
    ended: &Ended,
    may_fail: &[&str],
    reason: &str,
    must: &mut impl FnMut(bool, String),
) {
    if row.scene.subjects.is_empty() {
        return;
    }
    let Some(report) = result(row, ended) else {
        return must(false, "there is no report".to_owned());
    };
    let subjects = report["subjects"].as_array().map_or(&[][..], Vec::as_slice);
    must(subjects.len() == row.scene.subjects.len(), "a subject is missing".to_owned());
    let mut failed = 0;
    for subject in subjects {
        let name = subject["name"].as_str().unwrap_or_default();
        let status = &subject["status"];
        if status["state"] == "failed" && may_fail.contains(&name) {
            failed += 1;
            let says = status["reason"].as_str().unwrap_or_default();
            must(says.contains(reason), format!("{name} says {says:?}"));
        } else {
            must(status["state"] == "measured", format!("{name} is {status}"));
            let ticks = &subject["summary"]["ticks"];
            must(*ticks == TICKS, format!("{name} has {ticks} ticks"));
        }
    }
    let once = matches!(row.at, Moment::Start | Moment::Middle | Moment::End);
    let right =
        if may_fail.is_empty() { failed == 0 } else { failed == 1 || (failed > 1 && !once) };
    must(right, format!("{failed} subjects have failed"));
}
