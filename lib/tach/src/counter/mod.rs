//! The counter instructions, in one file per architecture: with the call in `os.rs`, the only
//! `unsafe` code of this crate.
//!
//! Each file provides the same items:
//!
//! - `SOURCE`: the source of its counts.
//! - `check_usable()`: checks whether the counter can be trusted, by the features that the CPU
//!   reports. The functions below are called only if it can.
//! - `count()`: the bare instruction. The CPU may execute it before earlier loads have completed,
//!   but the compiler moves no access to memory across it.
//! - `ordered_count()`: reads the counter after every earlier load of this thread has its value,
//!   and before a later release store is visible to any thread.
//! - `HAS_FENCE`: whether `count_after_fence()` differs from `ordered_count()`.
//! - `fence_orders_reads()`: whether `count_after_fence()` is as ordered on this CPU. It is cheaper.
//! - `fenced_count()`: like `ordered_count`, and no later instruction begins before it.
//! - `ONE_FOR_ALL_CORES`: whether the architecture guarantees that, by this counter, no message
//!   arrives before it was sent. If it is false, the kernel may guarantee it (see
//!   `os::is_verified_by_kernel`).
//! - `stated_rate()`: the counts per second that the CPU or the hypervisor states.
//! - `cheap_stated_rate()`: the stated rate, if reading it costs less than the wait for two anchors
//!   that it saves.
#![allow(unsafe_code)]

// Each attribute selects a file for its architecture. If none applies, the module is `fallback.rs`.
#[cfg_attr(
    all(
        any(target_arch = "x86", target_arch = "x86_64"),
        target_feature = "sse2",
        not(target_env = "sgx")
    ),
    path = "x86.rs"
)]
#[cfg_attr(target_arch = "aarch64", path = "aarch64.rs")]
#[cfg_attr(target_arch = "riscv64", path = "riscv64.rs")]
#[cfg_attr(target_arch = "loongarch64", path = "loongarch64.rs")]
mod fallback;

use fallback as selected;
pub(crate) use selected::{
    HAS_FENCE, ONE_FOR_ALL_CORES, SOURCE, cheap_stated_rate, check_usable, count_after_fence,
    fence_orders_reads, fenced_count, stated_rate,
};
pub use selected::{count, ordered_count};
