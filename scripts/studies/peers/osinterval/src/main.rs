//! Compares our intervals with those of other crates in interleaved rounds, and writes one JSON
//! object.
//!
//! `peers-osinterval NAME...` runs only these experiments. `peers-osinterval ticks CONTENDER N`
//! only ticks N times at 1 ms, for `strace`. With `--short`, each experiment runs a few rounds, as
//! a test.

mod contender;
mod crowd;
#[cfg(tokio_unstable)]
mod variants;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use contender::{Contender, Round, run};
use osinterval::Precision;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};

const US: fn(u64) -> Duration = Duration::from_micros;

static SHORT: AtomicBool = AtomicBool::new(false);

/// Returns the number of rounds, which is at most two with `--short`.
pub(crate) fn rounds(count: usize) -> usize {
    if SHORT.load(Ordering::Relaxed) { count.min(2) } else { count }
}

fn main() {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some(index) = arguments.iter().position(|a| a == "--short") {
        arguments.remove(index);
        SHORT.store(true, Ordering::Relaxed);
    }
    if let [mode, name, n] = &arguments[..]
        && mode == "ticks"
    {
        let contender = Contender::from_name(name).expect("a contender of that name");
        run(contender, US(1_000), n.parse().expect("a number of ticks"), 0, Duration::ZERO);
        return;
    }
    let experiments: &[(&str, fn() -> Value)] = &[
        ("cpu_per_tick_500us", cpu_per_tick),
        ("lateness_100us", lateness),
        ("precise_500us", precise),
        ("totals", totals),
        ("neighbour_of_500us", neighbour),
        ("counts", crowd::compare_counts),
        ("crowd_1000_at_10ms", crowd::compare),
        ("crowd_10000_under_1024_descriptors", crowd::many_under_a_limit),
        #[cfg(tokio_unstable)]
        ("tokio_unstable", variants::compare),
    ];
    let mut report = json!({});
    for (name, experiment) in experiments {
        if arguments.is_empty() || arguments.iter().any(|a| a == name) {
            report[*name] = experiment();
        }
    }
    println!("{}", serde_json::to_string_pretty(&report).expect("plain data"));
}

/// Runs one round of each contender, in random order, with the same phase.
fn interleaved(
    contenders: &[Contender],
    period: Duration,
    ticks: u64,
    warmup: u64,
    random: &mut SmallRng,
) -> Vec<Round> {
    let mut order: Vec<usize> = (0..contenders.len()).collect();
    order.shuffle(random);
    let phase = US(1_000).mul_f64(random.random());
    let mut rounds: Vec<Option<Round>> = contenders.iter().map(|_| None).collect();
    for i in order {
        rounds[i] = Some(run(contenders[i], period, ticks, warmup, phase));
    }
    rounds.into_iter().flatten().collect()
}

/// Measures rounds repeatedly, and returns a value of each round by contender.
fn columns(
    count: usize,
    mut measure: impl FnMut() -> Vec<Round>,
    value: impl Fn(&Round) -> f64,
) -> Vec<Vec<f64>> {
    let mut columns: Vec<Vec<f64>> = Vec::new();
    for _ in 0..count {
        let rounds = measure();
        columns.resize(rounds.len(), Vec::new());
        for (column, round) in columns.iter_mut().zip(&rounds) {
            column.push(value(round));
        }
    }
    columns
}

fn cpu_per_tick() -> Value {
    let pairs = rounds(40);
    let mut random = SmallRng::seed_from_u64(1);
    let mut compare = |ours, theirs| {
        let measure = || interleaved(&[ours, theirs], US(500), 1_000, 0, &mut random);
        let mut cpu_ns = columns(pairs, measure, Round::cpu_ns_per_tick);
        let mut ratios: Vec<f64> = cpu_ns[0].iter().zip(&cpu_ns[1]).map(|(a, b)| a / b).collect();
        let [low, middle, high] = [0.25, 0.5, 0.75].map(|q| quantile(&mut ratios, q));
        let [ours_ns, theirs_ns] = [0, 1].map(|i| quantile(&mut cpu_ns[i], 0.5));
        json!({ "pairs": pairs, "ours_ns": ours_ns, "theirs_ns": theirs_ns,
                "ratio_median": middle, "ratio_quartiles": [low, high] })
    };
    json!({
        "OsInterval / tokio-osinterval": compare(Contender::OsInterval, Contender::PeerOneShot),
        "PeriodicInterval / tokio-osinterval's": compare(Contender::Periodic, Contender::PeerPeriodic),
        "OsInterval / tokio-hrtime": compare(Contender::OsInterval, Contender::Hrtime),
        "OsInterval / async-timer": compare(Contender::OsInterval, Contender::AsyncTimer),
        "OsInterval / tokio::time::Interval": compare(Contender::OsInterval, Contender::Tokio),
    })
}

