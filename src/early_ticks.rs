//! The warning about early ticks, which the gate and comparisons give.

use files::report::Warning;

pub const CODE: &str = "early-ticks";

/// Returns the warning with a message that names the early subjects.
pub fn warning(message: String) -> Warning {
    let hint = "A tick must not come before its deadline: check how the program computes it.";
    Warning::new(CODE, message, hint)
}
