//! Checks that the numbers of a well-formed report are possible. Views can add up and multiply
//! every accepted number without overflow.

use std::collections::BTreeSet;
use std::fmt::Display;

use super::why::{Behind, Chain, KernelChain, Shares, Why};
use super::{
    CpuComparison, CpuDifference, Distribution, Histogram, MAX_COUNT, MAX_INSTANCES, MAX_NS,
    MAX_SUBJECTS, Report, Round, SCHEMA, Scenario, Subject, Summary,
};
use crate::file::{File, Flaw, Invalid};
use crate::histogram;

/// Whether a value is possible, or its flaw.
pub(crate) type CheckResult = Result<(), Invalid>;

impl File for Report {
    const SCHEMA: &'static str = SCHEMA;
    const IS_INDENTED: bool = false;

    fn check(&self) -> CheckResult {
        check_length("subjects", self.subjects.len(), MAX_SUBJECTS)?;
        check_length("plan.scenarios", self.plan.scenarios.len(), MAX_SUBJECTS)?;
        check_time("duration_ns", self.duration_ns)?;
        check_time("clock.error_bound_ns", self.clock.error_bound_ns)?;
        let observer_ns = self.clock.observer_ns_per_tick.unwrap_or(0);
        check_time("clock.observer_ns_per_tick", observer_ns)?;
        for (i, scenario) in self.plan.scenarios.iter().enumerate() {
            check_scenario(&format!("plan.scenarios[{i}]"), scenario)?;
        }
        let mut ids = BTreeSet::new();
        for (i, subject) in self.subjects.iter().enumerate() {
            let at = format!("subjects[{i}]");
            let is_new = ids.insert(subject.id.as_str());
            require(is_new, format_args!("{at}.id"), Flaw::Twice(subject.id.clone()))?;
            check_subject(&at, subject)?;
            if self.is_own() {
                check_misses(&at, subject)?;
                check_without_samples(&at, subject)?;
            }
        }
        check_cpu_comparisons(&self.cpu_comparisons)?;
        check_total_steal(&self.subjects)
    }
}

/// Checks the total steal time: the rounds of different subjects with the same index ran one after
/// the other.
fn check_total_steal(subjects: &[Subject]) -> CheckResult {
    let mut stolen = 0_u64;
    for (i, subject) in subjects.iter().enumerate() {
        for (n, round) in subject.rounds.iter().enumerate() {
            stolen = stolen.saturating_add(round.steal_ns.unwrap_or(0));
            check_time(format_args!("subjects[{i}].rounds[{n}].steal_ns, added up"), stolen)?;
        }
    }
    Ok(())
}

fn check_cpu_comparisons(comparisons: &[CpuComparison]) -> CheckResult {
    check_length("cpu_comparisons", comparisons.len(), MAX_SUBJECTS)?;
    for (i, comparison) in comparisons.iter().enumerate() {
        let at = format!("cpu_comparisons[{i}]");
        check_length(&format!("{at}.subjects"), comparison.subjects.len(), MAX_SUBJECTS)?;
        for (n, difference) in comparison.differences.iter().enumerate() {
            check_cpu_difference(&format!("{at}.differences[{n}]"), difference)?;
        }
    }
    Ok(())
}

fn check_cpu_difference(at: &str, difference: &CpuDifference) -> CheckResult {
    check_count(format_args!("{at}.cpu"), difference.cpu)?;
    check_count(format_args!("{at}.rounds"), difference.rounds)?;
    check_signed_time(format_args!("{at}.difference_ns"), difference.difference_ns)?;
    for ns in difference.difference_ns_ci95.into_iter().flatten() {
        check_signed_time(format_args!("{at}.difference_ns_ci95"), ns)?;
    }
    Ok(())
}