fn lateness() -> Value {
    let n = rounds(40);
    let mut random = SmallRng::seed_from_u64(2);
    let contenders = [
        Contender::OsInterval,
        Contender::Periodic,
        Contender::PeerOneShot,
        Contender::Hrtime,
        Contender::AsyncTimer,
    ];
    let measure = || interleaved(&contenders, US(100), 1_000, 50, &mut random);
    let mut p50 = columns(n, measure, |round| round.lateness(0.5));
    let best_other =
        |i: usize| p50[1..].iter().map(|column| column[i]).fold(f64::INFINITY, f64::min);
    let mut ratios: Vec<f64> = (0..n).map(|i| p50[0][i] / best_other(i)).collect();
    json!({
        "rounds": n,
        "OsInterval_p50_ns": quantile(&mut p50[0], 0.5),
        "PeriodicInterval_p50_ns": quantile(&mut p50[1], 0.5),
        "tokio_osinterval_p50_ns": quantile(&mut p50[2], 0.5),
        "tokio_hrtime_p50_ns": quantile(&mut p50[3], 0.5),
        "async_timer_p50_ns": quantile(&mut p50[4], 0.5),
        "ratio_to_the_better_median": quantile(&mut ratios, 0.5),
    })
}

/// Compares the precise mode in rounds in which the machine was fit for it: the spinning thread had
/// a p90 of at most 200 ns, and the sleeping thread a p90 below the maximum lead.
fn precise() -> Value {
    let (wanted, max_tries) = (rounds(10), rounds(100));
    const MAX_LEAD_NS: f64 = 100_000.0;
    let mut random = SmallRng::seed_from_u64(3);
    let contenders = [
        Contender::Precise,
        Contender::OsInterval,
        Contender::SpinSleep,
        Contender::Spin,
        Contender::Nanosleep,
    ];
    let mut kept: Vec<Vec<Round>> = contenders.iter().map(|_| Vec::new()).collect();
    let mut tried = 0;
    while kept[0].len() < wanted && tried < max_tries {
        tried += 1;
        let rounds = interleaved(&contenders, US(500), 250, 20, &mut random);
        if rounds[3].lateness(0.9) <= 200.0 && rounds[4].lateness(0.9) < MAX_LEAD_NS {
            rounds.into_iter().zip(&mut kept).for_each(|(round, kept)| kept.push(round));
        }
    }
    let figures = |rounds: &[Round]| {
        let middle = |f: &dyn Fn(&Round) -> f64| {
            quantile(&mut rounds.iter().map(f).collect::<Vec<_>>(), 0.5)
        };
        json!({ "p50_ns": middle(&|r| r.lateness(0.5)), "p90_ns": middle(&|r| r.lateness(0.9)),
                "core_percent": middle(&|r| r.core_percent()) })
    };
    let mut result = json!({ "rounds_tried": tried, "rounds_kept": kept[0].len() });
    for (contender, rounds) in contenders.iter().zip(&kept) {
        result[contender.name()] = figures(rounds);
    }
    result
}

/// Measures how long a number of ticks takes: from one period before the first deadline to the
/// wake-up for the last one.
fn totals() -> Value {
    let n = rounds(100);
    let mut random = SmallRng::seed_from_u64(5);
    let contenders = [
        Contender::OsInterval,
        Contender::Precise,
        Contender::Periodic,
        Contender::PeerOneShot,
        Contender::Tokio,
    ];
    let mut table = Vec::new();
    for (ticks, period) in [(50, US(2_000)), (100, US(500))] {
        let measure = || interleaved(&contenders, period, ticks, 0, &mut random);
        let mut totals = columns(n, measure, Round::total_ms);
        let mut row = json!({ "rounds": n, "ticks": ticks, "period_ns": period.as_nanos() as u64 });
        for (contender, totals) in contenders.iter().zip(&mut totals) {
            row[contender.name()] = json!(quantile(totals, 0.5));
        }
        table.push(row);
    }
    json!(table)
}

/// Measures the effect of the precise mode on another task of its worker.
///
/// The task is an interval of 510 us, so that its phase relative to 500 us varies. It runs alone,
/// next to an ordinary interval of 500 us, and next to a precise one.
fn neighbour() -> Value {
    let n = rounds(40);
    let mut random = SmallRng::seed_from_u64(4);
    let neighbours = [
        ("alone", None),
        ("beside os-interval", Some(Precision::Os)),
        ("beside os-interval-precise", Some(Precision::spin())),
    ];
    let mut kept: Vec<Vec<Round>> = neighbours.iter().map(|_| Vec::new()).collect();
    for _ in 0..n {
        let mut order: Vec<usize> = (0..neighbours.len()).collect();
        order.shuffle(&mut random);
        let phase = US(1_000).mul_f64(random.random());
        for i in order {
            kept[i].push(contender::run_with_neighbour(
                neighbours[i].1,
                US(510),
                US(500),
                500,
                phase,
            ));
        }
    }
    let mut result = json!({ "rounds": n });
    for ((name, _), rounds) in neighbours.iter().zip(&kept) {
        let middle =
            |q: f64| quantile(&mut rounds.iter().map(|r| r.lateness(q)).collect::<Vec<_>>(), 0.5);
        result[name] =
            json!({ "p50_ns": middle(0.5), "p90_ns": middle(0.9), "p99_ns": middle(0.99) });
    }
    result
}

/// Sorts the values and returns their nearest-rank quantile.
fn quantile(values: &mut [f64], q: f64) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let rank = (q * values.len() as f64).ceil().max(1.0) as usize;
    values.get(rank - 1).copied().unwrap_or(f64::NAN)
}
