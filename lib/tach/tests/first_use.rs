//! The first use of a clock in a process. This test program contains no other test, so that nothing
//! uses a clock before it.

use std::time::Duration;

use tach::Instant;

#[test]
#[allow(clippy::disallowed_methods, reason = "time must pass, and the oracle is the OS clock")]
fn first_deadline_is_exact() {
    let os_outer = std::time::Instant::now();
    let start = Instant::now();
    let os_inner = std::time::Instant::now();
    let length = Duration::from_millis(300);
    let deadline = start + length;
    std::thread::sleep(length - Duration::from_millis(20));
    // This conversion makes the rate far more exact than it was for the deadline.
    assert!(start.elapsed() < length || os_outer.elapsed() >= length);
    while Instant::now() < deadline {
        std::hint::spin_loop();
    }
    let (min, span, max) = (os_inner.elapsed(), start.elapsed(), os_outer.elapsed());
    assert!(span >= length, "{:?} early", length - span);
    assert_eq!(deadline - start, length);
    let bound = Duration::from_nanos(tach::error_bound_ns());
    assert!(span + bound >= min && span <= max + bound, "{min:?} {span:?} {max:?} {bound:?}");
}
