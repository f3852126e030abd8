//! Checks that settings are restored. This test program contains no other test, since locked memory
//! and open files belong to the process.
#![cfg(target_os = "linux")]

use std::path::Path;
use std::time::Duration;

use engine::machine::os::{self, Sched, Scheduling};
use engine::machine::setting::Setting;

/// Formats the current values of everything that a setting can change.
fn state() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let locked = status.lines().find(|line| line.starts_with("VmLck")).unwrap_or_default();
    let open = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    let targets = open.filter_map(|entry| std::fs::read_link(entry.path()).ok());
    let held = targets.filter(|target| target == Path::new("/dev/cpu_dma_latency")).count();
    let (slack, scheduling) = (os::timer_slack_ns(), Scheduling::now());
    format!("{slack:?} {:?} {scheduling:?} {locked} {held}", os::affinity())
}

#[test]
fn released_settings_are_restored() {
    let first_cpu = os::affinity().unwrap()[0];
    let settings = [
        Setting::TimerSlack(Duration::from_nanos(1)),
        Setting::Cpu(first_cpu),
        Setting::Class(Sched::Fifo(10)),
        Setting::Slice(Duration::from_micros(100)),
        Setting::LockedMemory,
        Setting::NoIdleLatency,
    ];
    // A slack that differs from the default, which a change of class would restore.
    os::set_timer_slack_ns(123_000).unwrap();
    let before = state();
    let mut held_once = 0;
    for setting in settings {
        // Some settings are not permitted everywhere.
        let Ok(held) = setting.hold() else { continue };
        held_once += 1;
        let is_single_cpu =
            os::affinity().unwrap().len() == 1 && matches!(setting, Setting::Cpu(_));
        assert!(state() != before || is_single_cpu, "{setting:?} is in effect");
        held.release().unwrap();
        assert_eq!(state(), before, "{setting:?} is restored");
    }
    assert!(held_once >= 2, "every user can set slack and CPU");
}
