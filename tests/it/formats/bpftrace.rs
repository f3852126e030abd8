//! Histograms of bpftrace: bins without a minimum, a maximum or a mean.

use crate::osjitter::Osjitter;

use super::{fixture, ids, import, subject, warnings};

#[test]
fn keys_of_maps_are_subjects() {
    let report = import(&fixture("bpftrace-hist.txt"), &[]);
    assert_eq!(ids(&report), ["@usecs[java]", "@usecs[node, worker]"]);
    let summary = &subject(&report, "@usecs[java]")["summary"];
    assert_eq!(summary["ticks"], 335);
    let d = &summary["lateness_ns"];
    assert!(d["mean"].is_null());
    assert_eq!((&d["p50"], &d["p90"]), (&1_000.into(), &3_000.into()));
    assert_eq!(warnings(&report, "import-bin-edges").len(), 1);
    assert_eq!(report["clock"]["error_bound_ns"], 1_024_000);
}

#[test]
fn edges_of_bins_are_no_limits() {
    let file = fixture("bpftrace-hist.txt");
    for path in ["max=1ms", "lateness_ns.min=1ms", "lateness_ns.mean=1ms", "p50=1ms"] {
        let gate = ["gate", "--report", file.to_str().unwrap(), "--subject", "@usecs[java]"];
        Osjitter::new(gate).args(["--limit", path]).run().refuses("the report has no");
    }
}
