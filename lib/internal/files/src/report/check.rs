//! Checks that the numbers of a well-formed report are possible. Views can add up and multiply
//! every accepted number without overflow.

use std::collections::BTreeSet;

use super::why::{Behind, Chain, KernelChain, Shares, Why};
use super::{
    Distribution, Histogram, MAX_COUNT, MAX_NS, MAX_SUBJECTS, Report, Round, SCHEMA, Scenario,
    Subject, Summary,
};
use crate::file::{File, Flaw, Invalid};
use crate::histogram;

/// Maximum number of instances of one subject: more than any machine has memory for.
const MAX_INSTANCES: u64 = 1 << 24;

type CheckResult = Result<(), Invalid>;

impl File for Report {
    const SCHEMA: &'static str = SCHEMA;

    fn check(&self) -> CheckResult {
        check_length("subjects", self.subjects.len())?;
        check_length("plan.scenarios", self.plan.scenarios.len())?;
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
            require(is_new, || (format!("{at}.id"), Flaw::Twice(subject.id.clone())))?;
            check_subject(&at, subject)?;
        }
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
            check_time(&format!("subjects[{i}].rounds[{n}].steal_ns, added up"), stolen)?;
        }
    }
    Ok(())
}

fn check_scenario(at: &str, scenario: &Scenario) -> CheckResult {
    check_time(&format!("{at}.period_ns"), scenario.period_ns)?;
    check_count(&format!("{at}.ticks"), scenario.ticks)?;
    check_count(&format!("{at}.warmup_ticks"), scenario.warmup_ticks)?;
    check_count(&format!("{at}.round_ticks"), scenario.round_ticks)?;
    check_instances(&format!("{at}.instances"), scenario.instances)
}

fn check_subject(at: &str, subject: &Subject) -> CheckResult {
    check_time(&format!("{at}.period_ns"), subject.period_ns)?;
    check_instances(&format!("{at}.instances"), subject.instances)?;
    let mut span_ns = 0_u64;
    for (n, round) in subject.rounds.iter().enumerate() {
        let at = format!("{at}.rounds[{n}]");
        span_ns = span_ns.saturating_add(check_round(&at, round, subject)?);
        check_time(&format!("{at}, all before it added up"), span_ns)?;
    }
    if let Some(summary) = &subject.summary {
        check_summary(&format!("{at}.summary"), summary, subject.period_ns)?;
        // The rounds contain fewer ticks if samples were not kept.
        let kept: usize = subject.rounds.iter().map(|round| round.lateness_ns.len()).sum();
        let came = summary.ticks.saturating_sub(summary.skipped);
        check_consistent(kept as u64 <= came, &format!("{at}.rounds"), || {
            format!("they hold {kept} ticks, and {came} came")
        })?;
    }
    if let Some(why) = &subject.why {
        check_why(&format!("{at}.why"), why)?;
    }
    let histogram = subject.histogram.as_ref();
    histogram.map_or(Ok(()), |stored| {
        check_histogram(&format!("{at}.histogram"), stored, subject.summary.as_ref())
    })
}

fn check_histogram(at: &str, stored: &Histogram, summary: Option<&Summary>) -> CheckResult {
    let read = histogram::unpack(stored)
        .map_err(|e| Invalid { at: at.to_owned(), flaw: Flaw::Histogram(e) })?;
    // The representative of the largest bin may be above the values in it.
    check_time(&format!("{at}, its largest value"), read.lowest_equivalent(read.max()))?;
    check_count(&format!("{at}.count"), stored.count)?;
    let above = stored.overflow.as_ref().map_or(0, |overflow| overflow.count);
    check_consistent(above <= stored.count, &format!("{at}.overflow"), || {
        format!("{above} values of {}", stored.count)
    })?;
    let came = summary.map_or(stored.count, |s| s.ticks - s.skipped);
    check_consistent(came == stored.count, at, || {
        format!("it holds {} ticks, and {came} came", stored.count)
    })
}

/// Checks a round, and returns the time from its start to the deadline after its last tick.
fn check_round(at: &str, round: &Round, subject: &Subject) -> Result<u64, Invalid> {
    let field = |name: &str| format!("{at}.{name}");
    check_count(&field("index"), round.index)?;
    check_count(&field("slot"), round.slot)?;
    check_count(&field("instance"), round.instance)?;
    check_count(&field("first_tick"), round.first_tick)?;
    check_time(&field("start_ns"), round.start_ns)?;
    check_time(&field("phase_ns"), round.phase_ns)?;
    check_time(&field("cpu_ns"), round.cpu_ns.unwrap_or(0))?;
    check_time(&field("steal_ns"), round.steal_ns.unwrap_or(0))?;
    check_time(&field("run_queue_ns"), round.run_queue_ns.unwrap_or(0))?;
    check_count(&field("switches_voluntary"), round.switches_voluntary.unwrap_or(0))?;
    check_count(&field("switches_involuntary"), round.switches_involuntary.unwrap_or(0))?;
    check_samples(at, round)?;
    let recorded = round.lateness_ns.len();
    let last = round.tick_index(recorded.saturating_sub(1));
    let end = last.saturating_add(1).saturating_mul(subject.period_ns);
    check_time(&format!("{at}, its last deadline"), end)?;
    if let Some(summary) = &round.summary {
        check_summary(&field("summary"), summary, subject.period_ns)?;
        let is_enough = summary.ticks / subject.instances >= recorded as u64;
        check_consistent(is_enough, &field("summary.ticks"), || {
            format!("{} asked for, and {recorded} came", summary.ticks)
        })?;
    }
    Ok(end)
}

