//! Checks which types can be moved to other threads and shared with them. A wrong statement does not
//! compile.

use tickmeter::read::{Directory, DirectoryError, File, ReadError};
use tickmeter::{
    Histogram, LateTick, Meter, Metered, Reader, RegisterError, Round, Rounds, Snapshot,
};

#[test]
fn all_types_are_send_and_sync() {
    fn assert_send_sync<T: Send + Sync>() {}
    assert_send_sync::<(Meter, Metered<()>, Reader, Rounds, Round)>();
    assert_send_sync::<(Snapshot, Histogram, LateTick, RegisterError)>();
    assert_send_sync::<(Directory, File, DirectoryError, ReadError)>();
    #[cfg(feature = "stacks")]
    {
        use tickmeter::stacks::{OverdueTick, OverdueWatch, StackEnd, StackFrame, WatchError};

        assert_send_sync::<(OverdueWatch, OverdueTick, StackFrame, StackEnd, WatchError)>();
    }
    #[cfg(feature = "metrics")]
    assert_send_sync::<tickmeter::Exporter>();
}
