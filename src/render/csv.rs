//! Comma-separated values (RFC 4180): a line a subject, or a line a tick. Times are whole nanoseconds.

use std::fmt::Write as _;

use jitterstat::report::Report;

use crate::render::entry::entries;

const SUMMARY: &str = "report,started_utc,id,subject,period_ns,runtime,instances,backend,ticks,delivered,coalesced,skipped,\
missed,early,no_park,drift_ppb,cpu_ns_per_tick,wakeups_per_tick,min_ns,mean_ns,p50_ns,p50_low_ns,p50_high_ns,p90_ns,\
p90_low_ns,p90_high_ns,p99_ns,p99_low_ns,p99_high_ns,p99_9_ns,p99_9_low_ns,p99_9_high_ns,p99_99_ns,p99_99_low_ns,\
p99_99_high_ns,max_ns\n";

const SAMPLES: &str = "report,id,round,slot,instance,tick,deadline_ns,lateness_ns,until_unpark_ns\n";

/// One line for each measured subject. What was not measured, or what the sample does not carry, is an empty field.
pub fn summary(reports: &[Report]) -> String {
    let mut text = SUMMARY.to_owned();
    for entry in entries(reports) {
        let (s, m) = (entry.subject, entry.summary);
        let mut row = vec![
            entry.source.to_string(),
            quoted(&entry.report.started_utc),
            quoted(&s.id),
            quoted(&s.name),
            s.period_ns.to_string(),
            quoted(s.runtime.as_deref().unwrap_or_default()),
            s.instances.to_string(),
            quoted(s.backend.as_deref().unwrap_or_default()),
        ];
        row.extend([m.ticks, m.delivered, m.coalesced, m.skipped, m.missed, m.early].map(|n| n.to_string()));
        row.push(m.no_park.map_or(String::new(), |n| n.to_string()));
        row.extend(
            [m.drift_ppb, m.cpu_ns_per_tick, m.wakeups_per_tick].map(|v| v.map_or(String::new(), |v| v.to_string())),
        );
        let d = &m.lateness_ns;
        row.extend([d.min, d.mean].map(|v| v.to_string()));
        for (name, value) in [("p50", d.p50), ("p90", d.p90), ("p99", d.p99), ("p99_9", d.p99_9), ("p99_99", d.p99_99)]
        {
            let interval = d.ci95.get(name);
            let cells = [value, interval.map(|i| i[0]), interval.map(|i| i[1])];
            row.extend(cells.map(|v| v.map_or(String::new(), |v| v.to_string())));
        }
        row.push(d.max.to_string());
        text += &row.join(",");
        text.push('\n');
    }
    text
}

/// One line for each tick that came. `deadline_ns` counts from the start of the run.
pub fn samples(reports: &[Report]) -> String {
    let mut text = SAMPLES.to_owned();
    for entry in entries(reports) {
        let id = quoted(&entry.subject.id);
        for round in &entry.subject.rounds {
            for (i, &late) in round.lateness_ns.iter().enumerate() {
                let tick = round.tick_of(i);
                let deadline = round.start_ns.saturating_add(tick.saturating_mul(entry.subject.period_ns));
                let until = round.until_unpark_ns.as_ref().and_then(|u| u.get(i).copied().flatten());
                let (source, index, slot, instance) = (entry.source, round.index, round.slot, round.instance);
                let _ = write!(text, "{source},{id},{index},{slot},{instance},{tick},{deadline},{late},");
                if let Some(until) = until {
                    let _ = write!(text, "{until}");
                }
                text.push('\n');
            }
        }
    }
    text
}

/// A field, in quotes where it holds what would end it.
fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_field_cannot_end_early() {
        assert_eq!(super::quoted("a\"b,c"), "\"a\"\"b,c\"");
        assert_eq!(super::quoted("tokio-interval@1ms"), "tokio-interval@1ms");
    }
}
