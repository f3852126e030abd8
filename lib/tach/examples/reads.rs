//! Each way to read the clock, once: what `scripts/ci/disassembly.sh` looks at.
#![allow(clippy::print_stdout, reason = "an example")]

use std::hint::black_box;

#[inline(never)]
fn instant_now() -> tach::Instant {
    tach::Instant::now()
}

#[inline(never)]
fn ordered_instant_now() -> tach::OrderedInstant {
    tach::OrderedInstant::now()
}

#[inline(never)]
fn monotonic_instant_now() -> tach::MonotonicInstant {
    tach::MonotonicInstant::now()
}

fn main() {
    // Called through a pointer that the compiler cannot see through, so that each keeps a body of
    // its own.
    println!("{:?}", black_box(instant_now as fn() -> tach::Instant)());
    println!("{:?}", black_box(ordered_instant_now as fn() -> tach::OrderedInstant)());
    println!("{:?}", black_box(monotonic_instant_now as fn() -> tach::MonotonicInstant)());
    println!("{:?}", tach::info());
}
