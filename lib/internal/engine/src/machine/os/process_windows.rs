//! A program and everything that it starts on Windows, in a job object that ends all processes when
//! it is closed.

use std::io;
use std::os::windows::io::{AsHandle, AsRawHandle, FromRawHandle, OwnedHandle};
use std::process::{Child, Command};
use std::ptr::null;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use windows_sys::Win32::Foundation::WAIT_OBJECT_0;
use windows_sys::Win32::System::JobObjects::{
    AssignProcessToJobObject, CreateJobObjectW, JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE,
    JOBOBJECT_BASIC_ACCOUNTING_INFORMATION, JOBOBJECT_EXTENDED_LIMIT_INFORMATION,
    JobObjectBasicAccountingInformation, JobObjectExtendedLimitInformation,
    QueryInformationJobObject, SetInformationJobObject, TerminateJobObject,
};
use windows_sys::Win32::System::Threading::{INFINITE, WaitForSingleObject};

use crate::machine::os::types::{ProcessTreeExit, StartedTree, TreeUsage};

/// Interval at which the remaining processes are counted.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// A running program with everything that it starts, except for processes that it starts in its
/// first moments, before it is in the job.
pub struct ProcessTree {
    job: OwnedHandle,
    program: Mutex<Child>,
}

impl ProcessTree {
    #[allow(clippy::disallowed_methods, reason = "the time of the start")]
    pub fn start(command: &mut Command) -> io::Result<StartedTree> {
        // SAFETY: neither attributes nor a name are given; the handle is checked before it is
        // owned.
        let job = unsafe { CreateJobObjectW(null(), null()) };
        if job.is_null() {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the handle is valid, and nothing else owns it.
        let job = unsafe { OwnedHandle::from_raw_handle(job) };
        let mut limits = JOBOBJECT_EXTENDED_LIMIT_INFORMATION::default();
        limits.BasicLimitInformation.LimitFlags = JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE;
        let size = size_of_val(&limits) as u32;
        // SAFETY: the pointer is to a whole structure of the class named, of the stated size, which
        // is only read.
        let set = unsafe {
            SetInformationJobObject(
                job.as_raw_handle(),
                JobObjectExtendedLimitInformation,
                (&raw const limits).cast(),
                size,
            )
        };
        if set == 0 {
            return Err(io::Error::last_os_error());
        }
        let started = Instant::now();
        let mut child = command.spawn()?;
        // SAFETY: both handles are ours and open.
        if unsafe { AssignProcessToJobObject(job.as_raw_handle(), child.as_raw_handle()) } == 0 {
            let error = io::Error::last_os_error();
            // A process that has already exited cannot join, and need not.
            if child.try_wait()?.is_none() {
                child.kill()?;
                child.wait()?;
                return Err(error);
            }
        }
        let stderr = child.stderr.take();
        Ok(StartedTree { tree: Self { job, program: Mutex::new(child) }, stderr, started })
    }

    /// Returns the id of the program's process.
    pub fn id(&self) -> u32 {
        self.program.lock().unwrap_or_else(PoisonError::into_inner).id()
    }

    /// Returns a function that blocks until the program itself has exited.
    pub fn exit_waiter(&self) -> impl FnOnce() -> io::Result<()> + Send + use<> {
        let handle = self
            .program
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .as_handle()
            .try_clone_to_owned();
        move || wait_for_exit(&handle?)
    }

    /// Returns false, since a job cannot be stopped.
    #[allow(clippy::unused_self, reason = "same interface on all platforms")]
    pub fn pause(&self) -> bool {
        false
    }

    #[allow(clippy::unused_self, reason = "same interface on all platforms")]
    pub fn resume(&self) {}

    /// Ends all remaining processes.
    ///
    /// # Errors
    ///
    /// Returns an error if a process remains after `timeout`.
    #[allow(
        clippy::disallowed_methods,
        reason = "a time limit on other processes needs a clock and a pause"
    )]
    pub fn end(&self, timeout: Duration) -> io::Result<ProcessTreeExit> {
        let started = Instant::now();
        let job = self.job.as_raw_handle();
        let has_exited =
            self.program.lock().unwrap_or_else(PoisonError::into_inner).try_wait()?.is_some();
        let running: JOBOBJECT_BASIC_ACCOUNTING_INFORMATION =
            query(job, JobObjectBasicAccountingInformation)?;
        let killed_processes = if has_exited { u64::from(running.ActiveProcesses) } else { 0 };
        // SAFETY: the handle is ours and open.
        unsafe { TerminateJobObject(job, 1) };
        loop {
            let accounts: JOBOBJECT_BASIC_ACCOUNTING_INFORMATION =
                query(job, JobObjectBasicAccountingInformation)?;
            let status = self.program.lock().unwrap_or_else(PoisonError::into_inner).try_wait()?;
            if let (Some(status), 0) = (status, accounts.ActiveProcesses) {
                let memory: JOBOBJECT_EXTENDED_LIMIT_INFORMATION =
                    query(job, JobObjectExtendedLimitInformation)?;
                let ns = |steps: i64| u64::try_from(steps).unwrap_or(0) * 100;
                let cpu_ns = ns(accounts.TotalUserTime) + ns(accounts.TotalKernelTime);
                let max_rss = memory.PeakProcessMemoryUsed as u64;
                let usage = TreeUsage { cpu_ns, max_rss, killed_processes, ..TreeUsage::default() };
                return Ok(ProcessTreeExit { status, usage });
            }
            if started.elapsed() > timeout {
                return Err(io::Error::other(format!(
                    "cannot be ended: {} processes",
                    accounts.ActiveProcesses
                )));
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}

fn wait_for_exit(process: &OwnedHandle) -> io::Result<()> {
    // SAFETY: the handle is owned by the caller and open.
    let waited = unsafe { WaitForSingleObject(process.as_raw_handle(), INFINITE) };
    if waited == WAIT_OBJECT_0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Queries information about a job. `T` is the structure of the class.
fn query<T: Default>(job: std::os::windows::io::RawHandle, class: i32) -> io::Result<T> {
    let mut found = T::default();
    // SAFETY: the pointer is to a whole structure of ours, of the stated size and of the class
    // named by the callers.
    let known = unsafe {
        QueryInformationJobObject(
            job,
            class,
            (&raw mut found).cast(),
            size_of::<T>() as u32,
            std::ptr::null_mut(),
        )
    };
    if known == 0 { Err(io::Error::last_os_error()) } else { Ok(found) }
}
