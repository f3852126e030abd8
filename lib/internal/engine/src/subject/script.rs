//! Hidden subjects for tests of this program.
//!
//! `scripted`, `scripted-b` and `scripted-c` replay the lateness that a file contains, immediately
//! and exactly. The environment variable `OSJITTER_SCRIPT` names the file:
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
//! A key is the name of a subject or the id of a scenario (`scripted@500us/current-thread#2`),
//! which has precedence. `nanosleep` is the control of a scripted subject in a session of the gate.
//!
//! | Key | Meaning |
//! |---|---|
//! | `lateness_ns` | required: a list that repeats over all ticks, or a list per round |
//! | `skipped` | indices of recorded ticks, from 0, that no round delivers |
//! | `coalesced` | indices of ticks that share the wake-up of the next tick, in every round |
//! | `until_unpark_ns` | a list that repeats over all ticks; null is a tick without a park |
//! | `cpu_ns_per_tick`, `switches_per_tick` | costs per tick; unknown if missing |
//! | `steal_ns`, `run_queue_ns` | costs per round; unknown if missing |
//! | `fail` | the round that cannot be measured, and the reason |
//! | `no_tick_in_round` | the round in which every tick is skipped |
//! | `no_tick_in_every` | the number of rounds of which the last one skips every tick |
//! | `interrupt_at_round` | the round that is interrupted after half of its ticks |
//!
//! Lists per round repeat over the rounds, and each list repeats over the ticks of its round. The
//! subjects have a runtime, like those of tokio. All instances are equal.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, OnceLock};

use jitterstat::sample::{Grid, Wakeup};
use serde::Deserialize;

use files::subjects::{SCRIPTED, SLEEPING_CONTROL, SubjectInfo};

const FILE_VARIABLE: &str = "OSJITTER_SCRIPT";

/// The control of a scripted subject, which replaces the control that sleeps.
pub static CONTROL: SubjectInfo = SubjectInfo { name: SLEEPING_CONTROL.name, ..SCRIPTED[0] };

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
    #[serde(default = "default_backend")]
    backend: String,
    fail: Option<Failure>,
    interrupt_at_round: Option<u64>,
    no_tick_in_round: Option<u64>,
    no_tick_in_every: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Lateness {
    AllRounds(Vec<i64>),
    PerRound(Vec<Vec<i64>>),
}

impl Lateness {
    fn has_empty_list(&self) -> bool {
        match self {
            Self::AllRounds(list) => list.is_empty(),
            Self::PerRound(lists) => lists.is_empty() || lists.iter().any(Vec::is_empty),
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Failure {
    round: u64,
    reason: String,
}

fn default_backend() -> String {
    "script".to_owned()
}

/// A round that was replayed from the script.
#[derive(Debug)]
pub struct ReplayedRound {
    pub wakeups: Vec<Wakeup>,
    /// Whether it was interrupted.
    pub stopped: bool,
    pub cpu_ns_per_tick: Option<u64>,
    pub switches_per_tick: Option<u64>,
    pub steal_ns: Option<u64>,
    pub run_queue_ns: Option<u64>,
    pub backend: String,
}

/// The scripts of a file, by subject or scenario.
struct Scripts {
    file: String,
    by_name: BTreeMap<String, Script>,
}

/// Reason why a script cannot be replayed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ScriptError {
    #[error("a scripted subject needs a script; set {FILE_VARIABLE} to its path")]
    NoFile,
    #[error("{file}: {error}")]
    Unreadable {
        file: String,
        #[source]
        error: Arc<io::Error>,
    },
    #[error("{file}: {error}")]
    Invalid {
        file: String,
        #[source]
        error: Arc<serde_json::Error>,
    },
    #[error("{file}: {name}: an empty list of lateness: expected at least one value")]
    EmptyList { file: String, name: String },
    #[error("{file}: no script for {name}")]
    NoScript { file: String, name: String },
    /// A failure for the reason in the script.
    #[error("{0}")]
    Scripted(String),
}

fn scripts() -> Result<&'static Scripts, ScriptError> {
    static SCRIPTS: OnceLock<Result<Scripts, ScriptError>> = OnceLock::new();
    SCRIPTS.get_or_init(read_scripts).as_ref().map_err(Clone::clone)
}

fn read_scripts() -> Result<Scripts, ScriptError> {
    let file = std::env::var(FILE_VARIABLE).map_err(|_| ScriptError::NoFile)?;
    let text = std::fs::read_to_string(&file)
        .map_err(|error| ScriptError::Unreadable { file: file.clone(), error: Arc::new(error) })?;
    let by_name: BTreeMap<String, Script> = serde_json::from_str(&text)
        .map_err(|error| ScriptError::Invalid { file: file.clone(), error: Arc::new(error) })?;
    match by_name.iter().find(|(_, script)| script.lateness_ns.has_empty_list()) {
        Some((name, _)) => Err(ScriptError::EmptyList { name: name.clone(), file }),
        None => Ok(Scripts { file, by_name }),
    }
}

/// Returns the hidden subject of a name, or `None` if the name is not that of a hidden subject.
///
/// # Errors
///
/// Returns an error if the file cannot be read or has no script for the subject.
pub fn find(name: &str) -> Result<Option<&'static SubjectInfo>, ScriptError> {
    let Some(entry) = SCRIPTED.iter().find(|e| e.name == name) else { return Ok(None) };
    let Scripts { file, by_name } = scripts()?;
    match by_name.keys().any(|key| key.split('@').next() == Some(name)) {
        true => Ok(Some(entry)),
        false => Err(ScriptError::NoScript { file: file.clone(), name: name.to_owned() }),
    }
}

/// Replays a round of `grid`, whose first recorded tick is tick `offset` of the scenario.
pub fn replay(
    id: &str,
    name: &str,
    index: u64,
    offset: u64,
    grid: Grid,
) -> Result<ReplayedRound, ScriptError> {
    let Scripts { file, by_name } = scripts()?;
    let script = by_name.get(id).or_else(|| by_name.get(name));
    let script = script
        .ok_or_else(|| ScriptError::NoScript { file: file.clone(), name: name.to_owned() })?;
    if let Some(fail) = script.fail.as_ref().filter(|fail| fail.round == index) {
        return Err(ScriptError::Scripted(fail.reason.clone()));
    }
    let stopped = script.interrupt_at_round == Some(index);
    let is_last_of = |rounds: u64| (index + 1).is_multiple_of(rounds);
    let is_lost =
        script.no_tick_in_round == Some(index) || script.no_tick_in_every.is_some_and(is_last_of);
    let ticks = match is_lost {
        true => 0,
        false if stopped => grid.ticks / 2,
        false => grid.ticks,
    };
    Ok(ReplayedRound {
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
                let lateness_ns = match &self.lateness_ns {
                    Lateness::AllRounds(list) => *at_cyclic(list, offset + k),
                    Lateness::PerRound(lists) => *at_cyclic(at_cyclic::<Vec<i64>>(lists, index), k),
                };
                let until_unpark_ns = match &self.until_unpark_ns[..] {
                    [] => None,
                    list => *at_cyclic(list, offset + k),
                };
                wakeups.push(Wakeup {
                    tick,
                    expirations,
                    wake_ns: deadline_ns.saturating_add(lateness_ns),
                    unpark_ns: until_unpark_ns.map(|ns| deadline_ns.saturating_add(ns)),
                });
                expirations = 1;
            }
        }
        wakeups
    }
}

fn at_cyclic<T>(list: &[T], k: u64) -> &T {
    &list[(k % list.len() as u64) as usize]
}
