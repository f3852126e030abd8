//! A verdict as SARIF 2.1.0, for code scanning.
//!
//! Regressions, broken limits and inconclusive numbers are findings; numbers that passed are not.

use cli::printable::to_printable_line;
use files::file::to_indented_json;
use files::gate::verdict::Verdict;
use jitterstat::gate::decision::{Outcome, Reason};
use serde_json::{Value, json};

use crate::gate::text::{Row, Section, UnjudgedRow, early_end, reason_without_row, remarks};

const PAGE: &str = "https://github.com/osjitter/osjitter/blob/main/docs/src/gate.md";

/// A kind of finding, as a rule of the tool.
struct Rule {
    outcome: Outcome,
    id: &'static str,
    level: &'static str,
    description: &'static str,
}

const RULES: [Rule; 4] = [
    Rule {
        outcome: Outcome::Regressed,
        id: "regressed",
        level: "error",
        description: "The candidate is later than tolerated.",
    },
    Rule {
        outcome: Outcome::LimitBroken,
        id: "limit-broken",
        level: "error",
        description: "A number is above its limit.",
    },
    // No level: an inconclusive number is not known to be bad. --on-inconclusive fails the job.
    Rule {
        outcome: Outcome::Inconclusive,
        id: "inconclusive",
        level: "none",
        description: "The measurement does not settle the question.",
    },
    UNJUDGED,
];

const UNJUDGED: Rule = Rule {
    outcome: Outcome::Inconclusive,
    id: "not-judged",
    level: "none",
    description: "A benchmark ran and was not judged.",
};

/// Renders a verdict as a SARIF document.
pub fn sarif(verdict: &Verdict, sections: &[Section]) -> String {
    let rules: Vec<Value> = RULES.iter().map(rule_json).collect();
    let mut results: Vec<Value> =
        sections.iter().flat_map(|s| &s.rows).filter_map(row_finding).collect();
    results.extend(sections.iter().flat_map(|s| &s.unjudged).map(unjudged_finding));
    results.extend(reason_without_row(verdict, sections).and_then(verdict_finding));
    let early_end = early_end(verdict);
    let mut invocation = json!({ "executionSuccessful": early_end.is_none() });
    let failure = early_end.map(|reason| notification("error", reason)).into_iter();
    let remarks = remarks(verdict);
    let remarks = remarks.iter().map(|remark| notification(remark.level, &remark.text));
    let notifications: Vec<Value> = failure.chain(remarks).collect();
    if !notifications.is_empty() {
        invocation["toolExecutionNotifications"] = notifications.into();
    }
    let document = json!({
        "$schema": "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": "osjitter gate",
                "version": verdict.tool.version,
                "informationUri": "https://github.com/osjitter/osjitter",
                "rules": rules,
            } },
            "automationDetails": { "id": "osjitter/gate/" },
            "invocations": [invocation],
            "results": results,
        }],
    });
    to_indented_json(&document)
}

fn notification(level: &str, text: &str) -> Value {
    json!({ "level": level, "message": { "text": text } })
}

fn rule_json(rule: &Rule) -> Value {
    json!({
        "id": rule.id,
        "shortDescription": { "text": rule.description },
        "helpUri": PAGE,
        "defaultConfiguration": { "level": rule.level },
    })
}

fn row_finding(row: &Row) -> Option<Value> {
    let index = RULES.iter().position(|rule| rule.outcome == row.verdict)?;
    let kind = if row.verdict == Outcome::Inconclusive { "open" } else { "fail" };
    Some(finding(index, kind, &format!("{}.{}", row.class, row.case), &row.detail()))
}

fn unjudged_finding(row: &UnjudgedRow) -> Value {
    let index = RULES.iter().position(|rule| rule.id == UNJUDGED.id).unwrap_or_default();
    let kind = if row.is_allowed { "informational" } else { "open" };
    let name = format!("{}.{}", row.class, row.name);
    finding(index, kind, &name, &format!("not judged: {}", row.reason()))
}

/// Returns the finding of a verdict that is inconclusive without a number.
fn verdict_finding(reason: Reason) -> Option<Value> {
    let index = RULES.iter().position(|rule| rule.outcome == Outcome::Inconclusive)?;
    Some(finding(index, "open", "verdict", &reason.to_string()))
}

fn finding(rule_index: usize, kind: &str, name: &str, detail: &str) -> Value {
    let Rule { id, level, .. } = RULES[rule_index];
    let (name, detail) = (to_printable_line(name), to_printable_line(detail));
    json!({
        "ruleId": id,
        "ruleIndex": rule_index,
        "kind": kind,
        "level": level,
        "message": { "text": format!("{name}: {detail}") },
        // Code scanning requires a location. A measured number has none in the source, so the
        // finding points to the verdict.
        "locations": [{
            "physicalLocation": { "artifactLocation": { "uri": "verdict.json" }, "region": { "startLine": 1 } },
            "logicalLocations": [{ "fullyQualifiedName": name }],
        }],
        "partialFingerprints": { "osjitterGate/v1": format!("{id}/{name}") },
    })
}