fn check_scenario(at: &str, scenario: &Scenario) -> CheckResult {
    check_time(format_args!("{at}.period_ns"), scenario.period_ns)?;
    check_count(format_args!("{at}.ticks"), scenario.ticks)?;
    check_count(format_args!("{at}.warmup_ticks"), scenario.warmup_ticks)?;
    check_count(format_args!("{at}.round_ticks"), scenario.round_ticks)?;
    check_count(format_args!("{at}.cpu"), scenario.cpu.unwrap_or(0))?;
    check_instances(format_args!("{at}.instances"), scenario.instances)
}

fn check_subject(at: &str, subject: &Subject) -> CheckResult {
    check_time(format_args!("{at}.period_ns"), subject.period_ns)?;
    check_instances(format_args!("{at}.instances"), subject.instances)?;
    check_count(format_args!("{at}.cpu"), subject.cpu.unwrap_or(0))?;
    let mut span_ns = 0_u64;
    for (n, round) in subject.rounds.iter().enumerate() {
        let at = format!("{at}.rounds[{n}]");
        span_ns = span_ns.saturating_add(check_round(&at, round, subject)?);
        check_time(format_args!("{at}, all before it added up"), span_ns)?;
    }
    check_recorded_ticks(at, subject)?;
    if let Some(summary) = &subject.summary {
        check_summary(&format!("{at}.summary"), summary, subject.period_ns)?;
        // The rounds contain no ticks if samples were not kept, and otherwise all.
        let kept: usize = subject.rounds.iter().map(|round| round.lateness_ns.len()).sum();
        let came = summary.came();
        check_consistent(
            kept == 0 || kept as u64 == came,
            format_args!("{at}.rounds"),
            format_args!("they hold {kept} ticks, and {came} came"),
        )?;
    }
    if let Some(why) = &subject.why {
        check_why(&format!("{at}.why"), why)?;
    }
    if let Some(stored) = &subject.histogram {
        check_histogram(&format!("{at}.histogram"), stored, subject.summary.as_ref())?;
    }
    Ok(())
}

/// Checks that each round has as many recorded ticks as came, if samples were kept. In a stopped round,
/// each instance has planned another number of ticks, of which only the sum is stored.
fn check_recorded_ticks(at: &str, subject: &Subject) -> CheckResult {
    let mut first = 0;
    let has_samples = subject.has_samples();
    // The entry of the first instance contains the summary of the whole round.
    for entries in subject.rounds.chunk_by(|a, b| a.index == b.index) {
        let recorded: u64 = entries.iter().map(|entry| entry.lateness_ns.len() as u64).sum();
        if let Some(summary) = entries[0].summary.as_ref().filter(|_| has_samples) {
            let came = summary.came();
            check_consistent(
                recorded == came,
                format_args!("{at}.rounds[{first}]"),
                format_args!("it holds {recorded} ticks, and {came} came"),
            )?;
        }
        first += entries.len();
    }
    Ok(())
}

fn check_histogram(at: &str, stored: &Histogram, summary: Option<&Summary>) -> CheckResult {
    let read = histogram::unpack(stored)
        .map_err(|e| Invalid { at: at.to_owned(), flaw: Flaw::Histogram(e) })?;
    // The representative of the largest bin may be above the values in it.
    check_time(format_args!("{at}, its largest value"), read.lowest_equivalent(read.max()))?;
    check_count(format_args!("{at}.count"), stored.count)?;
    let above = stored.overflow.as_ref().map_or(0, |overflow| overflow.count);
    check_consistent(
        above <= stored.count,
        format_args!("{at}.overflow"),
        format_args!("{above} values of {}", stored.count),
    )?;
    let came = summary.map_or(stored.count, Summary::came);
    check_consistent(
        came == stored.count,
        at,
        format_args!("it holds {} ticks, and {came} came", stored.count),
    )
}

