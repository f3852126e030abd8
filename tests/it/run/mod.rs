//! Tests of `osjitter run`.

mod counted_ticks;
mod refused_arguments;
mod result_files;
mod scripted_runs;
mod shortages;

use files::report::{Report, Subject, Summary};

use crate::osjitter::Osjitter;

pub fn run(args: &[&str]) -> Osjitter {
    Osjitter::new(["run"]).args(args)
}

fn find_subject<'a>(report: &'a Report, name: &str) -> &'a Subject {
    report.subjects.iter().find(|s| s.name == name).unwrap()
}

/// Returns the number of ticks that were delivered, coalesced or skipped.
fn count_ticks(summary: &Summary) -> u64 {
    summary.delivered + summary.coalesced.unwrap() + summary.skipped.unwrap()
}
