//! Whether an interrupt has come, for what waits without a measurement.

use std::sync::atomic::{AtomicBool, Ordering};

static HAS_COME: AtomicBool = AtomicBool::new(false);

/// Records an interrupt. From now on, writes to streams fail whose readers do not read.
pub fn record() {
    HAS_COME.store(true, Ordering::Relaxed);
}

/// Returns the flag that an interrupt sets, for a wait that polls one.
pub fn flag() -> &'static AtomicBool {
    &HAS_COME
}

/// Returns whether an interrupt has come. The flag of a measurement may be set for other reasons.
pub fn has_come() -> bool {
    HAS_COME.load(Ordering::Relaxed)
}
