//! `Info` in JSON, with the feature `serde`.
#![cfg(feature = "serde")]

use std::time::Duration;

use serde_json::{from_value, json, to_value};
use tach::{CounterUnavailable, CrossThreadOrder, Info, RateFrom, Source, StatedBy};

#[test]
fn info_survives_json() {
    let info = tach::info();
    let text = serde_json::to_string(&info).unwrap();
    assert_eq!(serde_json::from_str::<Info>(&text).unwrap(), info);
}

#[test]
fn variants_have_their_text_form() {
    for source in [Source::Tsc, Source::Cntvct, Source::Rdtime, Source::OsClock] {
        assert_eq!(to_value(source).unwrap(), source.to_string());
    }
    for by in [StatedBy::Cpu, StatedBy::Hypervisor] {
        assert_eq!(to_value(by).unwrap(), by.to_string());
    }
    for order in [
        CrossThreadOrder::Architecture,
        CrossThreadOrder::Kernel,
        CrossThreadOrder::SharedMaximum,
        CrossThreadOrder::OsClock,
    ] {
        assert_eq!(to_value(order).unwrap(), order.to_string());
    }
}

#[test]
fn variants_keep_their_values() {
    let reason = CounterUnavailable::KernelUses("hpet".to_owned());
    let value = to_value(&reason).unwrap();
    assert_eq!(value, json!({ "kernel-uses": "hpet" }));
    assert_eq!(from_value::<CounterUnavailable>(value).unwrap(), reason);
    let rate = RateFrom::Anchors { baseline: Duration::from_millis(1_500) };
    let value = to_value(rate).unwrap();
    assert_eq!(value, json!({ "anchors": { "baseline": { "secs": 1, "nanos": 500_000_000 } } }));
    assert_eq!(from_value::<RateFrom>(value).unwrap(), rate);
}
