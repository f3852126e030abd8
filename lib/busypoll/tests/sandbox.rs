//! Tests what happens in a sandbox that allows to create a timer and denies to arm it.
#![cfg(all(target_os = "linux", target_pointer_width = "64", not(miri)))]
#![allow(unsafe_code, reason = "the sandbox is entered through libc")]

use std::time::Duration;

use busypoll::{Parking, Runtime, time};

/// Denies a system call to this thread with `EPERM`. Returns whether that has an effect, which it
/// does not in emulators.
fn deny_system_call(number: libc::c_long) -> bool {
    let instruction = |code: u32, jump_if_false, value| libc::sock_filter {
        code: code as u16,
        jt: 0,
        jf: jump_if_false,
        k: value,
    };
    let load_number = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    let is_equal = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    let mut filter = [
        instruction(load_number, 0, 0),
        instruction(is_equal, 1, number as u32),
        instruction(libc::BPF_RET, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
        instruction(libc::BPF_RET, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: the program and its filter are ours, are only read, and outlive the calls.
    unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) == 0
    }
}

/// The sandbox is that of the thread of the test.
#[test]
fn denied_arming_is_an_error() {
    if deny_system_call(libc::SYS_timerfd_settime) {
        let error = Runtime::builder().parking(Parking::Park).build().unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EPERM), "{error}");
        // A runtime that never parks arms no timer.
        let mut spinning = Runtime::new().unwrap();
        spinning.block_on(async { time::sleep(Duration::from_micros(10)).await });
    }
}
