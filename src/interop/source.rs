//! What every foreign source has in common: a frame to fill in, and the warnings about what it cannot tell.

use std::collections::BTreeMap;

pub(super) use jitterstat::report::Warning;
use jitterstat::report::{Clock, Host, MOST_SUBJECTS, Plan, Report, SCHEMA, Scenario, Status, Subject, Summary, Tool};

/// What a foreign file tells, apart from its numbers.
pub(super) struct Source {
    pub tool: &'static str,
    pub version: String,
    /// RFC 3339, or a word where the source does not tell.
    pub started_utc: String,
    pub duration_ns: u64,
    pub host: Host,
    pub clock: Clock,
    pub warnings: Vec<Warning>,
    pub subjects: Vec<Subject>,
}

/// Refuses more threads, CPUs or subjects than there can be.
pub(super) fn not_too_many(at: &str, n: usize) -> Result<(), String> {
    if n > MOST_SUBJECTS { Err(format!("{at}: {n} of them; at most {MOST_SUBJECTS} are read")) } else { Ok(()) }
}

impl Source {
    pub fn report(self) -> Report {
        let scenarios = self.subjects.iter().map(|s| {
            let ticks = s.summary.as_ref().map_or(0, |m| m.ticks);
            Scenario {
                id: s.id.clone(),
                subject: s.name.clone(),
                period_ns: s.period_ns,
                ticks,
                round_ticks: ticks,
                warmup_ticks: 0,
                runtime: None,
                instances: 1,
            }
        });
        let plan = Plan {
            seed: 0,
            samples: false,
            cpu: None,
            sched: None,
            mlock: false,
            timer_slack_ns: None,
            scenarios: scenarios.collect(),
        };
        Report {
            schema: SCHEMA.to_owned(),
            tool: Tool { name: self.tool.to_owned(), version: self.version, commit: None },
            started_utc: self.started_utc,
            duration_ns: self.duration_ns,
            partial: false,
            plan,
            host: self.host,
            clock: self.clock,
            changes: Vec::new(),
            warnings: self.warnings,
            subjects: self.subjects,
        }
    }
}

/// One thread, CPU or tag of a source, without rounds.
pub(super) fn subject(id: String, name: &str, period_ns: Option<u64>) -> Subject {
    Subject {
        id,
        name: name.to_owned(),
        period_ns: period_ns.unwrap_or(0),
        runtime: None,
        instances: 1,
        backend: None,
        status: Status::Failed { reason: "no sample was taken".to_owned() },
        summary: None,
        histogram: None,
        rounds: Vec::new(),
    }
}

/// Counts of a source that delivers every tick it counts, and tells nothing else.
pub(super) fn summary(ticks: u64, missed: u64, lateness_ns: jitterstat::report::Distribution) -> Summary {
    Summary {
        ticks,
        delivered: ticks,
        coalesced: 0,
        skipped: 0,
        missed,
        early: 0,
        no_park: None,
        drift_ppb: None,
        elapsed_ns: 0,
        ideal_ns: 0,
        cpu_ns_per_tick: None,
        wakeups_per_tick: None,
        lateness_ns,
        median_round_ns: BTreeMap::new(),
        jitter_consecutive_ns: None,
        jitter_spread_ns: None,
        until_unpark_ns: None,
        after_unpark_ns: None,
    }
}

/// A machine of which nothing is known.
pub(super) fn unknown_host() -> Host {
    Host {
        os: "unknown system".to_owned(),
        arch: "unknown".to_owned(),
        kernel: None,
        preempt: None,
        cpu_model: None,
        cpus_online: None,
        affinity: None,
        clock_source: None,
        timer_slack_ns: None,
        governor: None,
        idle_driver: None,
        hypervisor: None,
        quota_cpus: None,
        sched: None,
        versions: BTreeMap::new(),
    }
}

/// A clock that counts nanoseconds, read by a tool that cuts them to a step.
pub(super) fn clock(source: &str, step_ns: u64) -> Clock {
    Clock {
        source: source.to_owned(),
        rate_hz: 1e9,
        rate_known_by: "its unit".to_owned(),
        error_bound_ns: step_ns,
        rate_error_ppb: None,
        rate_stated_hz: None,
        cross_thread_order: None,
        why_not_counter: None,
    }
}

pub(super) fn warning(code: &str, message: String, hint: &str) -> Warning {
    Warning { code: code.to_owned(), message, hint: hint.to_owned() }
}

/// No rounds, no samples: what follows from that.
pub(super) fn no_rounds(tool: &str) -> Warning {
    warning(
        "import-no-rounds",
        format!("{tool} keeps no samples and runs no rounds: there are no confidence intervals and nothing over time."),
        "To judge a difference, run both sides several times, or use osjitter gate.",
    )
}

/// Nothing about what the ticks cost.
pub(super) fn no_cost(tool: &str) -> Warning {
    warning(
        "import-no-cost",
        format!("{tool} does not measure what the ticks cost."),
        "osjitter run shows CPU time beside lateness.",
    )
}

/// Whole steps of a unit.
pub(super) fn rounded(tool: &str, step: &str, direction: &str) -> Warning {
    warning(
        "import-rounded",
        format!("{tool} counts in whole {step}, {direction}: percentiles are made from those bins."),
        "Differences below one step say nothing; cyclictest and jitterdebugger count in ns with -N.",
    )
}
