//! Hidden subjects, for tests of this program: `scripted`, `scripted-b` and `scripted-c` play the
//! lateness that a file lists, in no time and to the nanosecond. `OSJITTER_SCRIPT` names the file:
//!
//! ```json
//! {
//!   "scripted": {
//!     "lateness_ns": [14000, 15000, 13500],
//!     "skipped": [4], "coalesced": [6, 7],
//!     "until_unpark_ns": [9000, null],
//!     "cpu_ns_per_tick": 9000, "switches_per_tick": 2, "steal_ns": 0, "run_queue_ns": 0,
//!     "backend": "script",
//!     "fail": { "round": 2, "reason": "no timer left" }
//!   },
//!   "scripted-b": { "lateness_ns": [[14000], [1200000, 14000]], "interrupt_at_round": 3 }
//! }
//! ```
//!
//! A key is the name of a subject or, first, the id of a scenario
//! (`scripted@500us/current-thread#2`); `nanosleep` is the control that a scripted subject has in a
//! session of the gate. Only `lateness_ns` is required: a list that is repeated over the ticks of
//! all rounds, or a list for each round, repeated over its ticks as the lists are over the rounds.
//! `skipped` and `coalesced` are recorded ticks of every round, from 0: the first are never
//! delivered, the others share the wake-up of the next tick. `until_unpark_ns` is repeated like
//! `lateness_ns`; null is a tick without a park. What costs is unknown where it is left out;
//! `steal_ns` and `run_queue_ns` are of a round. `fail` makes a round impossible to measure; in
//! `no_tick_in_round` every tick is skipped; `interrupt_at_round` interrupts that round after half
//! of its ticks. Subjects have a runtime, as tokio's do, and instances that are all alike.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use jitterstat::sample::{Grid, Wakeup};
use serde::Deserialize;

use crate::subject::subject_info::{RuntimeKind, SubjectInfo};

const FILE: &str = "OSJITTER_SCRIPT";

pub static SUBJECTS: [SubjectInfo; 3] =
    [entry("scripted"), entry("scripted-b"), entry("scripted-c")];
/// Stands for `nanosleep` beside a scripted subject.
pub static CONTROL: SubjectInfo = entry("nanosleep");

