//! What a well-formed report can still not be. Every number that is let through can be added up and
//! multiplied by the views without leaving its type.

use std::collections::BTreeSet;

use super::why::{Behind, Chain, KernelChain, Shares, Why};
use super::{
    Distribution, MAX_COUNT, MAX_NS, MAX_SUBJECTS, Report, Round, SCHEMA, Subject, Summary,
};
use crate::file::{File, Flaw, Invalid};
use crate::histogram;

/// More instances of one subject than any machine has memory for.
const MAX_INSTANCES: u64 = 1 << 24;

type Checked = Result<(), Invalid>;

impl File for Report {
    const SCHEMA: &'static str = SCHEMA;

    fn check(&self) -> Checked {
        every_number(self)
    }
}

fn every_number(report: &Report) -> Checked {
    not_too_many("subjects", report.subjects.len())?;
    not_too_many("plan.scenarios", report.plan.scenarios.len())?;
    time("duration_ns", report.duration_ns)?;
    time("clock.error_bound_ns", report.clock.error_bound_ns)?;
    time("clock.observer_ns_per_tick", report.clock.observer_ns_per_tick.unwrap_or(0))?;
    for (i, s) in report.plan.scenarios.iter().enumerate() {
        let at = |field: &str| format!("plan.scenarios[{i}].{field}");
        time(&at("period_ns"), s.period_ns)?;
        count(&at("ticks"), s.ticks)?;
        count(&at("warmup_ticks"), s.warmup_ticks)?;
        count(&at("round_ticks"), s.round_ticks)?;
        instances(&at("instances"), s.instances)?;
    }
    let mut ids = BTreeSet::new();
    let mut stolen = 0_u64;
    for (i, s) in report.subjects.iter().enumerate() {
        let at = format!("subjects[{i}]");
        require(ids.insert(s.id.as_str()), || (format!("{at}.id"), Flaw::Twice(s.id.clone())))?;
        subject(&at, s)?;
        // Rounds of subjects that share an index ran one after the other: what was stolen adds up.
        for (n, round) in s.rounds.iter().enumerate() {
            stolen = stolen.saturating_add(round.steal_ns.unwrap_or(0));
            time(&format!("{at}.rounds[{n}].steal_ns, added up"), stolen)?;
        }
    }
    Ok(())
}

fn subject(at: &str, subject: &Subject) -> Checked {
    time(&format!("{at}.period_ns"), subject.period_ns)?;
    instances(&format!("{at}.instances"), subject.instances)?;
    let mut span_ns = 0_u64;
    for (n, r) in subject.rounds.iter().enumerate() {
        let at = format!("{at}.rounds[{n}]");
        span_ns = span_ns.saturating_add(round(&at, r, subject)?);
        time(&format!("{at}, all before it added up"), span_ns)?;
    }
    if let Some(s) = &subject.summary {
        summary(&format!("{at}.summary"), s, subject.period_ns)?;
        // Fewer where samples were not kept.
        let kept: usize = subject.rounds.iter().map(|round| round.lateness_ns.len()).sum();
        let came = s.ticks.saturating_sub(s.skipped);
        consistent(kept as u64 <= came, &format!("{at}.rounds"), || {
            format!("they hold {kept} ticks, and {came} came")
        })?;
    }
    if let Some(w) = &subject.why {
        why(&format!("{at}.why"), w)?;
    }
    if let Some(stored) = &subject.histogram {
        let at = format!("{at}.histogram");
        let read = histogram::unpack(stored)
            .map_err(|e| Invalid { at: at.clone(), flaw: Flaw::Histogram(e) })?;
        // What stands for the largest bin may be above the value that is in it.
        time(&format!("{at}, its largest value"), read.lowest_equivalent(read.max()))?;
        count(&format!("{at}.count"), stored.count)?;
        let above = stored.overflow.as_ref().map_or(0, |overflow| overflow.count);
        consistent(above <= stored.count, &format!("{at}.overflow"), || {
            format!("{above} values of {}", stored.count)
        })?;
        let came = subject.summary.as_ref().map_or(stored.count, |s| s.ticks - s.skipped);
        consistent(came == stored.count, &at, || {
            format!("it holds {} ticks, and {came} came", stored.count)
        })?;
    }
    Ok(())
}

