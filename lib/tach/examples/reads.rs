//! Calls each way to read the clock once. `scripts/ci/disassembly.sh` examines its machine code.
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
    // Each is called through an opaque pointer, so that the compiler generates a separate function.
    println!("{:?}", black_box(instant_now as fn() -> tach::Instant)());
    println!("{:?}", black_box(ordered_instant_now as fn() -> tach::OrderedInstant)());
    println!("{:?}", black_box(monotonic_instant_now as fn() -> tach::MonotonicInstant)());
    println!("{:?}", tach::info());
}
