//! An assertion about the location of a panic.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, Location, PanicHookInfo, catch_unwind};
use std::sync::Once;

/// The location of a panic.
type FileLine = (String, u32);

thread_local!(static LAST_PANIC: RefCell<Option<FileLine>> = const { RefCell::new(None) });

/// Fails unless `make` panics and the panic names the line of the call of this function. `make` has
/// to be written on that line.
#[track_caller]
pub(crate) fn assert_panic_names_this_line<T>(make: impl FnOnce() -> T) {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let previous = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            record_location(info);
            previous(info);
        }));
    });
    let caller = Location::caller();
    assert!(catch_unwind(AssertUnwindSafe(make)).is_err(), "no panic at {caller}");
    let expected = (caller.file().to_owned(), caller.line());
    assert_eq!(LAST_PANIC.take(), Some(expected), "panic does not name {caller}");
}

fn record_location(info: &PanicHookInfo<'_>) {
    let location = info.location().map(|place| (place.file().to_owned(), place.line()));
    let _ = LAST_PANIC.try_with(|last| last.replace(location));
}
