//! Formats of services that track benchmarks over time: the metric format of Bencher, and the
//! `customSmallerIsBetter` format of github-action-benchmark.

use files::report::{Percentile, Report};
use serde_json::{Map, Value, json};

use files::entry::entries;

/// Renders `{benchmark: {measure: {value, lower_value, upper_value}}}`. The limits are the 95 %
/// confidence interval, if there is one.
pub fn bmf(reports: &[Report]) -> String {
    let mut benchmarks = Map::new();
    for entry in entries(reports) {
        let d = &entry.summary.lateness_ns;
        let mut measures = Map::new();
        for (Percentile { key, .. }, value) in d.supported_percentiles() {
            let mut measure = json!({ "value": value });
            if let Some([low, high]) = d.ci95.get(key) {
                measure["lower_value"] = (*low).into();
                measure["upper_value"] = (*high).into();
            }
            measures.insert(format!("lateness_{key}_ns"), measure);
        }
        measures.insert("lateness_max_ns".into(), json!({ "value": d.max }));
        if let Some(missed) = entry.missed() {
            measures.insert("missed".into(), json!({ "value": missed }));
        }
        if let Some(cpu) = entry.summary.cpu_ns_per_tick {
            measures.insert("cpu_ns_per_tick".into(), json!({ "value": cpu }));
        }
        benchmarks.insert(entry.name(), Value::Object(measures));
    }
    format!("{:#}\n", Value::Object(benchmarks))
}

/// Renders `[{name, unit, value, range, extra}]` for `tool: customSmallerIsBetter`.
pub fn gab(reports: &[Report]) -> String {
    let mut values = Vec::new();
    for entry in entries(reports) {
        let d = &entry.summary.lateness_ns;
        if d.supported_percentiles().next().is_none() {
            let title = format!("{} lateness max", entry.name());
            values.push(json!({ "name": title, "unit": "ns", "value": d.max }));
        }
        for (Percentile { key, label, .. }, value) in d.supported_percentiles() {
            let title = format!("{} lateness {label}", entry.name());
            let mut measurement = json!({ "name": title, "unit": "ns", "value": value });
            if let Some([low, high]) = d.ci95.get(key) {
                measurement["range"] = format!("{low} .. {high}").into();
            }
            let missed =
                entry.missed().map_or(String::new(), |missed| format!(", {missed} missed"));
            measurement["extra"] = format!("{} ticks{missed}", entry.summary.ticks).into();
            values.push(measurement);
        }
        if let Some(cpu) = entry.summary.cpu_ns_per_tick {
            values.push(json!({ "name": format!("{} CPU per tick", entry.name()), "unit": "ns", "value": cpu }));
        }
    }
    format!("{:#}\n", Value::Array(values))
}