/// Checks a round, and returns how long it is.
fn round(at: &str, round: &Round, subject: &Subject) -> Result<u64, Invalid> {
    let field = |name: &str| format!("{at}.{name}");
    count(&field("index"), round.index)?;
    count(&field("slot"), round.slot)?;
    count(&field("instance"), round.instance)?;
    count(&field("first_tick"), round.first_tick)?;
    time(&field("start_ns"), round.start_ns)?;
    time(&field("phase_ns"), round.phase_ns)?;
    for (name, value) in [
        ("cpu_ns", round.cpu_ns),
        ("steal_ns", round.steal_ns),
        ("run_queue_ns", round.run_queue_ns),
    ] {
        time(&field(name), value.unwrap_or(0))?;
    }
    for (name, value) in [
        ("switches_voluntary", round.switches_voluntary),
        ("switches_involuntary", round.switches_involuntary),
    ] {
        count(&field(name), value.unwrap_or(0))?;
    }
    let recorded = round.lateness_ns.len();
    let one_each = |name: &str, entries: usize| {
        consistent(entries == recorded, &field(name), || {
            format!("{entries} entries for {recorded} of lateness_ns")
        })
    };
    for (i, &late) in round.lateness_ns.iter().enumerate() {
        signed(|| format!("{at}.lateness_ns[{i}]"), late)?;
    }
    if let Some(ticks) = &round.tick {
        one_each("tick", ticks.len())?;
        if let Some(i) = ticks.windows(2).position(|pair| pair[0] >= pair[1]) {
            let sentence = || format!("{} after {}", ticks[i + 1], ticks[i]);
            consistent(false, &format!("{at}.tick[{}]", i + 1), sentence)?;
        }
        let first = ticks.first().is_none_or(|&first| first >= round.first_tick);
        consistent(first, &field("tick[0]"), || "less than first_tick".to_owned())?;
        count(&field("tick"), ticks.last().copied().unwrap_or(0))?;
    }
    if let Some(until) = &round.until_unpark_ns {
        one_each("until_unpark_ns", until.len())?;
        for (i, until) in until.iter().enumerate() {
            signed(|| format!("{at}.until_unpark_ns[{i}]"), until.unwrap_or(0))?;
        }
    }
    let last = round.tick_index(recorded.saturating_sub(1));
    let end = last.saturating_add(1).saturating_mul(subject.period_ns);
    time(&format!("{at}, its last deadline"), end)?;
    if let Some(s) = &round.summary {
        summary(&field("summary"), s, subject.period_ns)?;
        let asked = s.ticks / subject.instances >= recorded as u64;
        consistent(asked, &field("summary.ticks"), || {
            format!("{} asked for, and {recorded} came", s.ticks)
        })?;
    }
    Ok(end)
}

fn summary(at: &str, s: &Summary, period_ns: u64) -> Checked {
    let field = |name: &str| format!("{at}.{name}");
    for (name, value) in [
        ("ticks", s.ticks),
        ("delivered", s.delivered),
        ("coalesced", s.coalesced),
        ("skipped", s.skipped),
        ("missed", s.missed),
        ("early", s.early),
        ("no_park", s.no_park.unwrap_or(0)),
    ] {
        count(&field(name), value)?;
    }
    consistent(s.delivered + s.coalesced + s.skipped == s.ticks, at, || {
        format!("delivered, coalesced and skipped are not {} ticks together", s.ticks)
    })?;
    time(&format!("{at}.ticks, times the period"), s.ticks.saturating_mul(period_ns))?;
    signed(|| field("elapsed_ns"), s.elapsed_ns)?;
    signed(|| field("ideal_ns"), s.ideal_ns)?;
    for (name, value) in
        [("cpu_ns_per_tick", s.cpu_ns_per_tick), ("wakeups_per_tick", s.wakeups_per_tick)]
    {
        let value = value.unwrap_or(0.0);
        require((0.0..=MAX_NS as f64).contains(&value), || (field(name), Flaw::Number(value)))?;
    }
    distribution(&field("lateness_ns"), &s.lateness_ns)?;
    for (name, d) in [
        ("jitter_consecutive_ns", &s.jitter_consecutive_ns),
        ("jitter_spread_ns", &s.jitter_spread_ns),
        ("until_unpark_ns", &s.until_unpark_ns),
        ("after_unpark_ns", &s.after_unpark_ns),
    ] {
        d.as_ref().map_or(Ok(()), |d| distribution(&field(name), d))?;
    }
    for (name, m) in &s.median_round_ns {
        let at = || format!("{at}.median_round_ns.{name}");
        signed(at, m.value)?;
        m.ci95.map_or(Ok(()), |[low, high]| signed(at, low).and_then(|()| signed(at, high)))?;
    }
    Ok(())
}

fn distribution(at: &str, d: &Distribution) -> Checked {
    signed(|| format!("{at}.min"), d.min)?;
    signed(|| format!("{at}.max"), d.max)?;
    let mut below = ("min", d.min);
    let given = d
        .percentiles()
        .into_iter()
        .filter_map(|(percentile, value)| Some((percentile.key, value?)));
    for (name, value) in given.chain([("max", d.max)]) {
        consistent(value >= below.1, &format!("{at}.{name}"), || {
            format!("{value}, less than {} of {}", below.1, below.0)
        })?;
        below = (name, value);
    }
    consistent((d.min..=d.max).contains(&d.mean), &format!("{at}.mean"), || {
        format!("{} is not between {} and {}", d.mean, d.min, d.max)
    })?;
    for (name, [low, high]) in &d.ci95 {
        signed(|| format!("{at}.ci95.{name}[0]"), *low)?;
        signed(|| format!("{at}.ci95.{name}[1]"), *high)?;
        consistent(low <= high, &format!("{at}.ci95.{name}"), || format!("{low} is above {high}"))?;
    }
    Ok(())
}

