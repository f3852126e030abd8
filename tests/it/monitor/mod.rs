//! Runs `osjitter monitor`: scrapes it, breaks its limits, takes its disk away, and kills it.
#![cfg(unix)]

mod exported_ticks;
mod http_requests;
mod interval_log;
mod limit_checks;
mod monitor_arguments;
mod probe_costs;
mod scraping;
mod written_log;

use std::path::{Path, PathBuf};

use tickmeter::ENV_DIRECTORY;

#[cfg(target_os = "linux")]
pub use self::interval_log::files;
#[cfg(target_os = "linux")]
pub use self::scraping::{metrics_address, scrape, wait_for_ticks};
use crate::osjitter::{Osjitter, Running};

/// The directory of a monitor, with its meters and its log.
pub struct MonitorHome {
    directory: tempfile::TempDir,
    pub meters: PathBuf,
    pub log: PathBuf,
}

impl MonitorHome {
    pub fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let [meters, log] = ["meters", "log"].map(|name| directory.path().join(name));
        Self { directory, meters, log }
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Returns a command for a monitor. Its budget is so large that it never lengthens the periods
    /// of its probes.
    pub fn monitor(&self, args: &[&str]) -> Osjitter {
        let monitor = Osjitter::new(["monitor", "--budget", "400%"]);
        monitor.args(args).env(ENV_DIRECTORY, &self.meters)
    }

    /// Returns a command for a monitor that writes a log of an interval per second.
    pub fn logging_monitor(&self, args: &[&str]) -> Osjitter {
        self.monitor(args).args(["--interval", "1s", "--log"]).args([&self.log])
    }
}

/// Starts a monitor that ends after five minutes even if a test fails.
pub fn start(monitor: Osjitter) -> Running {
    monitor.args(["--duration", "5m"]).start()
}
