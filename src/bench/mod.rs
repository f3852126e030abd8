//! `osjitter bench`: one part by itself, in the same rounds as what it is compared with.

mod clock;
mod command;
mod dispatch;
mod file;
mod harness;
mod timeout;

use clap::Subcommand;
use jitterstat::file::File as _;

use crate::bench::clock::file::ClockReport;
use crate::bench::dispatch::file::DispatchReport;
use crate::bench::file::BenchFile;
pub use crate::bench::file::SCHEMA;
use crate::bench::timeout::file::TimeoutReport;
use crate::exit::{self, ExitStatus, usage};
use crate::render::formats::{Format, Made};

#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    /// What reading a clock costs here, how fine and how true it is, and which to use
    Clock(clock::BenchClockArgs),
    /// What a timeout around every wait costs while it does not fire, and what cheaper ways there are
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
pub fn render(text: &str, format: Format, reference: bool) -> exit::Result<Made> {
    fn of<F: BenchFile>(text: &str, format: Format, reference: bool) -> exit::Result<Made> {
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
        Err(usage!("the bench {} is not known to this version", head.bench.as_deref().unwrap_or("without a name")))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use jitterstat::file::File;

    use super::*;

    /// Set to write the schemas anew instead of comparing.
    const UPDATE: &str = "JITTERSTAT_UPDATE_SCHEMA";

    fn check<F: BenchFile + schemars::JsonSchema>() {
        let name = format!("osjitter.bench.1.{}.json", F::BENCH.unwrap());
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("lib/jitterstat/schema").join(&name);
        let schema = serde_json::to_string_pretty(&<F as File>::json_schema()).unwrap() + "\n";
        if std::env::var_os(UPDATE).is_some() {
            std::fs::write(&path, &schema).unwrap();
        }
        let committed = std::fs::read_to_string(&path).unwrap();
        assert!(committed == schema, "the model of {name} has changed: run with {UPDATE}=1 and read the difference");
    }

    #[test]
    fn the_committed_schemas_are_the_models() {
        check::<ClockReport>();
        check::<DispatchReport>();
        check::<TimeoutReport>();
    }
}