fn why(at: &str, w: &Why) -> Checked {
    for (name, n) in [("ticks", w.ticks), ("late_ticks", w.late_ticks), ("episodes", w.episodes)] {
        count(&format!("{at}.{name}"), n)?;
    }
    consistent(w.late_ticks <= w.ticks, &format!("{at}.late_ticks"), || {
        format!("more than {} ticks", w.ticks)
    })?;
    time(&format!("{at}.threshold_ns"), w.threshold_ns)?;
    time(&format!("{at}.lateness_ns"), w.lateness_ns)?;
    for (name, d) in [("overhead_ns", &w.overhead_ns), ("overhead_cpu_ns", &w.overhead_cpu_ns)] {
        let mut ends = d.iter().flat_map(|d| d.ci95.into_iter().flatten().chain([d.p50]));
        ends.try_for_each(|ns| signed(|| format!("{at}.{name}"), ns))?;
    }
    let all = w.shares_ns.iter().map(|s| ("shares_ns".to_owned(), s, w.lateness_ns));
    let longest = (0..)
        .zip(&w.longest)
        .map(|(i, t)| (format!("longest[{i}].shares_ns"), &t.shares_ns, t.lateness_ns));
    let rounds = (0..)
        .zip(&w.rounds)
        .map(|(i, r)| (format!("rounds[{i}].shares_ns"), &r.shares_ns, r.lateness_ns));
    for (name, shares, lateness_ns) in all.chain(longest).chain(rounds) {
        shared(&format!("{at}.{name}"), shares, lateness_ns)?;
    }
    for (i, r) in w.rounds.iter().enumerate() {
        count(&format!("{at}.rounds[{i}].ticks"), r.ticks)?;
        count(&format!("{at}.rounds[{i}].late_ticks"), r.late_ticks)?;
        time(&format!("{at}.rounds[{i}].start_ns"), r.start_ns)?;
    }
    w.kernel_chain.as_ref().map_or(Ok(()), |c| kernel_chain(&format!("{at}.kernel_chain"), c))?;
    for (i, tick) in w.longest.iter().enumerate() {
        tick.chain.map_or(Ok(()), |c| chain(&format!("{at}.longest[{i}].chain"), &c))?;
    }
    let of_ticks = w.longest.iter().filter_map(|t| t.behind.as_ref());
    let each = |b: &Behind| time(&format!("{at}.behind, {}", b.comm), b.ns);
    w.behind.iter().chain(of_ticks).flatten().try_for_each(each)
}

fn kernel_chain(at: &str, c: &KernelChain) -> Checked {
    count(&format!("{at}.whole"), c.whole)?;
    count(&format!("{at}.broken"), c.broken)?;
    let shares = c.links.iter().map(|link| link.within_1us).chain(c.agreement);
    for share in shares {
        require((0.0..=1.0).contains(&share), || (at.to_owned(), Flaw::Number(share)))?;
    }
    let mut values = c.links.iter().flat_map(|link| link.p99.into_iter().chain([link.p50]));
    values.try_for_each(|ns| signed(|| format!("{at}.links"), ns))
}

fn chain(at: &str, c: &Chain) -> Checked {
    let mut links =
        [c.timer_ns, c.woken_ns, c.on_cpu_ns, c.runtime_ns.unwrap_or(0), c.task_ns].into_iter();
    links.try_for_each(|ns| signed(|| at.to_owned(), ns))
}

fn shared(at: &str, shares: &Shares, lateness_ns: u64) -> Checked {
    time(at, lateness_ns)?;
    let total = shares.total_ns();
    consistent(total == lateness_ns, at, || {
        format!("parts of {total} ns add up to another number than {lateness_ns}")
    })
}

fn require(holds: bool, otherwise: impl FnOnce() -> (String, Flaw)) -> Checked {
    if holds {
        return Ok(());
    }
    let (at, flaw) = otherwise();
    Err(Invalid { at, flaw })
}

fn consistent(holds: bool, at: &str, sentence: impl FnOnce() -> String) -> Checked {
    require(holds, || (at.to_owned(), Flaw::Contradiction(sentence())))
}

fn not_too_many(at: &str, found: usize) -> Checked {
    require(found <= MAX_SUBJECTS, || (at.to_owned(), Flaw::TooMany { found, most: MAX_SUBJECTS }))
}

fn time(at: &str, ns: u64) -> Checked {
    require(ns <= MAX_NS, || (at.to_owned(), Flaw::Time(ns.into())))
}

fn signed(at: impl Fn() -> String, ns: i64) -> Checked {
    require(ns.unsigned_abs() <= MAX_NS, || (at(), Flaw::Time(ns.into())))
}

fn count(at: &str, n: u64) -> Checked {
    require(n <= MAX_COUNT, || (at.to_owned(), Flaw::Count(n)))
}

fn instances(at: &str, n: u64) -> Checked {
    require((1..=MAX_INSTANCES).contains(&n), || (at.to_owned(), Flaw::Number(n as f64)))
}
