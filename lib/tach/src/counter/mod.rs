//! The counter instructions, one file an architecture: the only `unsafe` of this crate.
//!
//! Each provides the same items:
//!
//! - `SOURCE`: its name.
//! - `usable()`: whether the counter can be trusted by what the CPU itself reports, and why not.
//!   Nothing else is called unless it can.
//! - `count()`: the bare instruction. The CPU may execute it before earlier loads have completed;
//!   the compiler moves no access to memory across it.
//! - `ordered_count()`: not before every earlier load of this thread has its value, nor after a
//!   later release store is seen by anyone.
//! - `fenced_count()`: as `ordered_count`, and nothing that follows begins before it.
//! - `ONE_FOR_ALL_CORES`: whether the architecture itself guarantees that, by this counter, no
//!   message arrives before it was sent. Where it does not, the kernel may (see
//!   `os::kernel_trusts_counter`).
//! - `stated_rate()`: counts per second, as stated by the CPU or the hypervisor.
//! - `rate_stated_cheaply()`: the same, where asking costs less than the wait for two anchors that
//!   it saves.
#![allow(unsafe_code)]

// The ladder. Where no rung holds, the module is the file of its own name.
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
mod none;

use none as selected;
pub(crate) use selected::{
    ONE_FOR_ALL_CORES, SOURCE, fenced_count, rate_stated_cheaply, stated_rate, usable,
};
pub use selected::{count, ordered_count};
