//! The counter instructions, one file an architecture: the only `unsafe` of this crate.
//!
//! Each offers the same items:
//!
//! - `SOURCE`: what it is called.
//! - `usable()`: whether the CPU itself allows to trust it, and why not. Nothing else is called before that said yes.
//! - `count()`: the bare instruction. The CPU may carry it out before earlier loads have completed.
//! - `ordered_count()`: not before every earlier load of this thread has its value, nor after a later release store is
//!   seen by anyone.
//! - `fenced_count()`: as `ordered_count`, and nothing that follows begins before it.
//! - `ONE_FOR_ALL_CORES`: whether the architecture itself states that a message cannot arrive before it was sent by
//!   this counter. Where it does not, the kernel may vouch for it (see `source`).
//! - `stated_rate()`: counts a second by the CPU's or the hypervisor's own account.
//! - `rate_stated_cheaply()`: the same where asking costs less than the two anchors that it saves waiting for.
#![allow(unsafe_code)]

// The ladder. Where no rung holds, the module is the file of its own name.
#[cfg_attr(
    all(any(target_arch = "x86", target_arch = "x86_64"), target_feature = "sse2", not(target_env = "sgx")),
    path = "x86.rs"
)]
#[cfg_attr(target_arch = "aarch64", path = "aarch64.rs")]
#[cfg_attr(target_arch = "riscv64", path = "riscv64.rs")]
#[cfg_attr(target_arch = "loongarch64", path = "loongarch64.rs")]
mod none;

use none as selected;
pub(crate) use selected::{ONE_FOR_ALL_CORES, SOURCE, fenced_count, rate_stated_cheaply, stated_rate, usable};
pub use selected::{count, ordered_count};
