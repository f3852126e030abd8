//! A process that ends the programs of this one if this process is killed.
//!
//! A killed process cannot clean up, and its programs would run on, or stay paused. The
//! supervisor is another process of osjitter. It waits until a pipe from this process closes, then
//! kills the registered process groups and removes the registered directories. On Linux it also
//! kills the processes that have left their group, which have a variable in their environment. On
//! Windows, the job object of a program ends its processes, and directories remain.

use std::process::ExitCode;

/// Name of the supervisor: argument 0 of its process.
const NAME: &str = "osjitter-supervisor";

/// Serves as the supervisor if this process was started as one. Returns `None` if it was not.
pub fn serve_if_started_as_one() -> Option<ExitCode> {
    let mut args = std::env::args_os();
    if args.next()? != NAME {
        return None;
    }
    imp::serve(std::io::stdin().lock(), args.next());
    Some(ExitCode::SUCCESS)
}

#[cfg(unix)]
pub(super) use imp::executable;
pub use imp::{
    enable, end, register_group, register_program, start, unregister_directory, unregister_group,
};

#[cfg(unix)]
mod imp {
    use std::ffi::{OsStr, OsString};
    use std::io::{self, BufRead, PipeWriter, Write};
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    use std::os::unix::process::CommandExt;
    use std::path::{Path, PathBuf};
    use std::process::{Child, Command, Stdio};
    use std::sync::{Mutex, MutexGuard, PoisonError};
    use std::time::{Duration, Instant, SystemTime};

    use rustix::process::{Pid, Signal, kill_process_group};

    use crate::machine::os;
    use crate::measure::supervisor::NAME;

    /// Variable in the environment of all supervised programs. Its value is that of one supervisor.
    const VARIABLE: &str = "OSJITTER_SUPERVISOR";
    /// Interval at which remaining processes are searched.
    const POLL_INTERVAL: Duration = Duration::from_millis(10);
    /// Maximum number of searches.
    const MAX_SEARCHES: u32 = 500;
    /// Time for which this process waits for the end of the supervisor.
    const EXIT_TIMEOUT: Duration = Duration::from_secs(1);

    /// The supervisor of this process.
    enum State {
        /// This process is not osjitter, so that a copy of it would not be a supervisor.
        Disabled,
        NotStarted,
        Running(Supervisor),
        /// The supervisor was ended, or the path of this program is unknown.
        Unavailable,
    }

    struct Supervisor {
        process: Child,
        orders: PipeWriter,
        /// Value of [`VARIABLE`].
        mark: String,
    }

    static STATE: Mutex<State> = Mutex::new(State::Disabled);

    fn state() -> MutexGuard<'static, State> {
        STATE.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Allows this process to start a supervisor.
    pub fn enable() {
        *state() = State::NotStarted;
    }

    /// Starts the supervisor unless it is running.
    ///
    /// Call this before anything that records the next started program.
    ///
    /// # Errors
    ///
    /// Returns an error if no process can be started.
    pub fn start() -> io::Result<()> {
        let mut state = state();
        if matches!(*state, State::NotStarted) {
            *state = match executable() {
                Some(path) => State::Running(Supervisor::start(&path)?),
                None => State::Unavailable,
            };
        }
        Ok(())
    }

    /// Returns the path of this program, which may have been replaced or removed since its start.
    pub(in crate::measure) fn executable() -> Option<PathBuf> {
        const RUNNING: &str = "/proc/self/exe";
        let running = Path::new(RUNNING);
        if running.exists() { Some(running.to_owned()) } else { std::env::current_exe().ok() }
    }

    /// Ends the supervisor, when this process exits by itself.
    pub fn end() {
        let ended = std::mem::replace(&mut *state(), State::Unavailable);
        if let State::Running(Supervisor { process, orders, .. }) = ended {
            drop(orders);
            wait_briefly(process, EXIT_TIMEOUT);
        }
    }

    /// Registers a program that is about to start, and its directory.
    pub fn register_program(directory: &Path, command: &mut Command) {
        if let State::Running(supervisor) = &mut *state() {
            supervisor.send(&Order::RegisterDirectory(directory.to_owned()));
            command.env(VARIABLE, &supervisor.mark);
        }
    }

