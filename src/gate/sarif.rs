//! A verdict as SARIF 2.1.0, for code scanning: what regressed, what broke a limit, and what stayed
//! open. What passed is no finding.

use files::gate::verdict::Verdict;
use jitterstat::gate::decision::Outcome;
use serde_json::{Value, json};

use crate::gate::text::{Row, Section};

const PAGE: &str = "https://github.com/osjitter/osjitter/blob/main/docs/src/gate.md";

/// What a finding is, as a rule of the tool: name, level, and what it means.
const RULES: [(Outcome, &str, &str, &str); 3] = [
    (Outcome::Regressed, "regressed", "error", "The candidate is later than is tolerated."),
    (Outcome::LimitBroken, "limit-broken", "error", "A number is above its limit."),
    // Nothing is wrong that is known: whoever wants that to fail a job has --on-inconclusive.
    (Outcome::Inconclusive, "inconclusive", "none", "What was measured does not decide."),
];

pub fn sarif(verdict: &Verdict, sections: &[Section]) -> String {
    let rules: Vec<Value> = RULES
        .iter()
        .map(|(_, id, level, means)| {
            json!({
                "id": id,
                "shortDescription": { "text": means },
                "helpUri": PAGE,
                "defaultConfiguration": { "level": level },
            })
        })
        .collect();
    let results: Vec<Value> = sections.iter().flat_map(|s| &s.rows).filter_map(finding).collect();
    let mut invocation = json!({ "executionSuccessful": verdict.failure.is_none() });
    if let Some(failure) = &verdict.failure {
        invocation["toolExecutionNotifications"] =
            json!([{ "level": "error", "message": { "text": failure } }]);
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
    serde_json::to_string_pretty(&document).expect("plain data") + "\n"
}

fn finding(row: &Row) -> Option<Value> {
    let index = RULES.iter().position(|(outcome, ..)| *outcome == row.verdict)?;
    let (outcome, id, level, _) = RULES[index];
    let name = format!("{}.{}", row.class, row.case);
    Some(json!({
        "ruleId": id,
        "ruleIndex": index,
        "kind": if outcome == Outcome::Inconclusive { "open" } else { "fail" },
        "level": level,
        "message": { "text": format!("{}: {}", name, row.detail) },
        // It was measured, not read in a source: the place that code scanning asks for is the
        // verdict.
        "locations": [{
            "physicalLocation": { "artifactLocation": { "uri": "verdict.json" }, "region": { "startLine": 1 } },
            "logicalLocations": [{ "fullyQualifiedName": name }],
        }],
        "partialFingerprints": { "osjitterGate/v1": format!("{id}/{name}") },
    }))
}