/// Checks that no fewer ticks are stated to be missed than were skipped or came a period late. Other
/// tools count a stall once.
fn check_misses(at: &str, subject: &Subject) -> CheckResult {
    let period_ns = i64::try_from(subject.period_ns).unwrap_or(i64::MAX);
    if period_ns == 0 {
        return Ok(());
    }
    let late = |round: &Round| {
        round.lateness_ns.iter().filter(|&&late_ns| late_ns >= period_ns).count() as u64
    };
    let check = |at: &str, summary: &Option<Summary>, late: u64| {
        let counted = summary.as_ref().and_then(|s| Some((s.missed?, s.skipped.unwrap_or(0))));
        let Some((missed, skipped)) = counted else { return Ok(()) };
        check_consistent(
            missed >= late.saturating_add(skipped),
            format_args!("{at}.summary.missed"),
            format_args!("{missed}, and {late} came a period late and {skipped} were skipped"),
        )
    };
    let (mut total, mut first) = (0, 0);
    // The entry of the first instance contains the summary of the whole round.
    for entries in subject.rounds.chunk_by(|a, b| a.index == b.index) {
        let late_in_round: u64 = entries.iter().map(late).sum();
        check(&format!("{at}.rounds[{first}]"), &entries[0].summary, late_in_round)?;
        total += late_in_round;
        first += entries.len();
    }
    check(at, &subject.summary, total)
}

/// Checks the misses and the largest value of a subject without samples against its histogram and its
/// rounds.
fn check_without_samples(at: &str, subject: &Subject) -> CheckResult {
    let (Some(summary), false) = (&subject.summary, subject.has_samples()) else { return Ok(()) };
    let rounds = || subject.rounds.iter().filter_map(|round| round.summary.as_ref());
    let missed_in_rounds = rounds().filter_map(|round| round.missed).fold(0, u64::saturating_add);
    let max_in_rounds = rounds().map(|round| round.lateness_ns.max).max();
    let stored = subject.histogram.as_ref().filter(|stored| stored.overflow.is_none());
    let read = stored.and_then(|stored| histogram::unpack(stored).ok());
    let is_late = |ns: u64| subject.period_ns > 0 && ns >= subject.period_ns;
    let late_in_histogram: u64 = read.iter().fold(0, |late, read| {
        let steps = read.iter_recorded();
        let late_steps =
            steps.filter(|step| is_late(read.lowest_equivalent(step.value_iterated_to())));
        late_steps.map(|step| step.count_at_value()).fold(late, u64::saturating_add)
    });
    let max_in_histogram = read
        .filter(|read| !read.is_empty())
        .map(|read| i64::try_from(read.lowest_equivalent(read.max())).unwrap_or(i64::MAX));
    let proven = missed_in_rounds.max(late_in_histogram);
    check_consistent(
        summary.missed.is_none_or(|missed| missed >= proven),
        format_args!("{at}.summary.missed"),
        format_args!("fewer than the {proven} of its rounds and its histogram"),
    )?;
    let max_ns = summary.lateness_ns.max;
    // Early ticks count at 0 in the histogram.
    let max_in_histogram = max_in_histogram.filter(|found| *found > 0);
    for found in max_in_rounds.into_iter().chain(max_in_histogram) {
        check_consistent(
            max_ns >= found,
            format_args!("{at}.summary.lateness_ns.max"),
            format_args!("{max_ns}, and its rounds and its histogram reach {found}"),
        )?;
    }
    Ok(())
}

/// Checks a round, and returns the time from its start to the deadline after its last tick.
fn check_round(at: &str, round: &Round, subject: &Subject) -> Result<u64, Invalid> {
    check_count(format_args!("{at}.index"), round.index)?;
    check_count(format_args!("{at}.slot"), round.slot)?;
    check_count(format_args!("{at}.instance"), round.instance)?;
    check_count(format_args!("{at}.first_tick"), round.first_tick)?;
    check_time(format_args!("{at}.start_ns"), round.start_ns)?;
    check_time(format_args!("{at}.phase_ns"), round.phase_ns)?;
    check_time(format_args!("{at}.cpu_ns"), round.cpu_ns.unwrap_or(0))?;
    check_time(format_args!("{at}.steal_ns"), round.steal_ns.unwrap_or(0))?;
    check_time(format_args!("{at}.run_queue_ns"), round.run_queue_ns.unwrap_or(0))?;
    check_count(format_args!("{at}.switches_voluntary"), round.switches_voluntary.unwrap_or(0))?;
    check_count(
        format_args!("{at}.switches_involuntary"),
        round.switches_involuntary.unwrap_or(0),
    )?;
    check_samples(at, round)?;
    let recorded = round.lateness_ns.len();
    let last = round.tick_index(recorded.saturating_sub(1));
    let end = last.saturating_add(1).saturating_mul(subject.period_ns);
    check_time(format_args!("{at}, its last deadline"), end)?;
    if let Some(summary) = &round.summary {
        check_summary(&format!("{at}.summary"), summary, subject.period_ns)?;
    }
    Ok(end)
}

