//! What a guard asks of the runtime's timers. Nobody counts where time is measured.

pub const IS_COUNTED: bool = false;

pub fn made() {}

pub fn registered() {}
