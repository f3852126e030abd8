//! The terminal in raw mode: draws frames, reads keys, and restores the terminal on any exit.

use std::io::{self, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cli::terminal::escape_codes::{
    BEGIN_UPDATE, BOLD, DISABLE_LINE_WRAP, ENABLE_LINE_WRAP, END_UPDATE, ENTER_ALTERNATE_SCREEN,
    ERASE_BELOW, ERASE_LINE_END, HIDE_CURSOR, LEAVE_ALTERNATE_SCREEN, MOVE_HOME, RESET_STYLE,
    SHOW_CURSOR,
};
use cli::terminal::{enable_escape_codes, restore_before_abort, stdout_size};
use engine::machine::os;

use crate::top::keys::{Key, KeyReader};
use crate::top::raw_mode;

/// The terminal in raw mode. Restores the previous mode when it is dropped.
#[derive(Debug)]
pub struct Screen {
    keys: KeyReader,
}

impl Screen {
    pub fn open() -> io::Result<Self> {
        let keys = KeyReader::open()?;
        os::delay_stop();
        // The message of a panic must not vanish with the alternate screen.
        let previous_hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            restore();
            previous_hook(panic);
        }));
        restore_before_abort(restore);
        // Its drop restores the terminal if it is taken only in part.
        let screen = Self { keys };
        take()?;
        Ok(screen)
    }

    /// Restores the terminal and stops the process. Takes the terminal again when the process is
    /// continued.
    pub fn suspend(&self) -> io::Result<()> {
        restore();
        os::stop();
        take()
    }

    /// Whether the terminal is gone.
    pub fn has_ended(&self) -> bool {
        self.keys.has_ended()
    }

    /// Draws a frame in one write, so that it never appears in part. The second line is the table's
    /// heading, which is bold.
    pub fn draw(&self, frame: &[String]) -> io::Result<()> {
        let mut text = format!("{BEGIN_UPDATE}{MOVE_HOME}");
        for (n, line) in frame.iter().enumerate() {
            let lead = if n > 0 { "\r\n" } else { "" };
            let style = if n == 1 { BOLD } else { RESET_STYLE };
            text += &format!("{lead}{style}{line}{RESET_STYLE}{ERASE_LINE_END}");
        }
        print(&format!("{text}{ERASE_BELOW}{END_UPDATE}"))
    }

    /// Waits for a key with a meaning. Returns `None` after the timeout, when the terminal's size
    /// changes, or when `stop` is set, which is checked every `stop_interval`.
    pub fn wait_for_key(
        &mut self,
        timeout: Duration,
        stop_interval: Duration,
        stop: &AtomicBool,
    ) -> io::Result<Option<Key>> {
        let (start, size) = (tach::Instant::now(), stdout_size());
        while start.elapsed() < timeout && !stop.load(Ordering::Relaxed) {
            if os::take_stop_request() {
                return Ok(Some(Key::Suspend));
            }
            let key = self.keys.wait(stop_interval.min(timeout.saturating_sub(start.elapsed())))?;
            if key.is_some() || stdout_size() != size {
                return Ok(key);
            }
        }
        Ok(None)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
        // The panic hook stays installed: at worst it restores the terminal once more.
    }
}

/// Puts the terminal into raw mode, and shows an empty screen.
fn take() -> io::Result<()> {
    if !enable_escape_codes() {
        return Err(io::ErrorKind::Unsupported.into());
    }
    raw_mode::enable()?;
    print(&format!("{ENTER_ALTERNATE_SCREEN}{DISABLE_LINE_WRAP}{HIDE_CURSOR}"))
}

/// Restores the terminal. Errors are ignored: they mean that the terminal is gone.
fn restore() {
    let _ = raw_mode::disable();
    let _ = print(&format!("{SHOW_CURSOR}{ENABLE_LINE_WRAP}{LEAVE_ALTERNATE_SCREEN}"));
}

/// Writes to standard output at once.
fn print(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}
