//! Takes a copy of the stack of another thread of this process, which runs a signal handler for it.
//!
//! The handler copies the registers and the inner end of the stack, and calls nothing but `gettid`,
//! `clock_gettime` and `process_vm_readv`: it does not allocate, lock or wait, and its time is
//! bounded by [`MAX_STACK_BYTES`]. The kernel checks every address that is read, so that no stack,
//! not even a broken one, makes the handler fault.

use std::cell::UnsafeCell;
use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use super::{StackEnd, WatchError};

/// Maximum number of bytes of a stack that are copied.
pub(super) const MAX_STACK_BYTES: usize = 64 * 1024;
/// Time within which a thread that runs, or waits in a way that signals interrupt, runs the handler.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(100);
const ANSWER_POLL_INTERVAL: Duration = Duration::from_micros(100);

/// The request of the watcher, and the answer of the handler.
struct Exchange {
    /// The id of the requested thread, times four, plus the phase.
    ///
    /// The watcher writes the answer's fields in no phase. The handler writes them in the phase
    /// [`COPYING`], which only the one handler that changed the phase from [`REQUESTED`] is in.
    state: AtomicU64,
    instruction: AtomicU64,
    stack: AtomicU64,
    frame: AtomicU64,
    link: AtomicU64,
    taken_at_ns: AtomicU64,
    copied_bytes: AtomicUsize,
    copy: UnsafeCell<[u8; MAX_STACK_BYTES]>,
}

/// No request: a handler does nothing.
const IDLE: u64 = 0;
const REQUESTED: u64 = 1;
const COPYING: u64 = 2;
/// The answer is complete, and belongs to the watcher.
const TAKEN: u64 = 3;

// SAFETY: `copy` is written by the handler that changed `state` to `COPYING`, of which there is one
// per request, and read by the one owner of `StackSignal` after it has seen `TAKEN`, which that
// handler stores with release after it has written. The other fields are atomic.
unsafe impl Sync for Exchange {}

static EXCHANGE: Exchange = Exchange {
    state: AtomicU64::new(IDLE),
    instruction: AtomicU64::new(0),
    stack: AtomicU64::new(0),
    frame: AtomicU64::new(0),
    link: AtomicU64::new(0),
    taken_at_ns: AtomicU64::new(0),
    copied_bytes: AtomicUsize::new(0),
    copy: UnsafeCell::new([0; MAX_STACK_BYTES]),
};

/// The process that has a [`StackSignal`]; zero if none has. A forked child inherits the number of
/// its parent, and not the thread of the watch.
static OWNER: AtomicU32 = AtomicU32::new(0);

/// The registers of an interrupted thread, as far as unwinding begins with them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Registers {
    pub(super) instruction: u64,
    pub(super) stack: u64,
    pub(super) frame: u64,
    /// The return address of a function that has not stored it; zero on x86-64.
    pub(super) link: u64,
}

/// A copy of a thread's stack.
#[derive(Debug)]
pub(super) struct StackCopy {
    pub(super) registers: Registers,
    /// The inner end of the stack, from the stack pointer on.
    pub(super) bytes: Vec<u8>,
    /// Time since the copy.
    pub(super) age: Duration,
}

/// The right to request stacks, which one value at a time has.
#[derive(Debug)]
pub(super) struct StackSignal {
    signal: i32,
}

