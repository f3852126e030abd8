//! Whom a panic blames.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::sync::Once;

/// Fails unless `make` panics and the panic names the line of the call of this, on which `make` has
/// to be written.
#[track_caller]
pub(crate) fn blames_this_line<T>(make: impl FnOnce() -> T) {
    type Place = (String, u32);
    thread_local!(static PLACE: RefCell<Option<Place>> = const { RefCell::new(None) });
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let place = info.location().map(|place| (place.file().to_owned(), place.line()));
            let _ = PLACE.try_with(|known| known.replace(place));
            before(info);
        }));
    });
    let here = Location::caller();
    assert!(catch_unwind(AssertUnwindSafe(make)).is_err(), "no panic at {here}");
    assert_eq!(PLACE.take(), Some((here.file().to_owned(), here.line())), "not blamed: {here}");
}
