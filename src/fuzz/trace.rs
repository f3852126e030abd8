//! What the kernel writes into the rings of `osjitter trace`, and what becomes of it.

use std::collections::HashMap;

use cli::exit::{self, usage};
use engine::machine::os::{TRACEPOINTS, ThreadName, TraceReader, TracepointLayout};

use crate::fuzz::again;
use crate::fuzz::stage::Stages;
use crate::trace::subjects::{groups, subject};
use crate::trace::text;
use crate::trace::waits::Waits;

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

pub fn body(bytes: &[u8], stages: &Stages) -> exit::Result<()> {
    let layouts: Vec<TracepointLayout> = TRACEPOINTS.into_iter().enumerate().map(layout).collect();
    let mut events = Vec::new();
    stages.of("read", || TraceReader::default().read(bytes, &layouts, &mut events));
    let functions = HashMap::from([(1, "timerfd_tmrproc".to_owned())]);
    let mut waits = Waits::new(10, true, &functions, vec![1_000_000_000_000]);
    waits.follow(11, ThreadName::from_bytes(b"loop"));
    stages.of("take", || {
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
        let subject = stages.of("subject", || subject(group, 0, 100_000_000));
        again::json(&serde_json::to_string(&subject).expect("plain data"));
    }
    let csv = stages.of("timers", || text::timers(&groups));
    assert!(csv.lines().all(|line| line.split(',').count() == 8), "{csv}");
    stages.of("table", || text::stretches(&groups, 80));
    Ok(())
}