/// Checks the lateness, the indices and the parks of the ticks of a round.
fn check_samples(at: &str, round: &Round) -> CheckResult {
    let recorded = round.lateness_ns.len();
    for (i, &late) in round.lateness_ns.iter().enumerate() {
        check_signed_time(format_args!("{at}.lateness_ns[{i}]"), late)?;
    }
    if let Some(ticks) = &round.tick {
        check_entries(format_args!("{at}.tick"), ticks.len(), recorded)?;
        for (i, pair) in ticks.windows(2).enumerate() {
            check_consistent(
                pair[0] < pair[1],
                format_args!("{at}.tick[{}]", i + 1),
                format_args!("{} after {}", pair[1], pair[0]),
            )?;
        }
        let is_recorded = ticks.first().is_none_or(|&first| first >= round.first_tick);
        check_consistent(is_recorded, format_args!("{at}.tick[0]"), "less than first_tick")?;
        check_count(format_args!("{at}.tick"), ticks.last().copied().unwrap_or(0))?;
    }
    if let Some(until) = &round.until_unpark_ns {
        check_entries(format_args!("{at}.until_unpark_ns"), until.len(), recorded)?;
        for (i, until) in until.iter().enumerate() {
            check_signed_time(format_args!("{at}.until_unpark_ns[{i}]"), until.unwrap_or(0))?;
        }
    }
    Ok(())
}

/// Checks that there is one entry for each recorded tick.
fn check_entries(at: impl Display, entries: usize, recorded: usize) -> CheckResult {
    check_consistent(
        entries == recorded,
        at,
        format_args!("{entries} entries for {recorded} of lateness_ns"),
    )
}

fn check_summary(at: &str, s: &Summary, period_ns: u64) -> CheckResult {
    check_counts(at, s)?;
    check_time(format_args!("{at}.ticks, times the period"), s.ticks.saturating_mul(period_ns))?;
    check_signed_time(format_args!("{at}.elapsed_ns"), s.elapsed_ns)?;
    check_signed_time(format_args!("{at}.ideal_ns"), s.ideal_ns)?;
    for (name, value) in
        [("cpu_ns_per_tick", s.cpu_ns_per_tick), ("wakeups_per_tick", s.wakeups_per_tick)]
    {
        let value = value.unwrap_or(0.0);
        let is_possible = (0.0..=MAX_NS as f64).contains(&value);
        require(is_possible, format_args!("{at}.{name}"), Flaw::Number(value))?;
    }
    check_distribution(&format!("{at}.lateness_ns"), &s.lateness_ns)?;
    for (name, distribution) in [
        ("jitter_consecutive_ns", &s.jitter_consecutive_ns),
        ("jitter_spread_ns", &s.jitter_spread_ns),
        ("until_unpark_ns", &s.until_unpark_ns),
        ("after_unpark_ns", &s.after_unpark_ns),
    ] {
        if let Some(distribution) = distribution {
            check_distribution(&format!("{at}.{name}"), distribution)?;
        }
    }
    for (name, median) in &s.median_round_ns {
        for ns in median.ci95.into_iter().flatten().chain([median.value]) {
            check_signed_time(format_args!("{at}.median_round_ns.{name}"), ns)?;
        }
    }
    Ok(())
}

