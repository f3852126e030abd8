//! The code that a thread ran while a tick was late, from sampled stacks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::report::why::{FoldedStack, LateCode, LateFunction, SampledCode};

/// Number of samples that must agree, unless they cover the whole lateness.
const MIN_SAMPLES: usize = 3;
/// Share of the lateness from which on it counts as covered: a tick is late for a few more
/// microseconds than its samples show.
const WHOLE: f64 = 0.9;
/// Minimum share of the lateness of a function that is named.
const MIN_SHARE: f64 = 0.1;
/// Number of callers that are named.
const MAX_CALLERS: usize = 2;
/// Maximum number of functions and of stacks of a subject.
const MAX_FUNCTIONS: usize = 5;
const MAX_STACKS: usize = 300;

/// A function on a stack.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Frame {
    /// Its name, or the file and the position of its code.
    pub name: Arc<str>,
    /// Whether it belongs to the language or to a runtime, and not to the program.
    pub is_runtime: bool,
}

/// A sampled stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackSample {
    /// Time of the sample.
    pub at_ns: i64,
    /// ID of the thread.
    pub thread: u32,
    /// The functions, from the innermost to the outermost; empty if nothing is known.
    pub frames: Arc<[Frame]>,
}

/// How the stacks of a program were sampled.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StackSampling {
    /// CPU time between two samples.
    pub interval_ns: u64,
    /// The reason why no stacks were sampled.
    pub missing: Option<String>,
    /// Parts that the program lacks for complete names.
    pub hint: Option<String>,
}

impl StackSample {
    /// Returns the functions of the program from the innermost on, without repetitions. Functions of
    /// the language and of runtimes are left out unless there is nothing else.
    #[must_use]
    pub fn names(&self) -> Vec<&str> {
        let is_program = self.frames.iter().any(|frame| !frame.is_runtime);
        let shown = self.frames.iter().filter(|frame| !frame.is_runtime || !is_program);
        let mut names: Vec<&str> = shown.map(|frame| &*frame.name).collect();
        names.dedup();
        names
    }
}

/// Returns the function that was running for most of the samples of a late tick, the innermost one
/// if one of these functions calls the other.
///
/// Returns `None` unless at least three samples, or samples of the whole lateness, agree on it.
#[must_use]
pub fn find_late_code(
    samples: &[StackSample],
    lateness_ns: u64,
    interval_ns: u64,
) -> Option<LateCode> {
    let stacks: Vec<Vec<&str>> = samples.iter().map(StackSample::names).collect();
    let innermost = innermost_common_function(&stacks)?;
    let agreeing = innermost.samples;
    let lateness = lateness_ns.max(1) as f64;
    let share = |count: usize| (count as f64 * interval_ns as f64 / lateness).min(1.0);
    let is_whole = agreeing == samples.len() && share(agreeing) >= WHOLE;
    if share(agreeing) < MIN_SHARE || (agreeing < MIN_SAMPLES && !is_whole) {
        return None;
    }
    Some(LateCode {
        function: innermost.name.to_owned(),
        callers: most_common_callers(&stacks, innermost.name),
        share: share(agreeing),
        coverage: share(samples.len()),
        samples: samples.len() as u64,
    })
}

/// A function with the number of samples in which it or one of its callees ran.
struct CommonFunction<'a> {
    name: &'a str,
    samples: usize,
    /// Sum of its distances from the innermost function of the samples.
    depth: usize,
}

/// Returns the innermost of the functions that are part of most of the samples.
fn innermost_common_function<'a>(stacks: &[Vec<&'a str>]) -> Option<CommonFunction<'a>> {
    let mut functions: BTreeMap<&str, CommonFunction<'_>> = BTreeMap::new();
    for stack in stacks {
        let mut seen = BTreeSet::new();
        for (depth, &name) in stack.iter().enumerate().filter(|(_, name)| seen.insert(**name)) {
            let new = || CommonFunction { name, samples: 0, depth: 0 };
            let function = functions.entry(name).or_insert_with(new);
            function.samples += 1;
            function.depth += depth;
        }
    }
    let common = functions.into_values().filter(|function| function.samples * 2 > stacks.len());
    common.min_by(|a, b| (a.depth * b.samples).cmp(&(b.depth * a.samples)))
}

/// Returns the callers of a function that are most common, from the direct caller on. Those with a
/// function of the program come first, because the copy of a stack may end before it.
fn most_common_callers(stacks: &[Vec<&str>], function: &str) -> Vec<String> {
    let program = program_package(stacks);
    let mut counts: BTreeMap<Vec<&str>, usize> = BTreeMap::new();
    for stack in stacks {
        // The outermost call of a recursive function.
        let Some(at) = stack.iter().rposition(|name| *name == function) else { continue };
        *counts.entry(named_callers(&stack[at..], program)).or_default() += 1;
    }
    let is_complete = |callers: &[&str]| callers.iter().any(|caller| package(caller) == program);
    let most_common =
        counts.into_iter().max_by_key(|(callers, count)| (is_complete(callers), *count));
    most_common.into_iter().flat_map(|(callers, _)| callers).map(str::to_owned).collect()
}

