//! The first thing that a process does with a clock. The only test of its program, so that nothing
//! comes before.

use std::time::Duration;

use tach::Instant;

#[test]
#[allow(clippy::disallowed_methods, reason = "time must pass, and the oracle is the OS clock")]
fn a_deadline_made_in_the_first_microseconds_is_exact_when_it_comes() {
    let os_start = std::time::Instant::now();
    let start = Instant::now();
    let os_inner = std::time::Instant::now();
    let length = Duration::from_millis(300);
    let deadline = start + length;
    std::thread::sleep(length - Duration::from_millis(20));
    // A conversion, so that the rate is known far better than it was.
    assert!(start.elapsed() < length || os_start.elapsed() >= length);
    while Instant::now() < deadline {
        std::hint::spin_loop();
    }
    let (least, span, most) = (os_inner.elapsed(), start.elapsed(), os_start.elapsed());
    assert!(span >= length, "{:?} early", length - span);
    assert_eq!(deadline - start, length);
    let bound = Duration::from_nanos(tach::error_bound_ns());
    assert!(span + bound >= least && span <= most + bound, "{least:?} {span:?} {most:?} {bound:?}");
}
