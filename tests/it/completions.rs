//! Tests of `osjitter completions`.

use crate::osjitter::Osjitter;

fn completions(shell: &str) -> String {
    Osjitter::new(["completions", shell]).run().exits(0).stdout
}

#[test]
fn completions_list_flags_and_values() {
    const VALUES: [&str; 7] = [
        "tokio-sleep-reused-boxed", "openmetrics", "multi-thread", "softirq", "max-rss",
        "p99=100us", "max=20ms",
    ];
    for (shell, words) in [
        ("bash", [&VALUES[..], &["--percentiles"]].concat()),
        ("zsh", [&VALUES[..], &["_files"]].concat()),
        ("fish", VALUES.to_vec()),
        ("elvish", Vec::new()),
        ("powershell", Vec::new()),
    ] {
        let script = completions(shell);
        for word in words {
            assert!(script.contains(word), "{shell}: {word}");
        }
        assert!(!script.contains("stress"), "{shell} offers the load process");
    }
}

#[test]
fn files_are_not_offered_as_periods() {
    let fish = completions("fish");
    let periods: Vec<&str> = fish.lines().filter(|line| line.contains(" -l period ")).collect();
    let offers_no_files = |line: &&str| line.contains(" -x") || line.contains(" -r -f");
    assert!(periods.len() > 3 && periods.iter().all(offers_no_files), "{periods:?}");
}
