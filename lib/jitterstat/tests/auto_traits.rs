//! Checks which types can be moved to other threads and shared with them. A wrong statement does not
//! compile.
#![cfg(all(feature = "series", feature = "stats"))]

use jitterstat::gate::calls::{CallComparison, CallPairs};
use jitterstat::gate::in_turn::{InTurn, JudgedInTurn};
use jitterstat::recorder::Recorder;
use jitterstat::sample::RoundSamples;
use jitterstat::series::{Metric, Reader, RoundRequest, Rounds, SeriesError, Writer};
use jitterstat::stats::{Interval, miss_rate::MissRate, random::SplitMix64};

/// Checks that a type does not implement a trait. Otherwise two implementations would apply, and the
/// type of the marker could not be inferred.
macro_rules! assert_not {
    ($trait:ident: $type:ty) => {{
        trait MaybeImplemented<Marker> {
            fn check() {}
        }
        impl<T: ?Sized> MaybeImplemented<()> for T {}
        impl<T: ?Sized + $trait> MaybeImplemented<u8> for T {}
        <$type>::check();
    }};
}

#[test]
fn only_documented_types_stay_on_thread() {
    fn assert_send<T: Send>() {}
    fn assert_send_sync<T: Send + Sync>() {}
    assert_send_sync::<(Writer<Vec<u8>>, Reader, Metric, RoundRequest, SeriesError)>();
    assert_send_sync::<(Recorder, RoundSamples, Interval<i64>, MissRate, SplitMix64)>();
    assert_send_sync::<(CallComparison, InTurn, JudgedInTurn)>();
    assert_send::<Rounds>();
    assert_not!(Sync: Rounds);
    assert_not!(Send: CallPairs<'_>);
    assert_not!(Sync: CallPairs<'_>);
}
