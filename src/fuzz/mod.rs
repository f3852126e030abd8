//! Fuzz targets, one function per reader. Each reads hostile bytes, renders the result in every
//! format, and reads the output again.
//!
//! The tests run these functions on a stable toolchain; `fuzz/` builds them for `cargo fuzz`.

mod argument;
mod bench_output;
mod bins;
mod files;
mod gate;
mod histogram;
mod meter;
mod plan;
mod report;
mod request;
mod round_trip;
mod series;
mod settings;
mod stacks;
mod step_costs;
mod trace;

#[cfg(test)]
mod mutate;
#[cfg(test)]
mod tests;

use cli::exit;
use step_costs::StepCosts;

/// A target. Refused input is an error; any other defect is a panic.
type Body = fn(&[u8], &StepCosts) -> exit::Result<()>;

/// Every target with the name of its corpus.
const TARGETS: [(&str, Body); 35] = [
    ("argument", argument::body),
    ("baseline", files::baseline),
    ("bench", files::bench),
    ("bench_output", bench_output::body),
    ("bins", bins::body),
    ("bpftrace", report::body),
    ("breaches", files::breaches),
    ("calibration", files::calibration),
    ("checkup", files::checkup),
    ("comparison", files::comparison),
    ("cyclictest", report::body),
    ("cyclictest_text", report::body),
    ("find", files::find),
    ("flight", files::flight),
    ("gate", gate::body),
    ("glob", argument::glob),
    ("hgrm", report::body),
    ("histogram", histogram::body),
    ("hlog", report::body),
    ("hwlatdetect", report::body),
    ("jitterdebugger", report::body),
    ("meter", meter::body),
    ("oslat", report::body),
    ("oslat_text", report::body),
    ("plan", plan::body),
    ("report", report::body),
    ("request", request::body),
    ("rtla", report::body),
    ("runs", report::several),
    ("series", series::body),
    ("settings", settings::body),
    ("stacks", stacks::body),
    ("trace", trace::body),
    ("verdict", files::verdict),
    ("xenomai", report::body),
];

/// Runs a target on one input, for `cargo fuzz`.
///
/// # Panics
/// Panics if the target finds a defect, or if there is no target of that name.
pub fn run(target: &str, bytes: &[u8]) {
    let (_, body) = TARGETS.iter().find(|(name, _)| *name == target).expect("a target");
    let _ = body(bytes, &StepCosts::default());
}
