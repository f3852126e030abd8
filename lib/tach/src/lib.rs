//! Clocks from the CPU counter: one instruction to read, with the OS clock wherever the counter
//! cannot be trusted.
//!
//! A *count* is one raw reading. It becomes a time only afterwards, through two [`Anchor`]s, each a
//! pair of a count and the OS clock. So recording stays cheap, and no calibration stalls the
//! program.
//!
//! ```
//! use tach::{Anchor, Conversion};
//! let first = Anchor::take();
//! let count = tach::ordered_count();
//! std::thread::sleep(std::time::Duration::from_millis(1));
//! let last = Anchor::take();
//! let conversion = Conversion::between(&first, &last).expect("a millisecond lies between");
//! assert!(conversion.ns_since(count, first.std()) >= -(conversion.error_bound_ns() as i64));
//! ```
//!
//! An [`Instant`] has the surface of [`std::time::Instant`] over the same counts, for programs that
//! read the clock far more often than they look at the result:
//!
//! ```
//! let start = tach::Instant::now();
//! assert!(start.elapsed() < std::time::Duration::from_secs(60));
//! ```
//!
//! # Which one
//!
//! | | Reads | Contract |
//! |---|---|---|
//! | [`Instant`] | the bare counter | never goes back on one thread; the CPU may read it before earlier loads complete, so beside another thread's instants it can be off by that much |
//! | [`OrderedInstant`] | the counter, after earlier loads | no earlier load of this thread passes it: for a stamp beside shared state |
//! | [`MonotonicInstant`] | whatever the machine needs | never less than any taken before, on whatever thread |
//! | [`count`], [`ordered_count`], [`fenced_count`] | the same, raw | for recorders: eight bytes a sample, converted afterwards |
//!
//! All have the surface of [`std::time::Instant`], saturate where it saturates, and are `Copy`,
//! `Ord`, `Hash`, `Send` and `Sync`. Start with [`Instant`]; use [`MonotonicInstant`] to compare
//! instants of several threads.
//!
//! # What is read
//!
//! | Architecture | Counter | Used if | Order of [`MonotonicInstant`] rests on |
//! |---|---|---|---|
//! | `x86`, `x86_64` | `rdtsc`, ordered `rdtscp` | CPUID reports it invariant and `rdtscp` exists; on Linux the kernel's own clock source is `tsc` | the kernel's check of all cores (Linux); a shared maximum elsewhere |
//! | `aarch64` | `cntvct_el0` | always | the architecture: one system counter |
//! | `riscv64`, `loongarch64` | `rdtime` | always | a shared maximum; ordered reads are best effort |
//! | `wasm32` in a browser or Node | `Performance.now()` | always | one thread |
//! | any other, or where the above does not hold | [`std::time::Instant`] | | the OS |
//!
//! [`info`] reports which, and why not the counter. The decision is made once per process, at the
//! first reading; [`lost_trust`] asks the kernel again. Building with `--cfg tach_force_os_clock`
//! forces the OS clock.
//!
//! # Counts to time
//!
//! Counts are converted along a piecewise-linear fit. Its points, the anchors, are taken while
//! callers *convert*: whenever the process's age has doubled, and at least once an hour. An anchor
//! costs microseconds; the first conversion takes one or a few. A span once converted never
//! changes, [`Instant::elapsed`] never goes back, and errors do not accumulate: the rate is good to
//! a few brackets (tens of nanoseconds each) over the age of the process. No thread is started;
//! [`recalibrate`] takes an anchor by hand, and the feature `recalibrate-background` offers a
//! thread that does.
//!
//! # Caveats
//!
//! - **Suspend.** Whether the counter runs while the machine sleeps differs between machines, and
//!   from what the OS clock does. Do not trust a span across a suspend; on Linux
//!   [`Anchor::suspended_until`] and [`Info::suspended`] report one.
//! - **Migration of a virtual machine** can change rate and value; the hypervisor scales the
//!   counter where the hardware can.
//! - **Several sockets, and cores with clocks of their own**, are as good as the promise in the
//!   table above. `osjitter bench clock` looks for violations on the machine at hand.
//! - **Sums and differences** are exact to the nanosecond, and reach 146 years both ways.
//!   [`Instant::count`] of one that is still to come is an estimate, good to the error of the rate;
//!   comparing it with a reading is not.
//! - **NTP** changes the rate of the OS clock; the fit follows at its next anchor.
//! - **`std` is needed**: the reference clock comes from it.
#![deny(unsafe_code)]

mod anchor;
#[cfg(feature = "recalibrate-background")]
mod background;
mod counter;
mod info;
mod instant;
mod moment;
mod os;
mod reading;
mod source;
mod timeline;

pub use anchor::{Anchor, Conversion};
#[cfg(feature = "recalibrate-background")]
pub use background::{DEFAULT_RECALIBRATION_INTERVAL, set_recalibration_interval};
pub use info::{Info, RateFrom, error_bound_ns, info};
pub use instant::{Instant, MonotonicInstant, OrderedInstant, recalibrate};
pub use os::OsInstant;
pub use reading::{count, fenced_count, lost_trust, ordered_count, source, why_not_counter};
pub use source::{CrossThreadOrder, Source, StatedBy, StatedRate, WhyNotCounter};

/// The bare instructions, without the check whether they can be trusted: what a benchmark compares
/// [`count`] with. Call them only where [`source`] is a counter; elsewhere they may panic.
#[doc(hidden)]
pub mod bare {
    pub use crate::counter::{count, ordered_count};
}

// The programs of the crate's front page are compiled as documentation tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
