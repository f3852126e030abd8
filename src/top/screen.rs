//! The terminal in raw mode: draws frames, reads keys, and restores the terminal on any exit.

use std::io::{self, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use crossterm::style::{Attribute, Print, SetAttribute};
use crossterm::terminal::{self, Clear, ClearType};
use crossterm::{cursor, execute, queue};

use crate::top::frame::FrameSize;
use crate::top::loop_stats::Window;

/// Size of a terminal that does not report its own.
const DEFAULT_SIZE: FrameSize = FrameSize { columns: 80, lines: 24 };

/// A command of the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    Quit,
    Sort,
    Window(Window),
}

/// The terminal in raw mode. Restores the previous mode when it is dropped.
#[derive(Debug)]
pub struct Screen(());

impl Screen {
    pub fn open() -> io::Result<Self> {
        terminal::enable_raw_mode()?;
        let screen = Self(());
        // The message of a panic must not vanish with the alternate screen.
        let previous_hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            restore();
            previous_hook(panic);
        }));
        execute!(
            io::stdout(),
            terminal::EnterAlternateScreen,
            terminal::DisableLineWrap,
            cursor::Hide
        )?;
        Ok(screen)
    }

    /// Returns the size of the terminal.
    pub fn size(&self) -> FrameSize {
        match terminal::size() {
            Ok((columns @ 1.., lines @ 1..)) => {
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
        &self,
        timeout: Duration,
        stop_interval: Duration,
        stop: &AtomicBool,
    ) -> io::Result<Option<Key>> {
        let start = tach::Instant::now();
        while start.elapsed() < timeout && !stop.load(Ordering::Relaxed) {
            if !event::poll(stop_interval.min(timeout.saturating_sub(start.elapsed())))? {
                continue;
            }
            let key = match event::read()? {
                Event::Resize(..) => return Ok(None),
                Event::Key(key) if key.kind == KeyEventKind::Press => {
                    key_from_event(key.code, key.modifiers)
                }
                _ => None,
            };
            if key.is_some() {
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

fn key_from_event(code: KeyCode, modifiers: KeyModifiers) -> Option<Key> {
    match code {
        // In raw mode, Ctrl-C arrives as a key.
        KeyCode::Char('c' | 'd') if modifiers.contains(KeyModifiers::CONTROL) => Some(Key::Quit),
        KeyCode::Char('q') | KeyCode::Esc => Some(Key::Quit),
        KeyCode::Char('s') => Some(Key::Sort),
        KeyCode::Char('1') => Some(Key::Window(Window::Second)),
        KeyCode::Char('2') => Some(Key::Window(Window::TenSeconds)),
        KeyCode::Char('3') => Some(Key::Window(Window::Minute)),
        _ => None,
    }
}

/// Restores the terminal. Errors are ignored: they mean that the terminal is gone.
fn restore() {
    let _ = execute!(
        io::stdout(),
        cursor::Show,
        terminal::EnableLineWrap,
        terminal::LeaveAlternateScreen
    );
    let _ = terminal::disable_raw_mode();
}
