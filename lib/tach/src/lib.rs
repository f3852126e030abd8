//! Clocks from the CPU counter. A read is one instruction; if the counter cannot be trusted, the OS
//! clock is read instead.
//!
//! An [`Instant`] has the API of [`std::time::Instant`]:
//!
//! ```
//! use std::time::Duration;
//! use tach::Instant;
//!
//! let start = Instant::now();
//! let work = (0..1_000_u64).sum::<u64>();
//! println!("{work} took {:?}", start.elapsed());
//! assert!(start.elapsed() < Duration::from_secs(60));
//! ```
//!
//! # Choosing a type
//!
//! | | Reads | Contract |
//! |---|---|---|
//! | [`Instant`] | the bare counter | never goes back on one thread; the CPU may read it before earlier loads complete, so compared with another thread's instants it can be early by the latency of those loads |
//! | [`OrderedInstant`] | the counter, after earlier loads | no earlier load of this thread passes it; use it for a stamp that is ordered with shared state |
//! | [`MonotonicInstant`] | the bare counter while one thread reads, else the counter after earlier loads, or a shared maximum if the machine needs it | never less than any taken before on any thread |
//! | [`count`], [`ordered_count`], [`fenced_count`] | the counter, raw | for recorders: eight bytes per sample, converted afterwards |
//!
//! All instants have the API of [`std::time::Instant`], saturate in the same cases, and are `Copy`,
//! `Ord` and `Hash`. Start with [`Instant`]. Use [`MonotonicInstant`] to compare instants of several
//! threads. All types of this crate are `Send` and `Sync`.
//!
//! # Recording counts
//!
//! A *count* is one raw reading, which a recorder stores in eight bytes and converts to a time
//! afterwards. The conversion uses two [`Anchor`]s, each of which pairs a count with the OS clock:
//!
//! ```
//! use tach::{Anchor, Conversion};
//! let first = Anchor::take();
//! let count = tach::ordered_count();
//! std::thread::sleep(std::time::Duration::from_millis(1));
//! let last = Anchor::take();
//! let conversion = Conversion::between(&first, &last).expect("a millisecond between the anchors");
//! let ns = conversion.ns_since(count, first.os_instant());
//! assert!(ns >= -(conversion.error_bound_ns() as i64));
//! ```
//!
//! # Sources
//!
//! | Architecture | Counter | Used if | [`MonotonicInstant`] is ordered by |
//! |---|---|---|---|
//! | `x86`, `x86_64` | `rdtsc`, ordered by `lfence` or as `rdtscp` | CPUID reports it invariant and `rdtscp` exists; on Linux the kernel's own clock source is `tsc` | the kernel's check of all cores (Linux); a shared maximum elsewhere |
//! | `aarch64` | `cntvct_el0` | always | the architecture: one system counter |
//! | `riscv64`, `loongarch64` | `rdtime` | always | a shared maximum; ordered reads are best effort |
//! | `wasm32` in a browser or Node | `Performance.now()` | always | one thread |
//! | any other, or if the condition above is not met | [`std::time::Instant`] | | the OS |
//!
//! [`info`] reports which clock is read, and the reason if it is not the counter. The decision is
//! made once per process, at the first reading. [`check_counter`] checks the kernel's clock source
//! again. The build flag `--cfg tach_force_os_clock` forces the OS clock.
//!
//! # Conversion to time
//!
//! Counts are converted by a piecewise-linear fit through the anchors. Anchors are taken by callers
//! that *convert*: when the age of the process has doubled, and at least once an hour. An anchor
//! costs microseconds, and the first conversion takes one or a few.
//!
//! The conversion of a span never changes, and [`Instant::elapsed`] never goes back. Errors do not
//! accumulate: the error of the rate is a few brackets (tens of nanoseconds each) over the age of
//! the process. No thread is started. [`recalibrate`] takes an anchor on demand.
//!
//! With the feature `recalibrate-background`, the first reading of a counter starts a thread that
//! calls [`recalibrate`] every minute. Its function `set_recalibration_interval` changes the
//! interval, and ends the thread. The feature applies to the whole program, even if only one of its
//! dependencies enables it.
//!
//! The feature `serde` implements `Serialize` and `Deserialize` for [`Info`].
//!
//! # Caveats
//!
//! - **Suspend.** Whether the counter runs during a suspend depends on the machine, and may differ
//!   from the OS clock. Do not trust a span across a suspend. On 64-bit Linux and Apple's systems,
//!   later spans are measured at the right rate. On 64-bit Linux, [`Anchor::suspended_until`] and
//!   [`Info::suspended`] report one.
//! - **Migration of a virtual machine** can change the rate and the value. The hypervisor scales
//!   the counter if the hardware can.
//! - **Several sockets and cores with separate counters** are covered only by the guarantee in the
//!   table above. `osjitter bench clock` looks for violations on your machine.
//! - **Sums and differences** are exact to the nanosecond and reach 146 years in both directions.
//!   [`Instant::count`] of a future instant is an estimate, within the error of the rate. Comparing
//!   a future instant with a reading is exact.
//! - **NTP** changes the rate of the OS clock. The fit follows at its next anchor.
//! - **`std` is required**, because it provides the reference clock.
//! - **Targets without 64-bit atomics** use locks, which cost tens of nanoseconds per conversion.
#![deny(unsafe_code)]
#![warn(clippy::must_use_candidate)]

mod anchor;
mod atomic_words;
#[cfg(feature = "recalibrate-background")]
mod background;
mod bias;
mod clock_pair;
mod counter;
mod info;
mod instant;
mod os;
mod reading;
mod repr;
mod source;
mod timeline;

pub use anchor::{Anchor, Conversion};
#[cfg(feature = "recalibrate-background")]
pub use background::DEFAULT_RECALIBRATION_INTERVAL;
pub use clock_pair::{Paired, read_paired};
pub use info::{Info, RateFrom, error_bound_ns, info, rate_hz};
#[cfg(feature = "recalibrate-background")]
pub use instant::set_recalibration_interval;
pub use instant::{Instant, MonotonicInstant, OrderedInstant, recalibrate};
pub use os::OsInstant;
pub use reading::{check_counter, count, fenced_count, ordered_count, source, why_not_counter};
pub use source::{CounterUnavailable, CrossThreadOrder, Source, StatedBy, StatedRate};

/// The bare instructions, without the check whether the counter can be trusted. Benchmarks compare
/// [`count`] with them. Call them only if [`source`] is a counter; otherwise they may panic.
#[doc(hidden)]
pub mod bare {
    pub use crate::counter::{count, ordered_count};
}

// Compiles the programs of the README as documentation tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
