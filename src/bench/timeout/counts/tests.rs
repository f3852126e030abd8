use std::task::Poll;

use clap::ValueEnum;

use benchloops::timeouts::guard::{Guard, Visitor};
use benchloops::timeouts::guards::visit_guard;
use benchloops::timeouts::variant::{Clock, Variant};

use super::*;

fn combinations() -> impl Iterator<Item = (Variant, Clock)> {
    let clocks = |&variant| Clock::value_variants().iter().map(move |&clock| (variant, clock));
    Variant::value_variants().iter().flat_map(clocks)
}

#[test]
fn missing_guards_have_rejection_reasons() {
    struct NoVisitor;
    impl Visitor for NoVisitor {
        type Output = ();
        fn visit<G: Guard>(self) {}
    }
    for (variant, clock) in combinations() {
        let exists = visit_guard::<TimerTally, _>(variant, clock, NoVisitor).is_some();
        assert_eq!(exists, variant.rejection_reason(clock).is_none(), "{variant:?} {clock:?}");
    }
}

#[test]
fn guards_never_fire_early() {
    struct FireVisitor;
    impl Visitor for FireVisitor {
        type Output = ();
        #[allow(clippy::disallowed_methods, reason = "the oracle is the OS clock")]
        fn visit<G: Guard>(self) {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
            runtime.block_on(async {
                let length = Duration::from_millis(3);
                let mut guard = std::pin::pin!(G::new(length));
                for _ in 0..3 {
                    assert_eq!(guard.as_mut().wait(async { 5 }).await, Some(5));
                    let start = std::time::Instant::now();
                    guard.as_mut().begin();
                    if G::FIRES {
                        assert_eq!(guard.as_mut().wait(std::future::pending::<()>()).await, None);
                        assert!(start.elapsed() >= length);
                    }
                    guard.as_mut().arm();
                    let armed =
                        std::future::poll_fn(|cx| Poll::Ready(guard.as_mut().poll_armed(cx)));
                    let _ = armed.await;
                }
            });
        }
    }
    for (variant, clock) in combinations() {
        visit_guard::<TimerTally, _>(variant, clock, FireVisitor);
    }
    let (created, registered) = TimerTally::counts();
    assert!(created > 0 && registered > 0);
}
