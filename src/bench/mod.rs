//! `osjitter bench`: one part by itself, in the same rounds as what it is compared with.

mod clock;
mod command;
mod dispatch;
mod file;
mod harness;
mod timeout;

use clap::Subcommand;
use cli::exit::{self, ExitStatus, usage};
use files::file::File as _;

use crate::bench::clock::file::ClockReport;
use crate::bench::dispatch::file::DispatchReport;
use crate::bench::file::BenchFile;
pub use crate::bench::file::SCHEMA;
use crate::bench::timeout::file::TimeoutReport;
use crate::render::formats::{Format, Rendering};

#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    /// What reading a clock costs here, how fine and how true it is, and which to use
    Clock(clock::BenchClockArgs),
    /// What a timeout around every wait costs while it does not fire, and what cheaper ways there
    /// are
    Timeout(Box<timeout::BenchTimeoutArgs>),
    /// What polls, wakes, tasks and channels cost in a runtime that does not park, beside tokio
    Dispatch(dispatch::BenchDispatchArgs),
}

pub fn run(command: &BenchCommand) -> exit::Result<ExitStatus> {
    match command {
        BenchCommand::Clock(args) => clock::run(args),
        BenchCommand::Timeout(args) => timeout::run(args),
        BenchCommand::Dispatch(args) => dispatch::run(args),
    }
}

/// The file of a bench in another format; with `reference` beside what others published.
pub fn render(text: &str, format: Format, reference: bool) -> exit::Result<Rendering> {
    fn of<F: BenchFile>(text: &str, format: Format, reference: bool) -> exit::Result<Rendering> {
        F::from_json(text).map_err(|e| usage!("{e}"))?.render(format, reference)
    }
    #[derive(serde::Deserialize)]
    struct Head {
        bench: Option<String>,
    }
    let head: Head = serde_json::from_str(text).map_err(|e| usage!("not a report: {e}"))?;
    let named = |name: Option<&str>| head.bench.is_some() && head.bench.as_deref() == name;
    if named(ClockReport::BENCH) {
        of::<ClockReport>(text, format, reference)
    } else if named(DispatchReport::BENCH) {
        of::<DispatchReport>(text, format, reference)
    } else if named(TimeoutReport::BENCH) {
        of::<TimeoutReport>(text, format, reference)
    } else {
        Err(usage!(
            "the bench {} is not known to this version",
            head.bench.as_deref().unwrap_or("without a name")
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file_io::check_schema;

    #[test]
    fn the_committed_schemas_are_the_models() {
        check_schema("osjitter.bench.1.clock.json", &ClockReport::json_schema());
        check_schema("osjitter.bench.1.dispatch.json", &DispatchReport::json_schema());
        check_schema("osjitter.bench.1.timeout.json", &TimeoutReport::json_schema());
    }
}
