//! Counts how often the rules of performance gates are wrong, on the same recorded rounds.
//!
//! `gate-league DECISIONS REPORT...` writes JSON; `scripts/studies/gate-league.py` records the
//! reports and draws the table. `gate-league --series FILE` applies the rules to stored numbers, for
//! `scripts/studies/stored-series.py`.

mod changes;
mod rounds;
mod rules;
mod series;
mod stored;

use files::file::File as _;
use files::report::Report;
use jitterstat::stats::random::SplitMix64;
use serde_json::{Value, json};

use crate::changes::CHANGES;
use crate::rounds::Session;
use crate::rules::RULES;

const SUBJECTS: [&str; 2] = ["os-interval", "tokio-interval"];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let usage = "usage: gate-league DECISIONS REPORT..., or gate-league --series FILE";
    let mut arguments = std::env::args().skip(1);
    let first = arguments.next().ok_or(usage)?;
    if first == "--series" {
        let series = std::fs::read_to_string(arguments.next().ok_or(usage)?)?;
        let table = series::judge(&serde_json::from_str(&series)?)?;
        println!("{}", serde_json::to_string_pretty(&table)?);
        return Ok(());
    }
    let decisions: u64 = first.parse()?;
    let reports: Vec<Report> = arguments
        .map(|file| Ok(Report::from_json(&std::fs::read_to_string(file)?)?))
        .collect::<Result<_, Box<dyn std::error::Error>>>()?;
    let table: Vec<Value> = std::thread::scope(|scope| {
        let threads =
            SUBJECTS.map(|subject| scope.spawn(|| count_alarms(subject, &reports, decisions)));
        let tables: Result<Vec<_>, _> =
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect();
        tables.map(|tables| tables.into_iter().flatten().collect())
    })?;
    println!("{}", serde_json::to_string_pretty(&table)?);
    Ok(())
}

/// Counts the alarms of each rule for each change.
fn count_alarms(subject: &str, reports: &[Report], decisions: u64) -> Result<Vec<Value>, String> {
    let sessions: Vec<Session> =
        reports.iter().filter_map(|report| Session::from_report(report, subject)).collect();
    if sessions.len() <= rules::STORED_SESSIONS {
        return Err(format!(
            "{subject}: {} complete sessions, expected more than {}",
            sessions.len(),
            rules::STORED_SESSIONS
        ));
    }
    let mut table = Vec::new();
    for change in &CHANGES {
        // The seed is the same for every rule, so all rules judge the same situations.
        for rule in &RULES {
            let mut random = SplitMix64::new(1);
            let mut alarms = 0_u64;
            let mut open = 0_u64;
            let mut seconds = 0.0;
            for _ in 0..decisions {
                let situation = rules::Situation::draw(&sessions, *change, random.next_u64());
                let decision = (rule.decide)(&situation);
                seconds += situation.measured_seconds();
                match decision {
                    rules::Decision::Alarm => alarms += 1,
                    rules::Decision::Nothing => {}
                    rules::Decision::Open => open += 1,
                }
            }
            eprintln!("{subject}, {}, {}: {alarms} of {decisions}", change.name, rule.name);
            table.push(json!({
                "subject": subject, "change": change.name, "rule": rule.name, "of": rule.source,
                "decisions": decisions, "alarms": alarms, "open": open,
                "seconds": seconds / decisions as f64,
            }));
        }
    }
    Ok(table)
}
