//! What is changed on the machine while it is measured, and what it was before.

use jitterstat::report::{Change, Plan};

use crate::machine::os::{self, Sched};

/// Changes what the plan asks to be changed, and says what it was.
pub fn apply(plan: &Plan) -> Result<Vec<Change>, String> {
    let mut changes = Vec::new();
    let mut changed = |what: &str, from: String, to: String| changes.push(Change { what: what.to_owned(), from, to });
    let unknown = || "unknown".to_owned();
    if let Some(cpu) = plan.cpu {
        let allowed = os::affinity();
        bind(cpu)?;
        let from = allowed.map_or_else(unknown, |a| format!("{a:?}"));
        changed("CPU affinity of the measuring thread", from, format!("[{cpu}]"));
    }
    if let Some(slack_ns) = plan.timer_slack_ns {
        let from = os::timer_slack_ns().map_or_else(unknown, |ns| format!("{ns} ns"));
        os::set_timer_slack_ns(slack_ns).map_err(|e| format!("cannot set the timer slack: {e}; nothing was run"))?;
        changed("timer slack of the measuring thread", from, format!("{slack_ns} ns"));
    }
    if plan.mlock {
        // A limit that the pages of today fit may have no room for the stack of one more thread.
        let with_room = os::lock_memory().and_then(|()| std::thread::Builder::new().spawn(|| ()));
        with_room.map_err(|e| {
            format!("cannot lock memory: {e}; it needs CAP_IPC_LOCK or a larger ulimit -l; nothing was run")
        })?;
        changed("memory of the process", "pageable".to_owned(), "locked".to_owned());
    }
    if let Some(class) = &plan.sched {
        let from = os::sched().unwrap_or_else(unknown);
        os::set_sched(sched(class)?)
            .map_err(|e| format!("cannot run as {class}: {e}; it needs {}; nothing was run", os::SCHED_NEEDS))?;
        changed("scheduling class of the measuring thread", from, class.clone());
    }
    let sleeps = plan.scenarios.iter().any(|s| s.subject == "nanosleep");
    if let Some(slack_ns) = os::timer_slack_ns().filter(|_| sleeps) {
        let what = "timer slack of the measuring thread, during rounds of nanosleep";
        changed(what, format!("{slack_ns} ns"), "1 ns".to_owned());
    }
    Ok(changes)
}

/// Binds the calling thread, and those it starts, to one CPU.
pub fn bind(cpu: usize) -> Result<(), String> {
    if let Some(allowed) = os::affinity().filter(|allowed| !allowed.contains(&cpu)) {
        let list: Vec<String> = allowed.iter().map(usize::to_string).collect();
        let list = list.join(", ");
        return Err(format!("CPU {cpu} is not there or not allowed; this process may use {list}; nothing was run"));
    }
    os::bind(cpu).map_err(|e| format!("cannot bind to CPU {cpu}: {e}; nothing was run"))
}

/// Reads `fifo:50`, `rr:10` or `other`.
pub fn sched(text: &str) -> Result<Sched, String> {
    const PRIORITIES: std::ops::RangeInclusive<u8> = 1..=99;
    let bad = || format!("no scheduling class {text:?}; use other, fifo:N or rr:N with a priority from 1 to 99");
    let (name, priority) = text.split_once(':').unwrap_or((text, ""));
    let priority = priority.parse().ok().filter(|p| PRIORITIES.contains(p));
    match (name, priority) {
        ("other", None) if text == "other" => Ok(Sched::Other),
        ("fifo", Some(priority)) => Ok(Sched::Fifo(priority)),
        ("rr", Some(priority)) => Ok(Sched::RoundRobin(priority)),
        _ => Err(bad()),
    }
}