impl StackSignal {
    /// Installs the handler of a signal. It stays installed: a signal that is still pending when the
    /// watch ends would otherwise end the process.
    pub(super) fn install(signal: i32) -> Result<Self, WatchError> {
        let (owner, process) = (OWNER.load(Ordering::Relaxed), std::process::id());
        let claimed = OWNER.compare_exchange(owner, process, Ordering::Acquire, Ordering::Relaxed);
        if owner == process || claimed.is_err() {
            return Err(WatchError::AlreadyWatching);
        }
        let owned = Self { signal };
        // A sandbox that denies the call to the handler denies it now.
        let mut copied = [0; 8];
        if read_memory((&raw const EXCHANGE) as u64, &mut copied) < copied.len() {
            return Err(WatchError::Os(io::Error::last_os_error()));
        }
        match current_handler(signal).map_err(WatchError::Os)? {
            Handler::Ours => Ok(owned),
            Handler::Other => Err(WatchError::SignalInUse(signal)),
            Handler::Unused => {
                // SAFETY: all-zero is a valid `sigaction`, whose mask is empty.
                let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
                action.sa_sigaction = take_stack as *const () as usize;
                action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART | libc::SA_ONSTACK;
                // SAFETY: the pointer is to a whole `sigaction` of ours, which the call does not
                // keep, and the handler calls only functions that a handler may call.
                let result =
                    unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) };
                check(result.into()).map_err(WatchError::Os)?;
                Ok(owned)
            }
        }
    }

    /// Copies the stack of a thread of this process.
    ///
    /// # Errors
    /// Returns an error if the thread has ended, does not run the handler in time, or would run
    /// another handler.
    pub(super) fn copy_stack(&mut self, thread: u32) -> Result<StackCopy, StackEnd> {
        if !matches!(current_handler(self.signal), Ok(Handler::Ours)) {
            return Err(StackEnd::SignalTaken);
        }
        let request = u64::from(thread) << 2;
        EXCHANGE.state.store(request | REQUESTED, Ordering::Release);
        // SAFETY: the call has no pointers, and the kernel sends the signal only to a thread of this
        // process, for which the handler is installed.
        let sent =
            unsafe { libc::syscall(libc::SYS_tgkill, std::process::id(), thread, self.signal) };
        if check(sent).is_err() {
            EXCHANGE.state.store(IDLE, Ordering::Relaxed);
            return Err(StackEnd::ThreadEnded);
        }
        self.await_answer(request)?;
        let registers = Registers {
            instruction: EXCHANGE.instruction.load(Ordering::Relaxed),
            stack: EXCHANGE.stack.load(Ordering::Relaxed),
            frame: EXCHANGE.frame.load(Ordering::Relaxed),
            link: EXCHANGE.link.load(Ordering::Relaxed),
        };
        let copied_bytes = EXCHANGE.copied_bytes.load(Ordering::Relaxed);
        // SAFETY: in the phase `TAKEN`, the copy belongs to the owner of `self`, of which there is
        // one: no handler writes it before the next request.
        let copy: &[u8; MAX_STACK_BYTES] = unsafe { &*EXCHANGE.copy.get() };
        let bytes = copy[..copied_bytes].to_vec();
        let age_ns = monotonic_ns().saturating_sub(EXCHANGE.taken_at_ns.load(Ordering::Relaxed));
        EXCHANGE.state.store(IDLE, Ordering::Relaxed);
        Ok(StackCopy { registers, bytes, age: Duration::from_nanos(age_ns) })
    }

    /// Waits until the handler has answered. Withdraws the request if no handler has begun to answer
    /// it in time.
    #[allow(clippy::disallowed_methods, reason = "the watcher waits for another thread")]
    fn await_answer(&self, request: u64) -> Result<(), StackEnd> {
        let start = tach::Instant::now();
        loop {
            let state = EXCHANGE.state.load(Ordering::Acquire);
            if state == request | TAKEN {
                return Ok(());
            }
            let is_withdrawn = state == request | REQUESTED
                && start.elapsed() > ANSWER_TIMEOUT
                && EXCHANGE
                    .state
                    .compare_exchange(state, IDLE, Ordering::Relaxed, Ordering::Relaxed)
                    .is_ok();
            if is_withdrawn {
                return Err(StackEnd::NoAnswer);
            }
            std::thread::sleep(ANSWER_POLL_INTERVAL);
        }
    }
}

impl Drop for StackSignal {
    fn drop(&mut self) {
        OWNER.store(0, Ordering::Release);
    }
}

/// The handler of a signal.
enum Handler {
    Unused,
    Ours,
    Other,
}

fn current_handler(signal: i32) -> io::Result<Handler> {
    // SAFETY: all-zero is a valid `sigaction`.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a whole `sigaction` of ours, which the call fills and does not keep.
    check(unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut action) }.into())?;
    let ours = take_stack as *const () as usize;
    Ok(match action.sa_sigaction {
        libc::SIG_DFL | libc::SIG_IGN => Handler::Unused,
        handler if handler == ours => Handler::Ours,
        _ => Handler::Other,
    })
}

