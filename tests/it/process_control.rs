//! The processes that tests start: their signals, states and ends.

#[cfg(unix)]
use std::path::Path;
use std::process::Child;
#[cfg(unix)]
use std::sync::Arc;
#[cfg(unix)]
use std::sync::atomic::AtomicBool;
#[cfg(unix)]
use std::time::Duration;

#[cfg(unix)]
use rustix::process::{Pid, Signal};

/// A process that is killed when this is dropped.
pub struct KilledOnDrop(pub Child);

impl Drop for KilledOnDrop {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Has processes that are started from now on heed all signals: tests under `nohup` inherit ignored
/// ones. A signal with a handler has its default action in a started program.
#[cfg(unix)]
pub fn heed_signals() {
    use signal_hook::consts::{SIGHUP, SIGQUIT};
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        for signal in [SIGHUP, SIGQUIT] {
            let always = Arc::new(AtomicBool::new(true));
            signal_hook::flag::register_conditional_default(signal, always).expect("a handler");
        }
    });
}

#[cfg(unix)]
pub fn pid(process: u32) -> Pid {
    i32::try_from(process).ok().and_then(Pid::from_raw).expect("the id of a process")
}

/// Sends a signal to a process, which must exist.
#[cfg(unix)]
pub fn send_signal(process: u32, signal: Signal) {
    rustix::process::kill_process(pid(process), signal).expect("a running process");
}

#[cfg(unix)]
pub fn is_alive(process: u32) -> bool {
    rustix::process::test_kill_process(pid(process)).is_ok()
}

/// Polls until there is a result.
#[cfg(unix)]
#[allow(clippy::disallowed_methods, reason = "it waits for a process")]
pub fn poll_until<T>(mut poll: impl FnMut() -> Option<T>) -> T {
    let started = std::time::Instant::now();
    loop {
        if let Some(result) = poll() {
            return result;
        }
        assert!(started.elapsed() < Duration::from_secs(120), "timed out");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits for a condition. Returns whether it holds within a time that is longer than any machine
/// needs.
#[cfg(unix)]
#[allow(clippy::disallowed_methods, reason = "the pause between two polls")]
pub fn eventually(condition: impl Fn() -> bool) -> bool {
    const POLLS: u32 = 12_000;
    (0..POLLS).any(|_| {
        std::thread::sleep(Duration::from_millis(5));
        condition()
    })
}

/// Returns the id of a process that a program has written to a file.
#[cfg(unix)]
pub fn read_process_id(file: &Path) -> u32 {
    std::fs::read_to_string(file).expect("a file").trim().parse().expect("the id of a process")
}

/// Returns the fields of a process or thread after its name, by its directory in `/proc`. The first
/// one is its state.
#[cfg(target_os = "linux")]
pub fn stat_fields(directory: &Path) -> Option<Vec<String>> {
    let stat = std::fs::read_to_string(directory.join("stat")).ok()?;
    let (_, fields) = stat.rsplit_once(") ")?;
    Some(fields.split_whitespace().map(str::to_owned).collect())
}

/// Returns the state of a process, such as `T` if it is stopped.
#[cfg(target_os = "linux")]
pub fn state(process: u32) -> Option<char> {
    stat_fields(Path::new(&format!("/proc/{process}")))?[0].chars().next()
}

/// Returns the processes that have a directory as the value of a variable in their environment.
#[cfg(target_os = "linux")]
pub fn processes_with_variable(name: &str, value: &Path) -> Vec<u32> {
    let variable = format!("{name}={}", value.display());
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").expect("/proc is mounted").flatten() {
        let Some(id) = entry.file_name().to_str().and_then(|id| id.parse().ok()) else { continue };
        let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
        if environment.split(|&byte| byte == 0).any(|entry| entry == variable.as_bytes()) {
            found.push(id);
        }
    }
    found
}

/// Increments the nice value of the main thread of a process, unless the process has ended.
#[cfg(target_os = "linux")]
pub fn increment_nice_value(process: u32) {
    use rustix::process::{getpriority_process, setpriority_process};
    let process = Some(pid(process));
    let _ = getpriority_process(process).and_then(|nice| setpriority_process(process, nice + 1));
}