/// Checks the lateness, the indices and the parks of the ticks of a round.
fn check_samples(at: &str, round: &Round) -> CheckResult {
    let field = |name: &str| format!("{at}.{name}");
    let recorded = round.lateness_ns.len();
    let check_entries = |name: &str, entries: usize| {
        check_consistent(entries == recorded, &field(name), || {
            format!("{entries} entries for {recorded} of lateness_ns")
        })
    };
    for (i, &late) in round.lateness_ns.iter().enumerate() {
        check_signed_time(|| format!("{at}.lateness_ns[{i}]"), late)?;
    }
    if let Some(ticks) = &round.tick {
        check_entries("tick", ticks.len())?;
        if let Some(i) = ticks.windows(2).position(|pair| pair[0] >= pair[1]) {
            let sentence = || format!("{} after {}", ticks[i + 1], ticks[i]);
            check_consistent(false, &format!("{at}.tick[{}]", i + 1), sentence)?;
        }
        let is_recorded = ticks.first().is_none_or(|&first| first >= round.first_tick);
        check_consistent(is_recorded, &field("tick[0]"), || "less than first_tick".to_owned())?;
        check_count(&field("tick"), ticks.last().copied().unwrap_or(0))?;
    }
    if let Some(until) = &round.until_unpark_ns {
        check_entries("until_unpark_ns", until.len())?;
        for (i, until) in until.iter().enumerate() {
            check_signed_time(|| format!("{at}.until_unpark_ns[{i}]"), until.unwrap_or(0))?;
        }
    }
    Ok(())
}

fn check_summary(at: &str, s: &Summary, period_ns: u64) -> CheckResult {
    let field = |name: &str| format!("{at}.{name}");
    check_counts(at, s)?;
    check_time(&format!("{at}.ticks, times the period"), s.ticks.saturating_mul(period_ns))?;
    check_signed_time(|| field("elapsed_ns"), s.elapsed_ns)?;
    check_signed_time(|| field("ideal_ns"), s.ideal_ns)?;
    for (name, value) in
        [("cpu_ns_per_tick", s.cpu_ns_per_tick), ("wakeups_per_tick", s.wakeups_per_tick)]
    {
        let value = value.unwrap_or(0.0);
        require((0.0..=MAX_NS as f64).contains(&value), || (field(name), Flaw::Number(value)))?;
    }
    check_distribution(&field("lateness_ns"), &s.lateness_ns)?;
    for (name, distribution) in [
        ("jitter_consecutive_ns", &s.jitter_consecutive_ns),
        ("jitter_spread_ns", &s.jitter_spread_ns),
        ("until_unpark_ns", &s.until_unpark_ns),
        ("after_unpark_ns", &s.after_unpark_ns),
    ] {
        distribution.as_ref().map_or(Ok(()), |d| check_distribution(&field(name), d))?;
    }
    for (name, median) in &s.median_round_ns {
        let at = || format!("{at}.median_round_ns.{name}");
        let bounds = median.ci95.into_iter().flatten();
        bounds.chain([median.value]).try_for_each(|ns| check_signed_time(at, ns))?;
    }
    Ok(())
}

/// Checks the numbers of ticks of a summary.
fn check_counts(at: &str, s: &Summary) -> CheckResult {
    for (name, value) in [
        ("ticks", s.ticks),
        ("delivered", s.delivered),
        ("coalesced", s.coalesced),
        ("skipped", s.skipped),
        ("missed", s.missed),
        ("early", s.early),
        ("no_park", s.no_park.unwrap_or(0)),
    ] {
        check_count(&format!("{at}.{name}"), value)?;
    }
    check_consistent(s.delivered + s.coalesced + s.skipped == s.ticks, at, || {
        format!("delivered, coalesced and skipped are not {} ticks together", s.ticks)
    })
}

fn check_distribution(at: &str, d: &Distribution) -> CheckResult {
    check_signed_time(|| format!("{at}.min"), d.min)?;
    check_signed_time(|| format!("{at}.max"), d.max)?;
    let percentiles = d.percentiles().into_iter();
    let known = percentiles.filter_map(|(percentile, value)| Some((percentile.key, value?)));
    let (mut previous_name, mut previous) = ("min", d.min);
    for (name, value) in known.chain([("max", d.max)]) {
        check_consistent(value >= previous, &format!("{at}.{name}"), || {
            format!("{value}, less than {previous} of {previous_name}")
        })?;
        (previous_name, previous) = (name, value);
    }
    check_consistent((d.min..=d.max).contains(&d.mean), &format!("{at}.mean"), || {
        format!("{} is not between {} and {}", d.mean, d.min, d.max)
    })?;
    for (name, [low, high]) in &d.ci95 {
        check_signed_time(|| format!("{at}.ci95.{name}[0]"), *low)?;
        check_signed_time(|| format!("{at}.ci95.{name}[1]"), *high)?;
        check_consistent(low <= high, &format!("{at}.ci95.{name}"), || {
            format!("{low} is above {high}")
        })?;
    }
    Ok(())
}

