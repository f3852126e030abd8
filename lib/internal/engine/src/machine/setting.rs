//! Settings that a process applies to itself for a limited time.
//!
//! A guard restores the previous value. No setting outlives the process, even if it is killed.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::time::Duration;

use crate::machine::os::{self, Sched, Scheduling};
use crate::machine::tuning;
use cli::units::to_ns;

/// A setting of the calling thread or of its process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// No change.
    Nothing,
    TimerSlack(Duration),
    /// CPU to which the thread is bound.
    Cpu(usize),
    Class(Sched),
    /// Slice of the scheduler, for threads of the normal class.
    Slice(Duration),
    LockedMemory,
    /// All idle CPUs of the machine stay awake while a file is open.
    NoIdleLatency,
}

/// File that limits the latency of idle states while it is open.
const DMA_LATENCY: &str = "/dev/cpu_dma_latency";

/// Previous value of a setting.
#[derive(Debug)]
enum PreviousSetting {
    Nothing,
    TimerSlack(u64),
    Affinity(Vec<usize>),
    /// Scheduling and timer slack. Real-time threads have no slack, and a thread that leaves a
    /// real-time class gets the slack of its parent.
    Scheduling(Scheduling, Option<u64>),
    Unlocked,
    Closed(File),
}

/// A setting that is in effect until it is released.
#[derive(Debug)]
pub struct SettingGuard(PreviousSetting);

impl Setting {
    /// Applies the setting to the calling thread and the threads that it starts afterwards.
    pub fn hold(self) -> io::Result<SettingGuard> {
        let unknown = || io::Error::from(io::ErrorKind::Unsupported);
        Ok(SettingGuard(match self {
            Self::Nothing => PreviousSetting::Nothing,
            Self::TimerSlack(slack) => {
                let before = os::timer_slack_ns().ok_or_else(unknown)?;
                os::set_timer_slack_ns(to_ns(slack))?;
                if tuning::timer_slack_ns() == Some(0) {
                    return Err(io::Error::other("real-time threads have no timer slack"));
                }
                PreviousSetting::TimerSlack(before)
            }
            Self::Cpu(cpu) => {
                let before = os::affinity().ok_or_else(unknown)?;
                os::bind(&[cpu])?;
                PreviousSetting::Affinity(before)
            }
            Self::Class(class) => {
                let before = Scheduling::now()?;
                let slack_ns = os::timer_slack_ns();
                os::set_sched(class)?;
                PreviousSetting::Scheduling(before, slack_ns)
            }
            Self::Slice(slice) => {
                let before = Scheduling::now()?;
                before.with_slice(slice).restore()?;
                if Scheduling::now()?.slice() != slice {
                    before.restore()?;
                    return Err(io::Error::other("this kernel does not support slices of threads"));
                }
                PreviousSetting::Scheduling(before, None)
            }
            Self::LockedMemory => {
                tuning::lock_memory().inspect_err(|_| drop(os::unlock_memory()))?;
                PreviousSetting::Unlocked
            }
            Self::NoIdleLatency => {
                let mut file = OpenOptions::new().write(true).open(DMA_LATENCY)?;
                file.write_all(&0_i32.to_ne_bytes())?;
                PreviousSetting::Closed(file)
            }
        }))
    }

    /// Returns the requirements of the setting, for the message if it is refused.
    pub fn needs(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::TimerSlack(_) => "Linux",
            Self::Cpu(_) => "Linux, and a cpuset with that CPU in it",
            Self::Class(_) => os::SCHED_NEEDS,
            Self::Slice(_) => "Linux 6.12, and no filter that refuses sched_setattr",
            Self::LockedMemory => "CAP_IPC_LOCK, or a larger limit (ulimit -l)",
            Self::NoIdleLatency => "write access to /dev/cpu_dma_latency: root, or a udev rule",
        }
    }
}

impl SettingGuard {
    /// Restores the previous value.
    pub fn release(self) -> io::Result<()> {
        match self.0 {
            PreviousSetting::Nothing => Ok(()),
            PreviousSetting::TimerSlack(ns) => os::set_timer_slack_ns(ns),
            PreviousSetting::Affinity(cpus) => os::bind(&cpus),
            PreviousSetting::Scheduling(scheduling, slack_ns) => {
                scheduling.restore()?;
                slack_ns.map_or(Ok(()), os::set_timer_slack_ns)
            }
            PreviousSetting::Unlocked => os::unlock_memory(),
            PreviousSetting::Closed(file) => {
                drop(file);
                Ok(())
            }
        }
    }
}
