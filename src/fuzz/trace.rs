//! Reads the records that the kernel writes into the rings of `osjitter trace`.

use std::collections::HashMap;

use crate::trace::output;
use crate::trace::subjects::{Groups, subject};
use crate::trace::tracker::WaitTracker;
use cli::exit::{self, usage};
use engine::machine::os::{TRACEPOINTS, ThreadName, TraceReader, TracepointLayout};
use render::document::terminal;

use crate::fuzz::round_trip;
use crate::fuzz::step_costs::StepCosts;

/// A kernel whose tracepoints are numbered from here, each of their fields a word.
const FIRST_ID: usize = 100;

fn layout((place, (_, fields)): (usize, (&str, &[&str]))) -> TracepointLayout {
    let described = |(i, name): (usize, &&str)| {
        format!("field:u64 {name}; offset:{}; size:8; signed:0;\n", 8 + 8 * i)
    };
    let fields_of: String = fields.iter().enumerate().map(described).collect();
    TracepointLayout::parse(&format!("ID: {}\n{fields_of}", FIRST_ID + place), fields)
        .expect("a description")
}

pub fn body(bytes: &[u8], costs: &StepCosts) -> exit::Result<()> {
    let layouts: Vec<TracepointLayout> = TRACEPOINTS.into_iter().enumerate().map(layout).collect();
    let mut events = Vec::new();
    costs.measure("read", || TraceReader::default().read(bytes, &layouts, &mut events));
    let functions = HashMap::from([(1, "timerfd_tmrproc".to_owned())]);
    let mut tracker = WaitTracker::new(10, true, &functions, vec![1_000_000_000_000]);
    tracker.track_thread(11, ThreadName::from_bytes(b"loop"));
    costs.measure("take", || {
        for event in &events {
            tracker.handle_event(event);
        }
        tracker.finish();
    });
    if tracker.waits.is_empty() {
        return Err(usage!("no timer woke a thread"));
    }
    for wait in &tracker.waits {
        assert_eq!(
            wait.parts.total_ns(),
            u64::try_from(wait.lateness_ns()).unwrap_or(0),
            "{wait:?}"
        );
    }
    let groups = Groups::from_waits(&tracker.waits).groups;
    for group in &groups {
        let subject = costs.measure("subject", || subject(group, 0, 100_000_000));
        round_trip::parse_json(&serde_json::to_string(&subject).expect("plain data"));
    }
    let csv = costs.measure("timers", || output::timers_csv(&groups));
    assert!(csv.lines().all(|line| line.split(',').count() == 8), "{csv}");
    costs.measure("table", || terminal::render(&output::stages(&groups), 80));
    Ok(())
}