/// Checks the numbers of ticks of a summary.
fn check_counts(at: &str, s: &Summary) -> CheckResult {
    for (name, value) in [
        ("ticks", s.ticks),
        ("delivered", s.delivered),
        ("coalesced", s.coalesced.unwrap_or(0)),
        ("skipped", s.skipped.unwrap_or(0)),
        ("missed", s.missed.unwrap_or(0)),
        ("missed_at_least", s.missed_at_least.unwrap_or(0)),
        ("early", s.early.unwrap_or(0)),
        ("no_park", s.no_park.unwrap_or(0)),
    ] {
        check_count(format_args!("{at}.{name}"), value)?;
    }
    let not_delivered = s.coalesced.unwrap_or(0) + s.skipped.unwrap_or(0);
    check_consistent(
        s.delivered + not_delivered == s.ticks,
        at,
        format_args!("delivered, coalesced and skipped are not {} ticks together", s.ticks),
    )
}

fn check_distribution(at: &str, d: &Distribution) -> CheckResult {
    check_signed_time(format_args!("{at}.min"), d.min)?;
    check_signed_time(format_args!("{at}.max"), d.max)?;
    let percentiles = d.percentiles().map(|(percentile, value)| (percentile.key, value));
    let (mut previous_name, mut previous) = ("min", d.min);
    for (name, value) in percentiles.into_iter().chain([("max", Some(d.max))]) {
        let Some(value) = value else { continue };
        check_consistent(
            value >= previous,
            format_args!("{at}.{name}"),
            format_args!("{value}, less than {previous} of {previous_name}"),
        )?;
        (previous_name, previous) = (name, value);
    }
    if let Some(mean) = d.mean {
        check_consistent(
            (d.min..=d.max).contains(&mean),
            format_args!("{at}.mean"),
            format_args!("{mean} is not between {} and {}", d.min, d.max),
        )?;
    }
    for (name, [low, high]) in &d.ci95 {
        check_signed_time(format_args!("{at}.ci95.{name}[0]"), *low)?;
        check_signed_time(format_args!("{at}.ci95.{name}[1]"), *high)?;
        check_consistent(
            low <= high,
            format_args!("{at}.ci95.{name}"),
            format_args!("{low} is above {high}"),
        )?;
    }
    Ok(())
}

fn check_why(at: &str, w: &Why) -> CheckResult {
    for (name, n) in [("ticks", w.ticks), ("late_ticks", w.late_ticks), ("episodes", w.episodes)] {
        check_count(format_args!("{at}.{name}"), n)?;
    }
    check_consistent(
        w.late_ticks <= w.ticks,
        format_args!("{at}.late_ticks"),
        format_args!("more than {} ticks", w.ticks),
    )?;
    check_time(format_args!("{at}.threshold_ns"), w.threshold_ns)?;
    check_time(format_args!("{at}.lateness_ns"), w.lateness_ns)?;
    for (name, d) in [("overhead_ns", &w.overhead_ns), ("overhead_cpu_ns", &w.overhead_cpu_ns)] {
        let Some(d) = d else { continue };
        for ns in d.ci95.into_iter().flatten().chain([d.p50]) {
            check_signed_time(format_args!("{at}.{name}"), ns)?;
        }
    }
    check_all_shares(at, w)?;
    for (i, round) in w.rounds.iter().enumerate() {
        check_count(format_args!("{at}.rounds[{i}].ticks"), round.ticks)?;
        check_count(format_args!("{at}.rounds[{i}].late_ticks"), round.late_ticks)?;
        check_time(format_args!("{at}.rounds[{i}].start_ns"), round.start_ns)?;
    }
    if let Some(chain) = &w.kernel_chain {
        check_kernel_chain(&format!("{at}.kernel_chain"), chain)?;
    }
    check_behind(at, w.behind.as_deref())?;
    for (i, tick) in w.longest.iter().enumerate() {
        if let Some(chain) = &tick.chain {
            check_chain(format_args!("{at}.longest[{i}].chain"), chain)?;
        }
        check_behind(at, tick.behind.as_deref())?;
    }
    Ok(())
}

