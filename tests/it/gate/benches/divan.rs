//! Tests of suites of Divan.

use jitterstat::gate::decision::Outcome;

use super::{outcomes, unjudged};
use crate::gate::runs::{ScriptPair, runs};

#[test]
fn benches_of_divan_are_judged() {
    let suite = |median: &str, allocations: &str| {
        format!(
            "[ \"$*\" = '--bench s' ] && [ $DIVAN_MAX_TIME = 0.1 ] && cat <<'END'\n\
             suite     fastest  │ slowest │ median    │ mean │ samples │ iters\n\
             ├─ none   \n\
             ╰─ sort            │         │           │      │         │\n   \
             ├─ 10   1 ns     │ 9 ms    │ {median}  │ 9 ms │ 100     │ 6400\n   \
             │       alloc:   │         │           │      │         │\n   \
             │         1      │ 1       │ {allocations}  │ 1    │         │\n   \
             ╰─ 100  printed 7\n1 ns │ 9 ms │ 8 ms │ 9 ms │ 100 │ 6400\nEND\n"
        )
    };
    let pair = ScriptPair::new(&suite("1.5 ms", "3"), &suite("1.8 ms", "4"));
    let gate = pair.gate(&["--metric", "divan:s"]).exits(1);
    let expected = [
        ("suite::sort::10", 1.5e6, 1.8e6, Outcome::Regressed),
        ("suite::sort::100", 8e6, 8e6, Outcome::Pass),
    ];
    assert_eq!(outcomes(runs(&gate)), expected);
    assert_eq!(unjudged(&gate), ["suite::none: its harness reported no number"]);
    let gate = pair.gate(&["--metric", "divan.alloc:s"]).exits(1);
    assert_eq!(outcomes(runs(&gate)), [("suite::sort::10:alloc", 3.0, 4.0, Outcome::Regressed)]);
    pair.refuses(&["--metric", "divan.p99"], "unknown number \"p99\" of divan: expected median or");
}