/// The signal handler. Answers a request for the stack of the thread that runs it, if there is one.
extern "C" fn take_stack(
    _signal: libc::c_int,
    _info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    // SAFETY: the location of the calling thread's `errno` is valid as long as the thread runs.
    let errno = unsafe { *libc::__errno_location() };
    let thread = u64::from(current_thread());
    let (requested, copying) = (thread << 2 | REQUESTED, thread << 2 | COPYING);
    let state = &EXCHANGE.state;
    if state.compare_exchange(requested, copying, Ordering::Acquire, Ordering::Relaxed).is_ok() {
        // SAFETY: a handler that is installed with `SA_SIGINFO` gets a pointer to the context of
        // the interrupted thread.
        let registers = unsafe { interrupted_registers(context.cast()) };
        // SAFETY: in the phase `COPYING`, the copy belongs to this handler.
        let copy = unsafe { &mut *EXCHANGE.copy.get() };
        let copied_bytes = read_memory(registers.stack, copy);
        EXCHANGE.instruction.store(registers.instruction, Ordering::Relaxed);
        EXCHANGE.stack.store(registers.stack, Ordering::Relaxed);
        EXCHANGE.frame.store(registers.frame, Ordering::Relaxed);
        EXCHANGE.link.store(registers.link, Ordering::Relaxed);
        EXCHANGE.copied_bytes.store(copied_bytes, Ordering::Relaxed);
        EXCHANGE.taken_at_ns.store(monotonic_ns(), Ordering::Relaxed);
        state.store(thread << 2 | TAKEN, Ordering::Release);
    }
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

/// Returns the registers that a signal interrupted.
///
/// # Safety
/// The pointer is to the context that the kernel passed to a signal handler.
#[cfg(target_arch = "x86_64")]
unsafe fn interrupted_registers(context: *const libc::ucontext_t) -> Registers {
    // SAFETY: the caller guarantees that the pointer is valid.
    let general = unsafe { &(*context).uc_mcontext.gregs };
    let register = |index: libc::c_int| general[index as usize].cast_unsigned();
    Registers {
        instruction: register(libc::REG_RIP),
        stack: register(libc::REG_RSP),
        frame: register(libc::REG_RBP),
        link: 0,
    }
}

/// Returns the registers that a signal interrupted.
///
/// # Safety
/// The pointer is to the context that the kernel passed to a signal handler.
#[cfg(target_arch = "aarch64")]
unsafe fn interrupted_registers(context: *const libc::ucontext_t) -> Registers {
    // SAFETY: the caller guarantees that the pointer is valid.
    let general = unsafe { &(*context).uc_mcontext };
    Registers {
        instruction: general.pc,
        stack: general.sp,
        frame: general.regs[29],
        link: general.regs[30],
    }
}

/// Reads memory of this process from an address on. Returns the number of bytes until the first page
/// that is not readable. Does not allocate, and may be called by a signal handler.
pub(super) fn read_memory(address: u64, into: &mut [u8]) -> usize {
    const PAGE_BYTES: usize = 4_096;
    const MAX_PAGES: usize = 16;
    let mut read_bytes = 0;
    while read_bytes < into.len() {
        // A part that crosses no page is read as a whole or not at all.
        let mut pages = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; MAX_PAGES];
        let mut requested_bytes = 0;
        for page in &mut pages {
            let Some(start) = address.checked_add((read_bytes + requested_bytes) as u64) else {
                break;
            };
            let until_page_end = PAGE_BYTES - (start as usize % PAGE_BYTES);
            let length = until_page_end.min(into.len() - read_bytes - requested_bytes);
            *page = libc::iovec { iov_base: start as *mut libc::c_void, iov_len: length };
            requested_bytes += length;
        }
        let rest = &mut into[read_bytes..];
        let local = libc::iovec { iov_base: rest.as_mut_ptr().cast(), iov_len: rest.len() };
        // SAFETY: the kernel writes at most the length of `rest` to `rest`, which is borrowed
        // mutably, and checks every address that it reads.
        let copied = unsafe {
            let process = std::process::id().cast_signed();
            libc::process_vm_readv(
                process,
                &raw const local,
                1,
                pages.as_ptr(),
                MAX_PAGES as u64,
                0,
            )
        };
        let copied = usize::try_from(copied).unwrap_or(0);
        read_bytes += copied;
        if copied == 0 || copied < requested_bytes {
            break;
        }
    }
    read_bytes
}

/// Returns the kernel's id of this thread.
pub(super) fn current_thread() -> u32 {
    // SAFETY: the call has no arguments and cannot fail.
    unsafe { libc::syscall(libc::SYS_gettid) as u32 }
}

/// Returns the kernel's monotonic clock in nanoseconds.
fn monotonic_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a whole `timespec` of ours, which the call fills and does not keep.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