/// Checks the lateness by cause, of all late ticks, the longest ones and each round.
fn check_all_shares(at: &str, w: &Why) -> CheckResult {
    if let Some(shares) = &w.shares_ns {
        check_shares(&format!("{at}.shares_ns"), shares, w.lateness_ns)?;
    }
    for (i, tick) in w.longest.iter().enumerate() {
        let at = format!("{at}.longest[{i}].shares_ns");
        check_shares(&at, &tick.shares_ns, tick.lateness_ns)?;
    }
    for (i, round) in w.rounds.iter().enumerate() {
        let at = format!("{at}.rounds[{i}].shares_ns");
        check_shares(&at, &round.shares_ns, round.lateness_ns)?;
    }
    Ok(())
}

fn check_kernel_chain(at: &str, c: &KernelChain) -> CheckResult {
    check_count(format_args!("{at}.whole"), c.whole)?;
    check_count(format_args!("{at}.broken"), c.broken)?;
    check_share(at, c.agreement.unwrap_or(0.0))?;
    for link in &c.links {
        check_share(at, link.within_1us)?;
        check_signed_time(format_args!("{at}.links"), link.p50)?;
        check_signed_time(format_args!("{at}.links"), link.p99.unwrap_or(0))?;
    }
    Ok(())
}

fn check_chain(at: impl Display, c: &Chain) -> CheckResult {
    for ns in [c.timer_ns, c.woken_ns, c.on_cpu_ns, c.runtime_ns.unwrap_or(0), c.task_ns] {
        check_signed_time(&at, ns)?;
    }
    Ok(())
}

/// Checks the times of the threads that ran in place of a late one.
fn check_behind(at: &str, threads: Option<&[Behind]>) -> CheckResult {
    for thread in threads.into_iter().flatten() {
        check_time(format_args!("{at}.behind, {}", thread.comm), thread.ns)?;
    }
    Ok(())
}

fn check_shares(at: &str, shares: &Shares, lateness_ns: u64) -> CheckResult {
    check_time(at, lateness_ns)?;
    let total = shares.total_ns();
    check_consistent(
        total == lateness_ns,
        at,
        format_args!("parts of {total} ns add up to another number than {lateness_ns}"),
    )
}

/// Requires that a value is possible.
pub(crate) fn require(is_valid: bool, at: impl Display, flaw: Flaw) -> CheckResult {
    if is_valid { Ok(()) } else { Err(Invalid { at: at.to_string(), flaw }) }
}

/// Requires that two numbers do not contradict each other.
pub(crate) fn check_consistent(
    is_consistent: bool,
    at: impl Display,
    sentence: impl Display,
) -> CheckResult {
    if is_consistent {
        return Ok(());
    }
    Err(Invalid { at: at.to_string(), flaw: Flaw::Contradiction(sentence.to_string()) })
}

pub(crate) fn check_length(at: &str, found: usize, most: usize) -> CheckResult {
    require(found <= most, at, Flaw::TooMany { found, most })
}

pub(crate) fn check_time(at: impl Display, ns: u64) -> CheckResult {
    require(ns <= MAX_NS, at, Flaw::Time(ns.into()))
}

pub(crate) fn check_signed_time(at: impl Display, ns: i64) -> CheckResult {
    require(ns.unsigned_abs() <= MAX_NS, at, Flaw::Time(ns.into()))
}

pub(crate) fn check_count(at: impl Display, n: u64) -> CheckResult {
    require(n <= MAX_COUNT, at, Flaw::Count(n))
}

pub(crate) fn check_share(at: impl Display, share: f64) -> CheckResult {
    require((0.0..=1.0).contains(&share), at, Flaw::Number(share))
}

fn check_instances(at: impl Display, n: u64) -> CheckResult {
    require((1..=MAX_INSTANCES).contains(&n), at, Flaw::Number(n as f64))
}
