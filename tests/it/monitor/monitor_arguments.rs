//! Tests of arguments that a monitor refuses.

use std::net::TcpListener;

use tickmeter::ENV_DIRECTORY;

use super::MonitorHome;
use crate::osjitter::Osjitter;

#[test]
fn invalid_arguments_are_rejected() {
    let home = MonitorHome::new();
    let file = home.path().join("file");
    std::fs::write(&file, "").unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let used_address = listener.local_addr().unwrap().to_string();
    let [log, file] = [&home.log, &file].map(|path| path.to_str().unwrap());
    let refuse = |args: &[&str], message: &str| {
        let monitor = Osjitter::new(["monitor"]).args(args).env(ENV_DIRECTORY, &home.meters);
        monitor.run().refuses(message);
    };
    refuse(&[], "--listen ADDR");
    refuse(&["--log", file], "--log");
    refuse(&["--listen", &used_address], "address is in use");
    refuse(&["--listen", "nonsense"], "127.0.0.1:9891");
    refuse(&["--listen", "0", "--keep", "3"], "--log <DIR>");
    refuse(&["--log", log, "--host", ""], "invalid host name");
    for (args, message) in [
        ("--interval 10ms", "outside 1s to"),
        ("--limit p98=1ms", "expected p50"),
        ("--interval 1s --limit p99=1ms", "needs 500 ticks"),
        ("--limit max=1s --limit max=1000ms", "given twice"),
        ("--budget 0%", "0.5%"),
        ("--budget 50% --subject spin", "--budget 110%"),
        ("--subject tokio-interval-delay", "moves its grid"),
        ("--subject wibble", "unknown subject"),
        ("--label a=b --label a=c", "given twice"),
        ("--label a", "rack=r7"),
        ("--no-probes --no-meters", "cannot be used with"),
        ("--no-probes --subject spin", "cannot be used with"),
        ("--keep 0", "at least 1"),
    ] {
        let args: Vec<&str> = ["--log", log].into_iter().chain(args.split(' ')).collect();
        refuse(&args, message);
    }
    assert!(!home.log.exists());
}
