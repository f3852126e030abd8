//! Clocks from the CPU counter: one instruction to read, trustworthy or replaced by the OS clock.
//!
//! A *count* is one raw reading. It becomes a time only afterwards, through two [`Anchor`]s, pairs of a count and the
//! operating system's clock: recording stays cheap, and no calibration stalls anybody.
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
//! An [`Instant`] has the surface of [`std::time::Instant`] over the same counts, for programs that read the clock far
//! more often than they look at the result:
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
//! | [`Instant`] | the bare counter | never goes back on one thread; the CPU may read it before earlier loads complete, so against other threads' instants it can be wrong by that much |
//! | [`OrderedInstant`] | the counter behind earlier loads | no earlier load of this thread passes it: for a stamp beside shared state |
//! | [`MonotonicInstant`] | as the machine needs it | never less than any taken before, on whatever thread |
//! | [`count`], [`ordered_count`], [`fenced_count`] | the same, raw | for recorders: eight bytes a sample, converted afterwards |
//!
//! All have the surface of [`std::time::Instant`], saturate where it saturates, are `Copy`, `Ord`, `Hash`, `Send` and `Sync`.
//! Start with [`Instant`]; take [`MonotonicInstant`] where instants of several threads are compared.
//!
//! # What is read
//!
//! | Architecture | Counter | Used if | [`MonotonicInstant`] is in order by |
//! |---|---|---|---|
//! | `x86`, `x86_64` | `rdtsc`, ordered `rdtscp` | CPUID says it is invariant and `rdtscp` exists; on Linux the kernel's own clock source is `tsc` | the kernel's check of all cores (Linux); a shared maximum elsewhere |
//! | `aarch64` | `cntvct_el0` | always | the architecture: one system counter |
//! | `riscv64`, `loongarch64` | `rdtime` | always | a shared maximum; ordered reads are a best effort |
//! | `wasm32` in a browser or Node | `Performance.now()` | always | one thread |
//! | any other, or where the above does not hold | [`std::time::Instant`] | | the operating system |
//!
//! [`info`] tells which, and why not the counter. Whether to trust it is asked once a process, at the first reading;
//! [`lost_trust`] asks the kernel again. Building with `--cfg tach_force_os_clock` gives the operating system's clock.
//!
//! # Counts to time
//!
//! Conversion follows a line in pieces through anchors that are taken on the callers' own *conversions*, each time the
//! process has doubled its age, at least once an hour. An anchor costs microseconds; the first conversion takes one or
//! some. A span once converted never changes, [`Instant::elapsed`] never goes back, and errors do not add up: a rate is good
//! to a few brackets (tens of nanoseconds each) over the age of the process. No thread is started; the feature
//! `recalibrate-background` offers one, `recalibrate` does it by hand.
//!
//! # Caveats
//!
//! - **Suspend.** Whether the counter goes on while the machine sleeps differs between machines, and from what the
//!   operating system's clock does. Spans across a suspend are not to be trusted.
//! - **Migration of a virtual machine** can change rate and value; the hypervisor scales the counter if the hardware can.
//! - **Several sockets, and cores that are clocked apart**, are as good as the promise in the table above. `osjitter bench
//!   clock` looks for violations on the machine at hand.
//! - **Arithmetic** with durations is on the grid of counts, rounded up to a whole one. A schedule is better computed as a
//!   start plus `n` periods than by adding up.
//! - **Sums that lie in the future** are estimates until then: they are good to the rate's error.
//! - **NTP** changes the rate of the operating system's clock; the line follows at its next anchor.
//! - **`std` is needed**: the reference clock comes from it.
#![deny(unsafe_code)]

mod anchor;
#[cfg(feature = "recalibrate-background")]
mod background;
mod counter;
mod info;
mod instant;
mod os;
mod reading;
mod source;
mod timeline;

pub use anchor::{Anchor, Conversion};
#[cfg(feature = "recalibrate-background")]
pub use background::{DEFAULT_RECALIBRATION_INTERVAL, set_recalibration_interval};
pub use info::{Info, RateFrom, info};
pub use instant::{Instant, MonotonicInstant, OrderedInstant, recalibrate};
pub use os::OsInstant;
pub use reading::{count, fenced_count, lost_trust, ordered_count, source, why_not_counter};
pub use source::{CrossThreadOrder, Source, StatedBy, StatedRate, WhyNotCounter};

/// The instructions without the question whether they can be trusted: what a benchmark compares [`count`] with. Only
/// where [`source`] is a counter; elsewhere they may panic.
#[doc(hidden)]
pub mod bare {
    pub use crate::counter::{count, ordered_count};
}
