//! Flags of a gate that none of its questions uses.

use cli::exit::{self, usage};
use engine::scenario::parse_subject;

use crate::gate::args::GateArgs;
use crate::needless_runtime;
use crate::settings::is_from_file;

/// The part of a gate for which a flag is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    /// A comparison of two sides, or with a baseline.
    Comparison,
    /// Any measurement.
    Measurement,
}

impl Purpose {
    fn is_part_of(self, args: &GateArgs) -> bool {
        let compares = !args.a.is_empty()
            || args.candidate_cmd.is_some()
            || args.bench.is_some()
            || args.baseline.is_some();
        let measures_limited = !args.limit.is_empty() && args.report.is_none();
        compares || self == Self::Measurement && measures_limited
    }

    fn description(self) -> &'static str {
        match self {
            Self::Comparison => "two sides or --baseline; a --limit has no tolerance and no pairs",
            Self::Measurement => "a measurement, and --report has its own",
        }
    }
}

/// Checks that a question of the gate uses each given flag. Those of a project are defaults, for which
/// not every gate has a use.
///
/// # Errors
/// Returns an error for the first flag without effect.
pub fn check(args: &GateArgs) -> exit::Result<()> {
    let (judged, rounds) = (&args.judged, &args.judged.rounds);
    let flags = [
        ("--tolerance", !judged.tolerance.is_empty(), Purpose::Comparison),
        ("--floor", judged.floor.is_some(), Purpose::Comparison),
        ("--max-pairs", args.max_pairs.is_some(), Purpose::Comparison),
        ("--max-time", args.max_time.is_some(), Purpose::Comparison),
        ("--cpu", rounds.cpu.is_some(), Purpose::Measurement),
        ("--seed", rounds.seed.is_some(), Purpose::Measurement),
        ("--round-ticks", rounds.round_ticks.is_some(), Purpose::Measurement),
        ("--warmup", rounds.warmup.is_some(), Purpose::Measurement),
    ];
    let is_needless = |(flag, is_given, purpose): &(&str, bool, Purpose)| {
        *is_given && !purpose.is_part_of(args) && !is_from_file(flag)
    };
    match flags.into_iter().find(is_needless) {
        Some((flag, _, purpose)) => Err(usage!("{flag} is for {}", purpose.description())),
        None => needless_runtime::check(rounds.runtime.as_slice(), may_need_runtime(args)?),
    }
}

/// Returns whether a subject may have a runtime: that of a baseline or a report is not an argument.
fn may_need_runtime(args: &GateArgs) -> exit::Result<bool> {
    let subject = args.subject.as_deref().filter(|_| args.report.is_none());
    let subject = subject.map(parse_subject).transpose().map_err(|e| usage!("--subject: {e}"))?;
    let mut subjects = args.a.iter().chain(&args.b).copied().chain(subject);
    Ok(args.baseline.is_some()
        || args.report.is_some()
        || subjects.any(|subject| subject.runtime_kind.has_runtime()))
}