/// Returns the package of the program's own code, which calls all others: the outermost one of most
/// stacks. The function that starts a program in Rust has the name of one in C, without a package.
fn program_package<'a>(stacks: &[Vec<&'a str>]) -> &'a str {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for stack in stacks {
        let packages = stack.iter().rev().map(|name| package(name));
        let outermost = packages.into_iter().find(|package| !package.is_empty());
        *counts.entry(outermost.unwrap_or_default()).or_default() += 1;
    }
    counts.into_iter().max_by_key(|(_, count)| *count).map_or("", |(package, _)| package)
}

/// Returns the callers of the innermost function of a stack that are named, of which one belongs to
/// the program. Callers in its own library say less than the function that calls the library.
fn named_callers<'a>(stack: &[&'a str], program: &str) -> Vec<&'a str> {
    let mut callers = Vec::new();
    let mut callee = stack[0];
    for &caller in &stack[1..] {
        if package(caller) == program || package(caller) != package(callee) {
            callers.push(caller);
            callee = caller;
        }
    }
    let libraries = callers.iter().take_while(|caller| package(caller) != program).count();
    if package(stack[0]) != program && libraries < callers.len() {
        // The program's function stays, next to the libraries that are closest to the innermost one.
        callers.drain(libraries.min(MAX_CALLERS - 1)..libraries);
    }
    callers.truncate(MAX_CALLERS);
    callers
}

/// Returns the crate or namespace of a function, or its package of Go; empty for a function of C.
fn package(function: &str) -> &str {
    let path = function.trim_start_matches(['<', '&', '*']);
    if let Some((package, _)) = path.split_once("::") {
        return package;
    }
    let name = path.rfind('/').map_or(0, |slash| slash + 1);
    path[name..].find('.').map_or("", |dot| &path[..name + dot])
}

/// A late tick with its samples.
pub(super) struct SampledTick<'a> {
    pub lateness_ns: u64,
    pub samples: &'a [StackSample],
}

