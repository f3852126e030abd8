//! Checks that all types can be moved to other threads and shared with them. A wrong statement does
//! not compile.

use std::future::Ready;

use idletimeout::{Elapsed, Guard, IdleIo, IdleTimeout, TachClock, TokioClock};

#[test]
fn all_types_are_send_and_sync() {
    fn assert_send_sync<T: Send + Sync>() {}
    assert_send_sync::<(IdleTimeout, IdleTimeout<TokioClock>, TachClock, Elapsed)>();
    assert_send_sync::<(Guard<'_, Ready<()>>, IdleIo<tokio::io::DuplexStream>)>();
    #[cfg(feature = "stream")]
    assert_send_sync::<idletimeout::IdleStream<()>>();
}