fn check_why(at: &str, w: &Why) -> CheckResult {
    for (name, n) in [("ticks", w.ticks), ("late_ticks", w.late_ticks), ("episodes", w.episodes)] {
        check_count(&format!("{at}.{name}"), n)?;
    }
    check_consistent(w.late_ticks <= w.ticks, &format!("{at}.late_ticks"), || {
        format!("more than {} ticks", w.ticks)
    })?;
    check_time(&format!("{at}.threshold_ns"), w.threshold_ns)?;
    check_time(&format!("{at}.lateness_ns"), w.lateness_ns)?;
    for (name, d) in [("overhead_ns", &w.overhead_ns), ("overhead_cpu_ns", &w.overhead_cpu_ns)] {
        let mut values = d.iter().flat_map(|d| d.ci95.into_iter().flatten().chain([d.p50]));
        values.try_for_each(|ns| check_signed_time(|| format!("{at}.{name}"), ns))?;
    }
    check_all_shares(at, w)?;
    for (i, round) in w.rounds.iter().enumerate() {
        check_count(&format!("{at}.rounds[{i}].ticks"), round.ticks)?;
        check_count(&format!("{at}.rounds[{i}].late_ticks"), round.late_ticks)?;
        check_time(&format!("{at}.rounds[{i}].start_ns"), round.start_ns)?;
    }
    let kernel_chain = w.kernel_chain.as_ref();
    kernel_chain.map_or(Ok(()), |c| check_kernel_chain(&format!("{at}.kernel_chain"), c))?;
    for (i, tick) in w.longest.iter().enumerate() {
        tick.chain.map_or(Ok(()), |c| check_chain(&format!("{at}.longest[{i}].chain"), &c))?;
    }
    let longest = w.longest.iter().filter_map(|tick| tick.behind.as_ref());
    let mut threads = w.behind.iter().chain(longest).flatten();
    threads.try_for_each(|b: &Behind| check_time(&format!("{at}.behind, {}", b.comm), b.ns))
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
    check_count(&format!("{at}.whole"), c.whole)?;
    check_count(&format!("{at}.broken"), c.broken)?;
    let shares = c.links.iter().map(|link| link.within_1us).chain(c.agreement);
    for share in shares {
        require((0.0..=1.0).contains(&share), || (at.to_owned(), Flaw::Number(share)))?;
    }
    let mut values = c.links.iter().flat_map(|link| link.p99.into_iter().chain([link.p50]));
    values.try_for_each(|ns| check_signed_time(|| format!("{at}.links"), ns))
}

fn check_chain(at: &str, c: &Chain) -> CheckResult {
    let mut links =
        [c.timer_ns, c.woken_ns, c.on_cpu_ns, c.runtime_ns.unwrap_or(0), c.task_ns].into_iter();
    links.try_for_each(|ns| check_signed_time(|| at.to_owned(), ns))
}

fn check_shares(at: &str, shares: &Shares, lateness_ns: u64) -> CheckResult {
    check_time(at, lateness_ns)?;
    let total = shares.total_ns();
    check_consistent(total == lateness_ns, at, || {
        format!("parts of {total} ns add up to another number than {lateness_ns}")
    })
}

fn require(is_valid: bool, otherwise: impl FnOnce() -> (String, Flaw)) -> CheckResult {
    if is_valid {
        return Ok(());
    }
    let (at, flaw) = otherwise();
    Err(Invalid { at, flaw })
}

fn check_consistent(
    is_consistent: bool,
    at: &str,
    sentence: impl FnOnce() -> String,
) -> CheckResult {
    require(is_consistent, || (at.to_owned(), Flaw::Contradiction(sentence())))
}

fn check_length(at: &str, found: usize) -> CheckResult {
    require(found <= MAX_SUBJECTS, || (at.to_owned(), Flaw::TooMany { found, most: MAX_SUBJECTS }))
}

fn check_time(at: &str, ns: u64) -> CheckResult {
    require(ns <= MAX_NS, || (at.to_owned(), Flaw::Time(ns.into())))
}

fn check_signed_time(at: impl Fn() -> String, ns: i64) -> CheckResult {
    require(ns.unsigned_abs() <= MAX_NS, || (at(), Flaw::Time(ns.into())))
}

fn check_count(at: &str, n: u64) -> CheckResult {
    require(n <= MAX_COUNT, || (at.to_owned(), Flaw::Count(n)))
}

fn check_instances(at: &str, n: u64) -> CheckResult {
    require((1..=MAX_INSTANCES).contains(&n), || (at.to_owned(), Flaw::Number(n as f64)))
}