    /// Registers the process group of a started program.
    pub fn register_group(leader: u32) {
        send(&Order::RegisterGroup(leader));
    }

    /// Removes a process group without processes.
    pub fn unregister_group(leader: u32) {
        send(&Order::UnregisterGroup(leader));
    }

    /// Removes a directory that no longer exists.
    pub fn unregister_directory(directory: &Path) {
        send(&Order::UnregisterDirectory(directory.to_owned()));
    }

    /// Waits for the end of a supervisor, so that the parent of this process finds no process that is
    /// left over. A supervisor that is stopped does not end.
    #[allow(clippy::disallowed_methods, reason = "a wait with a time limit")]
    fn wait_briefly(mut process: Child, timeout: Duration) {
        const EXIT_POLL_INTERVAL: Duration = Duration::from_micros(500);
        let started = Instant::now();
        while matches!(process.try_wait(), Ok(None)) && started.elapsed() < timeout {
            std::thread::sleep(EXIT_POLL_INTERVAL);
        }
    }

    fn send(order: &Order) {
        if let State::Running(supervisor) = &mut *state() {
            supervisor.send(order);
        }
    }

    impl Supervisor {
        #[allow(clippy::disallowed_methods, reason = "any unique text will do")]
        fn start(executable: &Path) -> io::Result<Self> {
            let _aside = os::SteppedAside::begin();
            let (input, orders) = io::pipe()?;
            // A supervisor that is stopped must not block this process.
            rustix::io::ioctl_fionbio(&orders, true)?;
            let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
            let nanoseconds = since_epoch.map_or(0, |time| time.as_nanos());
            let mark = format!("{}.{nanoseconds}", std::process::id());
            let mut command = Command::new(executable);
            // A group of its own, since Ctrl-C must not end it, and an environment without the mark
            // of another supervisor.
            command.arg0(NAME).arg(&mark).env_clear().current_dir("/").process_group(0);
            command.stdin(input).stdout(Stdio::null()).stderr(Stdio::null());
            Ok(Self { process: command.spawn()?, orders, mark })
        }

        /// Sends an order. If the supervisor is gone, nothing can be done.
        fn send(&mut self, order: &Order) {
            let _ = self.orders.write_all(&order.to_bytes());
        }
    }

    /// A message to the supervisor.
    #[derive(Debug, PartialEq, Eq)]
    enum Order {
        RegisterGroup(u32),
        UnregisterGroup(u32),
        RegisterDirectory(PathBuf),
        UnregisterDirectory(PathBuf),
    }

    impl Order {
        /// Encodes the order. The last byte is zero, which no other byte is.
        fn to_bytes(&self) -> Vec<u8> {
            let (kind, text) = match self {
                Self::RegisterGroup(leader) => (b'G', leader.to_string().into_bytes()),
                Self::UnregisterGroup(leader) => (b'g', leader.to_string().into_bytes()),
                Self::RegisterDirectory(path) => (b'D', path.as_os_str().as_bytes().to_vec()),
                Self::UnregisterDirectory(path) => (b'd', path.as_os_str().as_bytes().to_vec()),
            };
            [&[kind][..], &text, &[0]].concat()
        }

        /// Decodes an order without its last byte.
        fn parse(bytes: &[u8]) -> Option<Self> {
            let (kind, text) = bytes.split_first()?;
            let path = || PathBuf::from(OsString::from_vec(text.to_vec()));
            let leader = || std::str::from_utf8(text).ok()?.parse().ok();
            Some(match kind {
                b'G' => Self::RegisterGroup(leader()?),
                b'g' => Self::UnregisterGroup(leader()?),
                b'D' => Self::RegisterDirectory(path()),
                b'd' => Self::UnregisterDirectory(path()),
                _ => return None,
            })
        }
    }

    /// Everything that the supervised process would clean up.
    #[derive(Debug, Default, PartialEq, Eq)]
    struct Remains {
        groups: Vec<u32>,
        directories: Vec<PathBuf>,
    }

    /// Waits until the supervised process is gone, and cleans up.
    pub(super) fn serve(input: impl BufRead, mark: Option<OsString>) {
        os::continue_at_parent_death();
        let remains = Remains::read(input);
        if remains != Remains::default() {
            remains.clean_up(mark.as_deref());
        }
    }