const fn entry(name: &'static str) -> SubjectInfo {
    SubjectInfo { name, about: "plays a script", runtime_kind: RuntimeKind::Script, default: false }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Script {
    lateness_ns: Lateness,
    #[serde(default)]
    skipped: Vec<u64>,
    #[serde(default)]
    coalesced: Vec<u64>,
    #[serde(default)]
    until_unpark_ns: Vec<Option<i64>>,
    cpu_ns_per_tick: Option<u64>,
    switches_per_tick: Option<u64>,
    steal_ns: Option<u64>,
    run_queue_ns: Option<u64>,
    #[serde(default = "script")]
    backend: String,
    fail: Option<Failure>,
    interrupt_at_round: Option<u64>,
    no_tick_in_round: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Lateness {
    OfAllRounds(Vec<i64>),
    OfEachRound(Vec<Vec<i64>>),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Failure {
    round: u64,
    reason: String,
}

fn script() -> String {
    "script".to_owned()
}

/// One round as the script has it.
#[derive(Debug)]
pub struct PlayedRound {
    pub wakeups: Vec<Wakeup>,
    /// Whether it was interrupted.
    pub stopped: bool,
    pub cpu_ns_per_tick: Option<u64>,
    pub switches_per_tick: Option<u64>,
    pub steal_ns: Option<u64>,
    pub run_queue_ns: Option<u64>,
    pub backend: String,
}

type Scripts = BTreeMap<String, Script>;

fn scripts() -> Result<&'static Scripts, String> {
    static SCRIPTS: OnceLock<Result<Scripts, String>> = OnceLock::new();
    SCRIPTS.get_or_init(read).as_ref().map_err(Clone::clone)
}

fn read() -> Result<Scripts, String> {
    let file = std::env::var(FILE)
        .map_err(|_| format!("a scripted subject plays the file that {FILE} names"))?;
    let text = std::fs::read_to_string(&file).map_err(|e| format!("{file}: {e}"))?;
    let scripts: Scripts = serde_json::from_str(&text).map_err(|e| format!("{file}: {e}"))?;
    let is_empty = |script: &Script| match &script.lateness_ns {
        Lateness::OfAllRounds(list) => list.is_empty(),
        Lateness::OfEachRound(lists) => lists.is_empty() || lists.iter().any(Vec::is_empty),
    };
    match scripts.iter().find(|(_, script)| is_empty(script)) {
        Some((name, _)) => {
            Err(format!("{file}: {name}: an empty list of lateness has nothing to play"))
        }
        None => Ok(scripts),
    }
}

/// The hidden subject of this name, once its script has been read; `None` if there is no such name.
pub fn find(name: &str) -> Result<Option<&'static SubjectInfo>, String> {
    let Some(entry) = SUBJECTS.iter().find(|e| e.name == name) else { return Ok(None) };
    match scripts()?.keys().any(|key| key.split('@').next() == Some(name)) {
        true => Ok(Some(entry)),
        false => Err(format!("{}: no script for {name}", std::env::var(FILE).unwrap_or_default())),
    }
}

/// Plays a round of `grid`, the first recorded tick of which is tick `offset` of the scenario.
pub fn play(
    id: &str,
    name: &str,
    index: u64,
    offset: u64,
    grid: Grid,
) -> Result<PlayedRound, String> {
    let scripts = scripts()?;
    let script = scripts
        .get(id)
        .or_else(|| scripts.get(name))
        .ok_or_else(|| format!("no script for {name}"))?;
    if let Some(fail) = script.fail.as_ref().filter(|fail| fail.round == index) {
        return Err(fail.reason.clone());
    }
    let stopped = script.interrupt_at_round == Some(index);
    let ticks = match script.no_tick_in_round == Some(index) {
        true => 0,
        false if stopped => grid.ticks / 2,
        false => grid.ticks,
    };
    Ok(PlayedRound {
        wakeups: script.wakeups(index, offset, Grid { ticks, ..grid }),
        stopped,
        cpu_ns_per_tick: script.cpu_ns_per_tick,
        switches_per_tick: script.switches_per_tick,
        steal_ns: script.steal_ns,
        run_queue_ns: script.run_queue_ns,
        backend: script.backend.clone(),
    })
}

impl Script {
    fn wakeups(&self, index: u64, offset: u64, grid: Grid) -> Vec<Wakeup> {
        let lateness = |k: u64| match &self.lateness_ns {
            Lateness::OfAllRounds(list) => *cycled(list, offset + k),
            Lateness::OfEachRound(lists) => *cycled(cycled::<Vec<i64>>(lists, index), k),
        };
        let mut expirations = 1;
        let mut wakeups = Vec::new();
        for k in 0..grid.ticks {
            if self.skipped.contains(&k) {
                expirations = 1;
            } else if self.coalesced.contains(&k) {
                expirations += 1;
            } else {
                let tick = grid.first_tick + k;
                let deadline_ns = grid.deadline_ns(tick);
                let unpark = (!self.until_unpark_ns.is_empty())
                    .then(|| *cycled(&self.until_unpark_ns, offset + k));
                let unpark_ns = unpark.flatten().map(|ns| deadline_ns.saturating_add(ns));
                wakeups.push(Wakeup {
                    tick,
                    expirations,
                    wake_ns: deadline_ns.saturating_add(lateness(k)),
                    unpark_ns,
                });
                expirations = 1;
            }
        }
        wakeups
    }
}

fn cycled<T>(list: &[T], k: u64) -> &T {
    &list[(k % list.len() as u64) as usize]
}
