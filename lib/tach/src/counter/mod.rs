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

#[cfg_attr(
    all(any(target_arch = "x86", target_arch = "x86_64"), target_feature = "sse2", not(target_env = "sgx")),
    path = "x86.rs"
)]
#[cfg_attr(target_arch = "aarch64", path = "aarch64.rs")]
#[cfg_attr(target_arch = "riscv64", path = "riscv64.rs")]
#[cfg_attr(target_arch = "loongarch64", path = "loongarch64.rs")]
#[cfg_attr(
    not(any(
        all(any(target_arch = "x86", target_arch = "x86_64"), target_feature = "sse2", not(target_env = "sgx")),
        target_arch = "aarch64",
        target_arch = "riscv64",
        target_arch = "loongarch64"
    )),
    path = "none.rs"
)]
mod imp;

pub(crate) use imp::{ONE_FOR_ALL_CORES, SOURCE, fenced_count, rate_stated_cheaply, stated_rate, usable};
pub use imp::{count, ordered_count};

#[cfg(test)]
mod tests {
    #[test]
    fn each_read_is_not_less_than_the_one_before() {
        if crate::why_not_counter().is_some() {
            return;
        }
        for _ in 0..100_000 {
            let reads = [super::ordered_count(), super::count(), super::ordered_count(), super::fenced_count()];
            assert!(reads.is_sorted(), "{reads:?}");
        }
    }

    #[test]
    fn a_stated_rate_is_that_of_the_anchors() {
        let Some(stated) = super::stated_rate().filter(|_| crate::why_not_counter().is_none()) else { return };
        let ratio = stated.hz as f64 / crate::info().rate_hz;
        assert!((0.9..1.1).contains(&ratio), "{stated:?} is {ratio} of the measured rate");
    }
}
