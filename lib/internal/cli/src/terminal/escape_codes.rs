//! Escape codes that move the cursor, erase, and set the mode of a terminal (ECMA-48, and xterm's
//! private modes). A terminal ignores a mode that it does not have.

pub const BOLD: &str = "\x1b[1m";
pub const RESET_STYLE: &str = "\x1b[0m";

pub const MOVE_HOME: &str = "\x1b[H";
pub const MOVE_TO_FIRST_COLUMN: &str = "\r";
pub const SHOW_CURSOR: &str = "\x1b[?25h";
pub const HIDE_CURSOR: &str = "\x1b[?25l";

/// Erases from the cursor to the end of its line.
pub const ERASE_LINE_END: &str = "\x1b[K";
/// Erases from the cursor to the end of the screen.
pub const ERASE_BELOW: &str = "\x1b[J";

pub const ENABLE_LINE_WRAP: &str = "\x1b[?7h";
pub const DISABLE_LINE_WRAP: &str = "\x1b[?7l";
pub const ENTER_ALTERNATE_SCREEN: &str = "\x1b[?1049h";
pub const LEAVE_ALTERNATE_SCREEN: &str = "\x1b[?1049l";
/// The terminal shows nothing of an update until its end.
pub const BEGIN_UPDATE: &str = "\x1b[?2026h";
pub const END_UPDATE: &str = "\x1b[?2026l";

/// Returns the code that moves the cursor up.
pub fn move_up(lines: usize) -> String {
    format!("\x1b[{lines}A")
}
