//! `Expirations` in JSON, with the feature `serde`.
#![cfg(all(feature = "periodic", feature = "serde"))]

use std::time::Duration;

use osinterval::Expirations;
use tokio::time::Instant;

fn new_expirations() -> Expirations {
    let first = Instant::now();
    Expirations { count: 3, first, last: first + Duration::from_millis(2) }
}

#[test]
fn expirations_survive_json() {
    let expirations = new_expirations();
    let text = serde_json::to_string(&expirations).unwrap();
    assert_eq!(serde_json::from_str::<Expirations>(&text).unwrap(), expirations);
}

#[test]
fn deadlines_keep_their_distance() {
    let value = serde_json::to_value(new_expirations()).unwrap();
    assert_eq!(value["count"], 3);
    let [first, last] = ["first_since_epoch", "last_since_epoch"]
        .map(|key| serde_json::from_value::<Duration>(value[key].clone()).unwrap());
    assert_eq!(last - first, Duration::from_millis(2));
}

#[test]
fn impossible_expirations_are_refused() {
    let stored = serde_json::to_value(new_expirations()).unwrap();
    let early = serde_json::json!({ "secs": 0, "nanos": 0 });
    let far = serde_json::json!({ "secs": u64::MAX, "nanos": 0 });
    for (key, value, expected) in [
        ("count", 0.into(), "invalid count 0"),
        ("last_since_epoch", early, "invalid deadlines"),
        ("last_since_epoch", far, "out of range"),
    ] {
        let mut changed = stored.clone();
        changed[key] = value;
        let error = serde_json::from_value::<Expirations>(changed).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}
