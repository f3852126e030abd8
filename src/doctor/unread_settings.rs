//! Settings whose values only tools of their systems can read.

use crate::doctor::file::{Item, Weight};

/// A setting whose value only tools of its system can read.
struct UnreadSetting {
    key: &'static str,
    name: &'static str,
    why: &'static str,
    change: &'static str,
}

const UNREAD_ON_WINDOWS: [UnreadSetting; 3] = [
    UnreadSetting {
        key: "timer-resolution",
        name: "timer resolution",
        why: "Sleeps end on the system's tick, 15.6 ms unless a program requests less; OsInterval uses the high-resolution timer instead.",
        change: "timeBeginPeriod(1) in the program, for other sleeps",
    },
    UnreadSetting {
        key: "power-throttling",
        name: "power throttling",
        why: "Windows 11 may ignore a program's timer resolution and run it on slow cores while its window is hidden.",
        change: "SetProcessInformation(ProcessPowerThrottling) with both control bits set and the state cleared",
    },
    UnreadSetting {
        key: "power-plan",
        name: "power plan",
        why: "A CPU that was idle may run slowly for the first milliseconds of work.",
        change: "powercfg /setactive SCHEME_MIN",
    },
];

const UNREAD_ON_MACOS: [UnreadSetting; 2] = [
    UnreadSetting {
        key: "quality-of-service",
        name: "quality of service",
        why: "Timers of threads of a low class are coalesced, and run on efficiency cores.",
        change: "pthread_set_qos_class_self_np(QOS_CLASS_USER_INTERACTIVE, 0) in the ticking thread",
    },
    UnreadSetting {
        key: "app-nap",
        name: "App Nap",
        why: "The timers of an application without a visible window may be delayed by seconds.",
        change: "NSProcessInfo.beginActivity with NSActivityLatencyCritical",
    },
];

/// Returns the items of other systems, whose values only tools of these systems can read.
pub fn items(os: &str) -> Vec<Item> {
    let settings: &[UnreadSetting] = match os {
        "windows" => &UNREAD_ON_WINDOWS,
        "macos" => &UNREAD_ON_MACOS,
        _ => &[],
    };
    settings.iter().map(Item::from).collect()
}

impl From<&UnreadSetting> for Item {
    fn from(setting: &UnreadSetting) -> Self {
        Self {
            key: setting.key.to_owned(),
            name: setting.name.to_owned(),
            value: None,
            not_readable: Some("osjitter does not read it on this system".to_owned()),
            weight: Weight::Depends,
            why: setting.why.to_owned(),
            change: Some(setting.change.to_owned()),
        }
    }
}
