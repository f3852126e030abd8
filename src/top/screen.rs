//! The terminal in raw mode: draws frames, reads keys, and restores the terminal on any exit.

use std::io::{self, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crossterm::style::{Attribute, Print, SetAttribute};
use crossterm::terminal::{self, Clear, ClearType};
use crossterm::{cursor, execute, queue};
use engine::machine::os;
use terminal_size::{Height, Width};

use crate::terminal::restore_before_abort;
use crate::top::frame::FrameSize;
use crate::top::keys::{Key, KeyReader};

/// Size of a terminal that does not report its own.
const DEFAULT_SIZE: FrameSize = FrameSize { columns: 80, lines: 24 };

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

    /// Returns the size of the terminal.
    pub fn size(&self) -> FrameSize {
        match terminal_size::terminal_size_of(io::stdout()) {
            Some((Width(columns @ 1..), Height(lines @ 1..))) => {
                FrameSize { columns: columns.into(), lines: lines.into() }
            }
            _ => DEFAULT_SIZE,
        }
    }

    /// Draws a frame in one write, so that it never appears in part. The second line is the table's
    /// heading, which is bold.
    pub fn draw(&self, frame: &[String]) -> io::Result<()> {
        let mut bytes = Vec::new();
        queue!(bytes, terminal::BeginSynchronizedUpdate, cursor::MoveTo(0, 0))?;
        for (n, line) in frame.iter().enumerate() {
            let (on, off) = if n == 1 {
                (Attribute::Bold, Attribute::Reset)
            } else {
                (Attribute::Reset, Attribute::Reset)
            };
            let lead = if n > 0 { "\r\n" } else { "" };
            queue!(
                bytes,
                Print(lead),
                SetAttribute(on),
                Print(line),
                SetAttribute(off),
                Clear(ClearType::UntilNewLine)
            )?;
        }
        queue!(bytes, Clear(ClearType::FromCursorDown), terminal::EndSynchronizedUpdate)?;
        let mut stdout = io::stdout().lock();
        stdout.write_all(&bytes)?;
        stdout.flush()
    }

    /// Waits for a key with a meaning. Returns `None` after the timeout, when the terminal's size
    /// changes, or when `stop` is set, which is checked every `stop_interval`.
    pub fn wait_for_key(
        &mut self,
        timeout: Duration,
        stop_interval: Duration,
        stop: &AtomicBool,
    ) -> io::Result<Option<Key>> {
        let (start, size) = (tach::Instant::now(), self.size());
        while start.elapsed() < timeout && !stop.load(Ordering::Relaxed) {
            if os::take_stop_request() {
                return Ok(Some(Key::Suspend));
            }
            let key = self.keys.wait(stop_interval.min(timeout.saturating_sub(start.elapsed())))?;
            if key.is_some() || self.size() != size {
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
    terminal::enable_raw_mode()?;
    execute!(io::stdout(), terminal::EnterAlternateScreen, terminal::DisableLineWrap, cursor::Hide)
}

/// Restores the terminal. Errors are ignored: they mean that the terminal is gone.
fn restore() {
    let _ = terminal::disable_raw_mode();
    let _ = execute!(
        io::stdout(),
        cursor::Show,
        terminal::EnableLineWrap,
        terminal::LeaveAlternateScreen
    );
}
