//! `osjitter bench`: measures one component in isolation, in the same rounds as its alternatives.

mod clock;
mod command;
mod dispatch;
mod file;
mod harness;
pub mod timeout;

use clap::Subcommand;
use cli::exit::{self, Error, ExitStatus, usage};
use engine::panics::catch_panic;
use files::file::File as _;

use crate::bench::clock::file::ClockReport;
use crate::bench::dispatch::file::DispatchReport;
use crate::bench::file::BenchFile;
pub use crate::bench::file::SCHEMA;
use crate::bench::timeout::file::TimeoutReport;
use crate::settings::is_from_file;
use render::formats::{Format, Rendering};

#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    /// Measure the cost, resolution and accuracy of clocks, and recommend one
    Clock(clock::BenchClockArgs),
    /// Measure the cost of a timeout that does not fire around every wait, and of the alternatives
    Timeout(Box<timeout::BenchTimeoutArgs>),
    /// Measure polls, wakes, tasks and channels of a runtime that does not park, compared with
    /// tokio
    Dispatch(dispatch::BenchDispatchArgs),
}

pub fn run(command: &BenchCommand) -> exit::Result<ExitStatus> {
    // A runtime panics if the system refuses it a call, for example in a sandbox.
    let ended = catch_panic(|| match command {
        BenchCommand::Clock(args) => clock::run(args),
        BenchCommand::Timeout(args) => timeout::run(args),
        BenchCommand::Dispatch(args) => dispatch::run(args),
    });
    ended.unwrap_or_else(|panic| Err(Error::measure(format!("cannot measure: {panic}"))))
}

/// Renders the file of a bench in another format, with published figures if `reference` is set.
pub fn render(text: &str, format: Format, reference: bool) -> exit::Result<Rendering> {
    #[derive(serde::Deserialize)]
    struct Head {
        bench: Option<String>,
    }
    let head: Head = serde_json::from_str(text).map_err(|e| usage!("not a report: {e}"))?;
    let has_name = |name: Option<&str>| head.bench.is_some() && head.bench.as_deref() == name;
    let is_typed = reference && !is_from_file("--reference");
    if is_typed && !has_name(TimeoutReport::BENCH) {
        return Err(usage!("--reference goes with the file of osjitter bench timeout"));
    }
    if has_name(ClockReport::BENCH) {
        render_file::<ClockReport>(text, format)
    } else if has_name(DispatchReport::BENCH) {
        render_file::<DispatchReport>(text, format)
    } else if has_name(TimeoutReport::BENCH) {
        let report = TimeoutReport::from_json(text).map_err(|e| usage!("{e}"))?;
        if is_typed {
            timeout::check_reference(&report, format)?;
        }
        report.render(format, reference)
    } else {
        let name = head.bench.as_deref().unwrap_or("without a name");
        Err(usage!("the bench {name} is not known to this version"))
    }
}

fn render_file<F: BenchFile>(text: &str, format: Format) -> exit::Result<Rendering> {
    F::from_json(text).map_err(|e| usage!("{e}"))?.render(format, false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use files::model::check_schema;

    #[test]
    fn schemas_match_models() {
        check_schema("osjitter.bench.1.clock.json", &ClockReport::json_schema());
        check_schema("osjitter.bench.1.dispatch.json", &DispatchReport::json_schema());
        check_schema("osjitter.bench.1.timeout.json", &TimeoutReport::json_schema());
    }
}
