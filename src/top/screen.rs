//! The terminal: taken over, drawn on, and given back however this ends.

use std::io::{self, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use crossterm::style::{Attribute, Print, SetAttribute};
use crossterm::terminal::{self, Clear, ClearType};
use crossterm::{cursor, execute, queue};

use crate::top::figures::Window;

/// Of a terminal that does not report its size.
const DEFAULT_SIZE: (u16, u16) = (80, 24);

/// What a person asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    Quit,
    Sort,
    Window(Window),
}

/// The terminal in our hands; dropped, it is as it was.
#[derive(Debug)]
pub struct Screen(());

impl Screen {
    pub fn open() -> io::Result<Self> {
        terminal::enable_raw_mode()?;
        let screen = Self(());
        // What a panic says must not go down with the screen it is said on.
        let said = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            restore();
            said(panic);
        }));
        execute!(
            io::stdout(),
            terminal::EnterAlternateScreen,
            terminal::DisableLineWrap,
            cursor::Hide
        )?;
        Ok(screen)
    }

    /// Columns and lines.
    pub fn size(&self) -> (usize, usize) {
        let (columns, lines) =
            terminal::size().ok().filter(|&(c, l)| c > 0 && l > 0).unwrap_or(DEFAULT_SIZE);
        (columns.into(), lines.into())
    }

    /// Draws a frame in one write, so that nobody sees half of it. The second line is the table's
    /// heading.
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

    /// Waits so long for a key that means something, or a change of the terminal's size; looks at
    /// the flag now and then.
    pub fn key(
        &self,
        longest: Duration,
        notice: Duration,
        stop: &AtomicBool,
    ) -> io::Result<Option<Key>> {
        let start = tach::Instant::now();
        while start.elapsed() < longest && !stop.load(Ordering::Relaxed) {
            if !event::poll(notice.min(longest.saturating_sub(start.elapsed())))? {
                continue;
            }
            let key = match event::read()? {
                Event::Resize(..) => return Ok(None),
                Event::Key(key) if key.kind == KeyEventKind::Press => {
                    meaning(key.code, key.modifiers)
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
        // The hook stays as it is: at worst it restores once more.
    }
}

fn meaning(code: KeyCode, modifiers: KeyModifiers) -> Option<Key> {
    match code {
        // In raw mode, Ctrl-C is a key.
        KeyCode::Char('c' | 'd') if modifiers.contains(KeyModifiers::CONTROL) => Some(Key::Quit),
        KeyCode::Char('q') | KeyCode::Esc => Some(Key::Quit),
        KeyCode::Char('s') => Some(Key::Sort),
        KeyCode::Char('1') => Some(Key::Window(Window::Second)),
        KeyCode::Char('2') => Some(Key::Window(Window::TenSeconds)),
        KeyCode::Char('3') => Some(Key::Window(Window::Minute)),
        _ => None,
    }
}

/// Where that fails, the terminal is gone.
fn restore() {
    let _ = execute!(
        io::stdout(),
        cursor::Show,
        terminal::EnableLineWrap,
        terminal::LeaveAlternateScreen
    );
    let _ = terminal::disable_raw_mode();
}