    impl Remains {
        /// Follows the orders until their sender is gone.
        fn read(mut input: impl BufRead) -> Self {
            let mut remains = Self::default();
            let mut bytes = Vec::new();
            while matches!(input.read_until(0, &mut bytes), Ok(1..)) {
                // An order that was cut is not followed.
                if bytes.pop() == Some(0)
                    && let Some(order) = Order::parse(&bytes)
                {
                    remains.follow(order);
                }
                bytes.clear();
            }
            remains
        }

        fn follow(&mut self, order: Order) {
            match order {
                Order::RegisterGroup(leader) => self.groups.push(leader),
                Order::UnregisterGroup(leader) => self.groups.retain(|other| *other != leader),
                Order::RegisterDirectory(path) => self.directories.push(path),
                Order::UnregisterDirectory(path) => self.directories.retain(|other| *other != path),
            }
        }

        /// Kills all processes, and then removes the directories.
        #[allow(clippy::disallowed_methods, reason = "nothing reports when a process is gone")]
        fn clean_up(&self, mark: Option<&OsStr>) {
            for leader in &self.groups {
                let leader = i32::try_from(*leader).ok().and_then(Pid::from_raw);
                // It fails for a group that is gone.
                let _ = leader.map(|leader| kill_process_group(leader, Signal::KILL));
            }
            for _ in 0..MAX_SEARCHES {
                if mark.is_none_or(|mark| kill_marked(mark) == 0) {
                    break;
                }
                std::thread::sleep(POLL_INTERVAL);
            }
            for directory in &self.directories {
                let _ = std::fs::remove_dir_all(directory);
            }
        }
    }

    /// Kills the processes that have the mark in their environment, and returns their number.
    #[cfg(target_os = "linux")]
    fn kill_marked(mark: &OsStr) -> usize {
        let variable = [VARIABLE.as_bytes(), b"=", mark.as_bytes()].concat();
        let mut killed = 0;
        for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
            let id = entry.file_name().to_str().and_then(|name| name.parse().ok());
            let Some(id) = id.and_then(Pid::from_raw) else { continue };
            // A process that has exited has no environment.
            let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
            if environment.split(|&byte| byte == 0).any(|entry| entry == variable) {
                killed += 1;
                let _ = rustix::process::kill_process(id, Signal::KILL);
            }
        }
        killed
    }

    /// Other systems do not show the environment of a process to its relatives.
    #[cfg(not(target_os = "linux"))]
    fn kill_marked(_: &OsStr) -> usize {
        0
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn orders_are_followed() {
            let path = |text: &str| PathBuf::from(text);
            let orders = [
                Order::RegisterDirectory(path("/tmp/a\nb")),
                Order::RegisterGroup(7),
                Order::RegisterGroup(8),
                Order::RegisterDirectory(path("/tmp/c")),
                Order::UnregisterGroup(7),
                Order::UnregisterDirectory(path("/tmp/c")),
            ];
            let mut bytes = Vec::new();
            for order in &orders {
                let encoded = order.to_bytes();
                assert_eq!(Order::parse(&encoded[..encoded.len() - 1]).as_ref(), Some(order));
                bytes.extend(encoded);
            }
            let remains = Remains { groups: [8].into(), directories: [path("/tmp/a\nb")].into() };
            assert_eq!(Remains::read(&bytes[..]), remains);
            // The sender was killed while it wrote.
            bytes.extend_from_slice(b"G99");
            assert_eq!(Remains::read(&bytes[..]), remains);
            assert_eq!(Remains::read(&b"x\0G-1\0G\0\0"[..]), Remains::default());
        }
    }
}

#[cfg(not(unix))]
mod imp {
    use std::ffi::OsString;
    use std::io::BufRead;
    use std::path::Path;
    use std::process::Command;

    pub fn enable() {}
    pub fn start() -> std::io::Result<()> {
        Ok(())
    }
    pub fn end() {}
    pub fn register_program(_: &Path, _: &mut Command) {}
    pub fn register_group(_: u32) {}
    pub fn unregister_group(_: u32) {}
    pub fn unregister_directory(_: &Path) {}
    pub(super) fn serve(_: impl BufRead, _: Option<OsString>) {}
}
