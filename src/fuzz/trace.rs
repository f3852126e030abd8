//! Target for the kernel trace records that `osjitter trace` reads, and for its report.

use std::collections::HashMap;

use cli::exit::{self, usage};
use engine::machine::os::{TRACEPOINTS, ThreadName, TraceReader, TracepointLayout};

use crate::fuzz::round_trip;
use crate::fuzz::step_costs::StepCosts;
use crate::trace::subjects::{groups, subject};
use crate::trace::text;
use crate::trace::waits::Waits;

/// Id of the first tracepoint. Ids are consecutive, and each field is a word.
const FIRST_ID: usize = 100;

fn layout((index, (_, fields)): (usize, (&str, &[&str]))) -> TracepointLayout {
    let description = |(i, name): (usize, &&str)| {
        format!("field:u64 {name}; offset:{}; size:8; signed:0;\n", 8 + 8 * i)
    };
    let descriptions: String = fields.iter().enumerate().map(description).collect();
    TracepointLayout::parse(&format!("ID: {}\n{descriptions}", FIRST_ID + index), fields)
        .expect("a description")
}

pub fn body(bytes: &[u8], costs: &StepCosts) -> exit::Result<()> {
    let layouts: Vec<TracepointLayout> = TRACEPOINTS.into_iter().enumerate().map(layout).collect();
    let mut events = Vec::new();
    costs.measure("read", || TraceReader::default().read(bytes, &layouts, &mut events));
    let functions = HashMap::from([(1, "timerfd_tmrproc".to_owned())]);
    let mut waits = Waits::new(10, true, &functions, vec![1_000_000_000_000]);
    waits.follow(11, ThreadName::from_bytes(b"loop"));
    costs.measure("take", || {
        events.iter().for_each(|event| waits.take(event));
        waits.finish();
    });
    if waits.waits.is_empty() {
        return Err(usage!("no timer woke a thread"));
    }
    for wait in &waits.waits {
        assert_eq!(
            wait.parts.total_ns(),
            u64::try_from(wait.lateness_ns()).unwrap_or(0),
            "{wait:?}"
        );
    }
    let (groups, _) = groups(&waits.waits);
    for group in &groups {
        let subject = costs.measure("subject", || subject(group, 0, 100_000_000));
        round_trip::parse_json(&serde_json::to_string(&subject).expect("plain data"));
    }
    let csv = costs.measure("timers", || text::timers(&groups));
    assert!(csv.lines().all(|line| line.split(',').count() == 8), "{csv}");
    costs.measure("table", || text::stretches(&groups, 80));
    Ok(())
}