/// Summarises the code that ran while ticks were late.
pub(super) fn summarise<'a>(
    sampling: &StackSampling,
    ticks: impl Iterator<Item = SampledTick<'a>>,
) -> SampledCode {
    let mut functions: BTreeMap<String, LateFunction> = BTreeMap::new();
    let mut stacks: BTreeMap<Vec<String>, u64> = BTreeMap::new();
    let (mut total_ns, mut covered_ns, mut samples) = (0.0, 0.0, 0);
    for tick in ticks {
        let lateness = tick.lateness_ns as f64;
        let sampled_ns = tick.samples.len() as f64 * sampling.interval_ns as f64;
        total_ns += lateness;
        covered_ns += sampled_ns.min(lateness);
        samples += tick.samples.len() as u64;
        for sample in tick.samples {
            let outermost_first = sample.names().into_iter().rev().map(str::to_owned);
            *stacks.entry(outermost_first.collect()).or_default() += 1;
        }
        let Some(code) = find_late_code(tick.samples, tick.lateness_ns, sampling.interval_ns)
        else {
            continue;
        };
        let LateCode { function, callers, share, .. } = code;
        let new = LateFunction { function: function.clone(), callers, ticks: 0, share: 0.0 };
        let late = functions.entry(function).or_insert(new);
        late.ticks += 1;
        late.share += share * lateness;
    }
    let share = |ns: f64| if total_ns > 0.0 { ns / total_ns } else { 0.0 };
    let mut functions: Vec<LateFunction> = functions.into_values().collect();
    functions.iter_mut().for_each(|function| function.share = share(function.share));
    functions.sort_by(|a, b| b.share.total_cmp(&a.share));
    functions.truncate(MAX_FUNCTIONS);
    stacks.remove(&Vec::new());
    let mut folded = Vec::with_capacity(stacks.len());
    for (frames, samples) in stacks {
        folded.push(FoldedStack { frames, samples });
    }
    folded.sort_by_key(|stack| std::cmp::Reverse(stack.samples));
    folded.truncate(MAX_STACKS);
    SampledCode {
        interval_ns: sampling.interval_ns,
        samples,
        coverage: share(covered_ns),
        functions,
        stacks: folded,
        missing: sampling.missing.clone(),
        hint: sampling.hint.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates a sample of functions, of which those with a star belong to a runtime.
    fn sample(at_ns: i64, names: &str) -> StackSample {
        let frame = |name: &str| Frame {
            name: name.trim_end_matches('*').into(),
            is_runtime: name.ends_with('*'),
        };
        StackSample { at_ns, thread: 1, frames: names.split_whitespace().map(frame).collect() }
    }

    fn samples(names: &[(usize, &str)]) -> Vec<StackSample> {
        let repeated = names.iter().flat_map(|&(count, names)| std::iter::repeat_n(names, count));
        (0..).zip(repeated).map(|(at_ns, names)| sample(at_ns, names)).collect()
    }

    fn found(names: &[(usize, &str)], lateness_ms: u64) -> Option<(String, f64, f64)> {
        let code = find_late_code(&samples(names), lateness_ms * 1_000_000, 1_000_000)?;
        let path = [vec![code.function], code.callers].concat().join(" < ");
        Some((path, code.share, code.coverage))
    }

    #[test]
    fn innermost_common_function_is_named() {
        let parse = "memcpy* parse handle poll* main";
        let expected = Some(("parse < handle < main".to_owned(), 0.8, 1.0));
        assert_eq!(found(&[(8, parse), (2, "other main")], 10), expected);
        let split = [(3, "a parse main"), (3, "b parse main"), (4, "c main")];
        let expected = Some(("parse < main".to_owned(), 0.6, 1.0));
        assert_eq!(found(&split, 10), expected, "none of its callees has most samples");
        let recursive = [(5, "walk walk walk main"), (5, "walk leaf walk main")];
        assert_eq!(found(&recursive, 20), Some(("walk < main".to_owned(), 0.5, 0.5)));
    }

    #[test]
    fn callers_leave_their_library() {
        let callers = |stacks: &[&str]| {
            let stacks: Vec<Vec<&str>> =
                stacks.iter().map(|stack| stack.split_whitespace().collect()).collect();
            most_common_callers(&stacks, stacks[0][0]).join(" ")
        };
        let rust = "json::de::number json::de::value <json::De>::next svc::parse svc::main";
        assert_eq!(callers(&[rust]), "svc::parse svc::main");
        let go = "encoding/json.(*d).object encoding/json.Unmarshal main.parse main.main";
        assert_eq!(callers(&[go]), "main.parse main.main");
        assert_eq!(callers(&["checksum verify main"]), "verify main");
        assert_eq!(callers(&["svc::a svc::b svc::main main"]), "svc::b svc::main");
        let libraries = "crc::sum zip::read json::de http::body svc::parse svc::main";
        assert_eq!(callers(&[libraries]), "zip::read svc::parse");
        let cut = "json::de json::value";
        assert_eq!(
            callers(&["json::de json::value svc::parse", cut, "svc::tick", cut]),
            "svc::parse"
        );
    }

    #[test]
    fn runtime_is_named_without_alternative() {
        let expected = Some(("memcpy < poll".to_owned(), 0.5, 0.5));
        assert_eq!(found(&[(5, "memcpy* poll*")], 10), expected);
    }

    #[test]
    fn few_samples_name_nothing() {
        assert_eq!(found(&[(2, "f main")], 10), None);
        assert_eq!(found(&[(3, "f main")], 10).map(|found| found.1), Some(0.3));
        assert_eq!(found(&[(3, "f main")], 100), None, "three per cent explain nothing");
        assert_eq!(found(&[(1, "f main")], 1).map(|found| found.1), Some(1.0));
        assert_eq!(found(&[(1, "f main"), (1, "g main")], 2).unwrap().0, "main");
        assert_eq!(found(&[(1, "f"), (1, "g")], 2), None);
        assert_eq!(found(&[], 2), None);
        assert_eq!(found(&[(4, "")], 4), None);
    }

    #[test]
    fn summary_weights_functions_by_lateness() {
        let slow = samples(&[(9, "parse main")]);
        let fast = samples(&[(3, "drop main")]);
        let ticks = [(10_000_000, &slow), (3_000_000, &fast), (7_000_000, &vec![])];
        let ticks = ticks.map(|(lateness_ns, samples)| SampledTick { lateness_ns, samples });
        let sampling = StackSampling { interval_ns: 1_000_000, ..StackSampling::default() };
        let code = summarise(&sampling, ticks.into_iter());
        let functions: Vec<_> =
            code.functions.iter().map(|f| (f.function.as_str(), f.ticks, f.share)).collect();
        assert_eq!(functions, [("parse", 1, 0.45), ("drop", 1, 0.15)]);
        assert_eq!((code.samples, code.coverage), (12, 0.6));
        let stacks: Vec<_> = code.stacks.iter().map(|s| (s.frames.join(";"), s.samples)).collect();
        assert_eq!(stacks, [("main;parse".to_owned(), 9), ("main;drop".to_owned(), 3)]);
    }
}
