//! Writes a report of any number of ticks that nothing was measured for: what the exporters are
//! timed with.
//!
//! `cargo run --release --example million-ticks -- report.json [TICKS]`; see
//! `scripts/million-ticks.sh`.

use std::collections::BTreeMap;

use files::file::File as _;
use files::histogram;
use files::report::{Clock, Host, Plan, Report, Round, SCHEMA, Scenario, Status, Subject, Tool};
use files::summary::{InstanceRound, RoundCost, summarise};
use jitterstat::sample::{Grid, RoundSamples, Wakeup};

const SUBJECTS: u64 = 10;
const ROUND_TICKS: u64 = 250;
const WARMUP_TICKS: u64 = 20;
const PERIOD_NS: u64 = 500_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let usage = "usage: million-ticks FILE [TICKS]";
    let file = arguments.next().ok_or(usage)?;
    let ticks: u64 =
        arguments.next().map_or(Ok(1_000_000), |text| text.parse()).map_err(|_| usage)?;
    let subjects: Vec<Subject> = (0..SUBJECTS).map(|n| subject(n, ticks / SUBJECTS)).collect();
    let report = report(subjects);
    std::fs::write(file, report.to_json())?;
    Ok(())
}

fn subject(n: u64, ticks: u64) -> Subject {
    let mut noise = Noise(n + 1);
    let has_runtime = n > 1;
    let samples: Vec<RoundSamples> =
        (0..ticks.div_ceil(ROUND_TICKS)).map(|_| round(&mut noise, n, has_runtime)).collect();
    let cost = RoundCost { cpu_ns: Some(3_000_000 + 100_000 * n), wakeups: Some(260) };
    let parts: Vec<InstanceRound<'_>> = (0..)
        .zip(&samples)
        .map(|(round, samples)| InstanceRound { round, samples, cost })
        .collect();
    let name = format!("subject-{n}");
    let rounds = parts.iter().map(|part| Round {
        index: part.round,
        slot: n,
        start_ns: (part.round * SUBJECTS + n) * PERIOD_NS * (ROUND_TICKS + WARMUP_TICKS),
        phase_ns: 100_000,
        cpu_ns: part.cost.cpu_ns,
        steal_ns: Some(0),
        run_queue_ns: Some(10_000),
        switches_voluntary: Some(255),
        switches_involuntary: Some(5),
        summary: summarise(std::slice::from_ref(part), has_runtime),
        first_tick: WARMUP_TICKS,
        lateness_ns: part.samples.lateness_ns.clone(),
        until_unpark_ns: has_runtime.then(|| part.samples.until_unpark_ns.clone()),
        ..Round::default()
    });
    Subject {
        id: format!("{name}@500us"),
        name,
        period_ns: PERIOD_NS,
        runtime: has_runtime.then(|| "current-thread".to_owned()),
        instances: 1,
        load: None,
        backend: Some("noise".to_owned()),
        status: Status::Measured,
        why: None,
        rounds: rounds.collect(),
        summary: summarise(&parts, has_runtime),
        histogram: Some(histogram::pack(
            samples.iter().flat_map(|s| s.lateness_ns.iter().copied()),
        )),
    }
}

/// One round: about as late as a timer of the kernel, with a tail of three decades.
fn round(noise: &mut Noise, n: u64, has_runtime: bool) -> RoundSamples {
    let grid = Grid { period_ns: PERIOD_NS, first_tick: WARMUP_TICKS, ticks: ROUND_TICKS };
    let wakeups: Vec<Wakeup> = (WARMUP_TICKS..WARMUP_TICKS + ROUND_TICKS)
        .map(|tick| {
            let late = (8_000.0 + 2_000.0 * n as f64) * (0.3 / noise.unit().powf(0.5)).max(0.5);
            let wake_ns = grid.deadline_ns(tick) + late as i64;
            let unpark_ns = has_runtime.then(|| wake_ns - 1_500 - (noise.unit() * 900.0) as i64);
            Wakeup { tick, expirations: 1, wake_ns, unpark_ns }
        })
        .collect();
    RoundSamples::from_wakeups(grid, &wakeups).expect("one wake-up a tick")
}

fn report(subjects: Vec<Subject>) -> Report {
    let scenario = |s: &Subject| Scenario {
        id: s.id.clone(),
        subject: s.name.clone(),
        command: None,
        period_ns: s.period_ns,
        ticks: s.summary.as_ref().map_or(0, |m| m.ticks),
        round_ticks: ROUND_TICKS,
        warmup_ticks: WARMUP_TICKS,
        runtime: s.runtime.clone(),
        instances: 1,
        load: None,
    };
    let plan = Plan {
        seed: 1,
        samples: true,
        cpu: None,
        sched: None,
        mlock: false,
        timer_slack_ns: None,
        why: None,
        scenarios: subjects.iter().map(scenario).collect(),
    };
    let host = Host {
        os: std::env::consts::OS.to_owned(),
        arch: std::env::consts::ARCH.to_owned(),
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
    };
    let clock = Clock {
        source: "noise".to_owned(),
        rate_hz: 1e9,
        rate_known_by: "its unit".to_owned(),
        error_bound_ns: 0,
        rate_error_ppb: None,
        rate_stated_hz: None,
        cross_thread_order: None,
        why_not_counter: None,
        observer_ns_per_tick: None,
    };
    Report {
        schema: SCHEMA.to_owned(),
        tool: Tool { name: "million-ticks".to_owned(), version: "0".to_owned(), commit: None },
        started_utc: "2026-01-01T00:00:00Z".to_owned(),
        duration_ns: 0,
        partial: false,
        plan,
        host,
        clock,
        changes: Vec::new(),
        fitness: None,
        warnings: Vec::new(),
        trace: None,
        loads: Vec::new(),
        subjects,
    }
}

/// `SplitMix64`: the same ticks each time, without a crate for it.
struct Noise(u64);

impl Noise {
    /// A number above 0, up to 1.
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64 + f64::EPSILON
    }
}
