//! Target for the output of a gated program.

use cli::exit::{self, Error};
use jitterstat::series::{Better, Metric, Reader, Writer, metrics};

use crate::fuzz::step_costs::StepCosts;

pub fn body(bytes: &[u8], costs: &StepCosts) -> exit::Result<()> {
    let ticks = costs.measure("ticks", || Reader::read(bytes));
    let declared = costs.measure("metrics", || metrics(bytes));
    if let Ok(ticks) = &ticks {
        let mut file = Vec::new();
        let mut out = Writer::new(&mut file, ticks.period_ns).expect("memory");
        for (k, &ns) in ticks.lateness_ns.iter().enumerate() {
            let [at, waited] = [&ticks.wake_ns, &ticks.waited_ns]
                .map(|column| column.as_ref().map(|column| column[k]));
            match (at, waited) {
                (Some(at), Some(waited)) => out.push_with(ns, at, waited),
                (Some(at), None) => out.push_at(ns, at),
                _ => out.push(ns),
            }
            .expect("memory");
        }
        out.finish().expect("memory");
        assert_eq!(Reader::read(&file[..]).expect("a series of ours"), *ticks);
    }
    declared.iter().flatten().for_each(check);
    ticks.map(drop).or(declared.map(drop)).map_err(|e| Error::usage(e.to_string()))
}

/// Checks that a metric survives writing and reading, and that its quantiles rise.
fn check(metric: &Metric) {
    let quantiles = [0.0, 0.5, 0.9, 0.99, 1.0].map(|q| metric.samples.quantile(q));
    assert!(quantiles.is_sorted(), "{quantiles:?}");
    assert_eq!(quantiles[0].is_some(), metric.samples.count() > 0);
    let mut file = Vec::new();
    let mut out = Writer::without_ticks(&mut file).expect("memory");
    let lower = metric.better == Better::Lower;
    out.declare(&metric.name, &metric.unit, metric.better).expect("a metric that was declared");
    quantiles
        .into_iter()
        .flatten()
        .for_each(|value| out.value(&metric.name, value).expect("memory"));
    out.finish().expect("memory");
    let [again] = &metrics(&file[..]).expect("metrics of ours")[..] else { panic!("one metric") };
    assert_eq!(
        (&again.name, &again.unit, again.better == Better::Lower),
        (&metric.name, &metric.unit, lower)
    );
    assert_eq!(again.samples.quantile(1.0), quantiles[4]);
}