/// Returns the error of a system call that returned -1.
fn check(result: libc::c_long) -> io::Result<()> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, PoisonError, mpsc};
    use std::thread;

    use super::*;

    /// The exchange has one owner.
    static SERIAL: Mutex<()> = Mutex::new(());

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no signals")]
    fn handler_keeps_errno() {
        const ERRNO: i32 = 4_711;
        let _serial = SERIAL.lock().unwrap_or_else(PoisonError::into_inner);
        let thread = u64::from(current_thread());
        // SAFETY: all-zero is a valid context, whose stack pointer cannot be read.
        let mut context: libc::ucontext_t = unsafe { std::mem::zeroed() };
        let location = {
            // SAFETY: the location is valid as long as this thread runs.
            unsafe { &mut *libc::__errno_location() }
        };
        *location = ERRNO;
        assert_eq!(read_memory(0, &mut [0; 8]), 0);
        assert_eq!(*location, libc::EFAULT);

        *location = ERRNO;
        EXCHANGE.state.store(thread << 2 | REQUESTED, Ordering::Relaxed);
        take_stack(libc::SIGURG, std::ptr::null_mut(), (&raw mut context).cast());
        assert_eq!(*location, ERRNO);
        assert_eq!(EXCHANGE.state.swap(IDLE, Ordering::Relaxed), thread << 2 | TAKEN);
        assert_eq!(EXCHANGE.copied_bytes.load(Ordering::Relaxed), 0);
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no signals")]
    fn memory_ends_at_unreadable_page() {
        const BYTES: usize = 1 << 20;
        // SAFETY: the kernel chooses the place, so no memory of ours is replaced.
        let start = unsafe {
            let access = libc::PROT_READ | libc::PROT_WRITE;
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            libc::mmap(std::ptr::null_mut(), BYTES, access, flags, -1, 0)
        };
        assert_ne!(start, libc::MAP_FAILED);
        let address = start as u64;
        let read =
            |from: usize, length: usize| read_memory(address + from as u64, &mut vec![1; length]);
        assert_eq!(read(0, BYTES), BYTES);
        assert_eq!(read(100, 300_000), 300_000);
        // SAFETY: nothing uses this mapping.
        assert_eq!(unsafe { libc::mprotect(start.add(40_960), 4_096, libc::PROT_NONE) }, 0);
        assert_eq!(read(100, BYTES - 100), 40_960 - 100);
        assert_eq!(read(40_959, 2), 1);
        assert_eq!(read(40_960, 8), 0);
        assert_eq!(read_memory(u64::MAX - 3, &mut [0; 8]), 0);
        // SAFETY: nothing uses this mapping.
        unsafe { libc::munmap(start, BYTES) };
    }

    /// Changes whether this thread blocks a signal.
    fn mask_signal(how: libc::c_int, signal: i32) {
        // SAFETY: the set is a whole one of ours, which the calls fill and read.
        unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&raw mut set);
            libc::sigaddset(&raw mut set, signal);
            assert_eq!(libc::pthread_sigmask(how, &raw const set, std::ptr::null_mut()), 0);
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no signals")]
    #[cfg_attr(tsan, ignore = "ThreadSanitizer delays signals to a blocked thread")]
    fn unanswered_requests_are_withdrawn() {
        let _serial = SERIAL.lock().unwrap_or_else(PoisonError::into_inner);
        let mut signal = StackSignal::install(libc::SIGURG).unwrap();
        assert!(matches!(StackSignal::install(libc::SIGURG), Err(WatchError::AlreadyWatching)));
        let (started, thread) = mpsc::channel();
        let (unblock, unblocked) = mpsc::channel::<()>();
        let blocking = thread::spawn(move || {
            mask_signal(libc::SIG_BLOCK, libc::SIGURG);
            started.send(current_thread()).unwrap();
            unblocked.recv().unwrap();
            // The pending signal is delivered here, and finds no request.
            mask_signal(libc::SIG_UNBLOCK, libc::SIGURG);
            assert_eq!(EXCHANGE.state.load(Ordering::Relaxed), IDLE);
            started.send(current_thread()).unwrap();
            let _ = unblocked.recv();
        });
        let id = thread.recv().unwrap();
        assert_eq!(signal.copy_stack(id).unwrap_err(), StackEnd::NoAnswer);
        unblock.send(()).unwrap();
        thread.recv().unwrap();
        let copy = loop {
            // A busy machine may give the thread no CPU in time.
            match signal.copy_stack(id) {
                Err(StackEnd::NoAnswer) => {}
                copied => break copied.unwrap(),
            }
        };
        assert!(!copy.bytes.is_empty() && copy.bytes.len() <= MAX_STACK_BYTES);
        drop(unblock);
        blocking.join().unwrap();
    }
}
