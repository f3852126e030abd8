//! Counts readings of the CPU counter by any code of a thread.
//!
//! The instruction is made to trap; the signal handler counts it, executes it, and skips it. If the
//! kernel's clock source is the counter, every clock reading is a reading of the counter, so this
//! counts the clock readings of other libraries without changing them. It works on Linux with
//! `x86_64` only; on other platforms [`TscTrap::start`] returns `None`.

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod imp {
    use std::sync::atomic::{AtomicU64, Ordering};

    static READS: AtomicU64 = AtomicU64::new(0);

    const RDTSC: [u8; 2] = [0x0F, 0x31];
    const RDTSCP: [u8; 3] = [0x0F, 0x01, 0xF9];

    fn set_trapping(on: bool) -> bool {
        let mode = if on { libc::PR_TSC_SIGSEGV } else { libc::PR_TSC_ENABLE };
        // SAFETY: the call changes a flag of the calling thread and touches no memory.
        unsafe { libc::prctl(libc::PR_SET_TSC, mode, 0, 0, 0) == 0 }
    }

    /// Executes the instruction that trapped. Returns the counter, and the processor if it is
    /// RDTSCP.
    fn read_counter(is_rdtscp: bool) -> (u64, u32) {
        let mut processor = 0_u32;
        set_trapping(false);
        // SAFETY: both instructions exist wherever they just trapped (an unknown one raises another
        // signal).
        let count = unsafe {
            if is_rdtscp {
                std::arch::x86_64::__rdtscp(&raw mut processor)
            } else {
                std::arch::x86_64::_rdtsc()
            }
        };
        set_trapping(true);
        (count, processor)
    }

    extern "C" fn on_trap(
        signal: libc::c_int,
        _: *mut libc::siginfo_t,
        context: *mut libc::c_void,
    ) {
        // SAFETY: a handler installed with SA_SIGINFO gets a pointer to the interrupted thread's
        // `ucontext_t`, ours to change until we return.
        let registers = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
        let at = registers[libc::REG_RIP as usize] as *const u8;
        // SAFETY: the thread was interrupted at an instruction, so its first two bytes are mapped
        // and readable; every instruction that begins like RDTSCP is at least three long.
        let (two, is_rdtscp) = unsafe {
            let two = at.cast::<[u8; 2]>().read_unaligned();
            (two, two == [RDTSCP[0], RDTSCP[1]] && *at.add(2) == RDTSCP[2])
        };
        if two != RDTSC && !is_rdtscp {
            // A real fault: with the default action it ends the process when the instruction is run
            // again. SAFETY: `signal` and SIG_DFL are valid; this is async-signal-safe.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
            return;
        }
        READS.fetch_add(1, Ordering::Relaxed);
        let (count, processor) = read_counter(is_rdtscp);
        registers[libc::REG_RAX as usize] = (count & 0xFFFF_FFFF) as i64;
        registers[libc::REG_RDX as usize] = (count >> 32) as i64;
        if is_rdtscp {
            registers[libc::REG_RCX as usize] = i64::from(processor);
        }
        registers[libc::REG_RIP as usize] +=
            if is_rdtscp { RDTSCP.len() } else { RDTSC.len() } as i64;
    }

    /// A guard that counts the readings of this thread, and of the threads that it starts.
    pub struct TscTrap(());

    impl TscTrap {
        pub fn start() -> Option<Self> {
            // SAFETY: an all-zero sigaction is valid: no flags, an empty mask.
            let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
            action.sa_sigaction = on_trap as *const () as usize;
            // On the alternate stack if there is one, like the handler that this one replaces.
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            // SAFETY: the pointer is to a whole structure of ours; the handler is
            // async-signal-safe: an atomic addition, two system calls, and the registers of its own
            // context.
            let installed = unsafe {
                libc::sigaction(libc::SIGSEGV, &raw const action, std::ptr::null_mut()) == 0
            };
            (installed && set_trapping(true)).then_some(Self(()))
        }

        pub fn read_count() -> u64 {
            READS.load(Ordering::Relaxed)
        }
    }

    impl Drop for TscTrap {
        fn drop(&mut self) {
            set_trapping(false);
        }
    }
}

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
mod imp {
    /// The guard on platforms without a counter that traps; it is never created.
    pub struct TscTrap;

    impl TscTrap {
        pub fn start() -> Option<Self> {
            None
        }

        pub fn read_count() -> u64 {
            0
        }
    }
}

pub use imp::TscTrap;

#[cfg(all(test, target_os = "linux", target_arch = "x86_64"))]
mod tests {
    use super::TscTrap;

    #[test]
    fn counter_reads_are_counted() {
        // A separate thread, because the trap affects the whole thread.
        let thread = std::thread::spawn(|| {
            let counter = TscTrap::start()?;
            let before = TscTrap::read_count();
            let mut last = 0;
            for _ in 0..10 {
                // SAFETY: every x86_64 has the instruction.
                let now = unsafe { std::arch::x86_64::_rdtsc() };
                assert!(now > last);
                last = now;
            }
            let reads = TscTrap::read_count() - before;
            drop(counter);
            // SAFETY: as above.
            assert!(unsafe { std::arch::x86_64::_rdtsc() } > last);
            Some(reads)
        });
        // `None` if a sandbox forbids it.
        assert!(matches!(thread.join().unwrap(), None | Some(10..)));
    }
}
