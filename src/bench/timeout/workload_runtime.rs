//! The runtime of a workload.

use std::io;

use benchloops::timeouts::loops::Workload;
use engine::measure::worker_threads::build_multi_thread;
use tokio::runtime::{Builder, Runtime};

fn enable_time(builder: &mut Builder) {
    builder.enable_time();
}

/// Creates the runtime on which a workload runs.
pub fn create_runtime(workload: Workload) -> io::Result<Runtime> {
    match workload.workers() {
        None => Builder::new_current_thread().enable_time().build(),
        Some(workers) => build_multi_thread(workers, enable_time, || ()),
    }
}
