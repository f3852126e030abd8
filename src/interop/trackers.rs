//! What services that follow benchmarks over time read: Bencher's metric format, and the custom
//! format of github-action-benchmark in which smaller is better.

use files::report::{Percentile, Report};
use serde_json::{Map, Value, json};

use crate::render::entry::entries;
use crate::render::percentile;

/// `{benchmark: {measure: {value, lower_value, upper_value}}}`; the limits are the 95 % interval
/// where there is one.
pub fn bmf(reports: &[Report]) -> String {
    let mut all = Map::new();
    for entry in entries(reports) {
        let d = &entry.summary.lateness_ns;
        let mut measures = Map::new();
        for (Percentile { key, .. }, value) in percentile::supported(d) {
            let mut measure = json!({ "value": value });
            if let Some([low, high]) = d.ci95.get(key) {
                measure["lower_value"] = (*low).into();
                measure["upper_value"] = (*high).into();
            }
            measures.insert(format!("lateness_{key}_ns"), measure);
        }
        measures.insert("lateness_max_ns".into(), json!({ "value": d.max }));
        measures.insert("missed".into(), json!({ "value": entry.summary.missed }));
        if let Some(cpu) = entry.summary.cpu_ns_per_tick {
            measures.insert("cpu_ns_per_tick".into(), json!({ "value": cpu }));
        }
        all.insert(entry.name(), Value::Object(measures));
    }
    format!("{:#}\n", Value::Object(all))
}

/// `[{name, unit, value, range, extra}]` for `tool: customSmallerIsBetter`.
pub fn gab(reports: &[Report]) -> String {
    let mut all = Vec::new();
    for entry in entries(reports) {
        let d = &entry.summary.lateness_ns;
        for (Percentile { key, label, .. }, value) in percentile::supported(d) {
            let title = format!("{} lateness {label}", entry.name());
            let mut one = json!({ "name": title, "unit": "ns", "value": value });
            if let Some([low, high]) = d.ci95.get(key) {
                one["range"] = format!("{low} .. {high}").into();
            }
            one["extra"] =
                format!("{} ticks, {} missed", entry.summary.ticks, entry.summary.missed).into();
            all.push(one);
        }
        if let Some(cpu) = entry.summary.cpu_ns_per_tick {
            all.push(json!({ "name": format!("{} CPU per tick", entry.name()), "unit": "ns", "value": cpu }));
        }
    }
    format!("{:#}\n", Value::Array(all))
}
