//! Keys that the user presses.

use crate::top::loop_stats::Window;

/// A command of the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// Also the end of the terminal.
    Quit,
    /// End at once, with the exit code of an interrupted command.
    Abort,
    /// Stop the process until the shell continues it.
    #[cfg_attr(not(unix), allow(dead_code, reason = "other systems cannot stop a process"))]
    Suspend,
    Sort,
    Window(Window),
    /// Show or hide what the keys and columns mean.
    Help,
}

impl Key {
    fn from_char(key: char) -> Option<Self> {
        match key {
            'q' => Some(Self::Quit),
            's' => Some(Self::Sort),
            '?' | 'h' => Some(Self::Help),
            '1' => Some(Self::Window(Window::Second)),
            '2' => Some(Self::Window(Window::TenSeconds)),
            '3' => Some(Self::Window(Window::Minute)),
            _ => None,
        }
    }
}

#[cfg(not(unix))]
pub use events::KeyReader;
#[cfg(unix)]
pub use terminal::{KeyReader, open_terminal};

/// Reads keys from the bytes of the terminal.
#[cfg(unix)]
mod terminal {
    use std::collections::VecDeque;
    use std::fs::File;
    use std::io::{self, ErrorKind, IsTerminal as _, Read as _};
    use std::os::fd::AsFd as _;
    use std::time::Duration;

    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::io::Errno;

    use super::Key;

    /// Keys without a character.
    const CTRL_C: u8 = 0x03;
    const CTRL_D: u8 = 0x04;
    const CTRL_Z: u8 = 0x1a;
    const CTRL_BACKSLASH: u8 = 0x1c;
    const ESCAPE: u8 = 0x1b;

    /// Opens standard input if it is a terminal, otherwise the terminal of the process.
    pub fn open_terminal() -> io::Result<File> {
        let stdin = io::stdin();
        if stdin.is_terminal() {
            Ok(File::from(stdin.as_fd().try_clone_to_owned()?))
        } else {
            File::open("/dev/tty")
        }
    }

    /// Reads keys from the terminal in raw mode.
    #[derive(Debug)]
    pub struct KeyReader {
        terminal: File,
        decoder: KeyDecoder,
        pending: VecDeque<Key>,
    }

    impl KeyReader {
        pub fn open() -> io::Result<Self> {
            let terminal = open_terminal()?;
            Ok(Self { terminal, decoder: KeyDecoder::default(), pending: VecDeque::new() })
        }

        /// Waits for a key. Returns `None` after the timeout, and for a key without a meaning.
        pub fn wait(&mut self, timeout: Duration) -> io::Result<Option<Key>> {
            if self.pending.is_empty() {
                let events = self.poll(timeout)?;
                if events.contains(PollFlags::NVAL) {
                    // macOS cannot wait for /dev/tty.
                    return Err(ErrorKind::Unsupported.into());
                }
                if !events.is_empty() {
                    self.read();
                }
            }
            Ok(self.pending.pop_front())
        }

        /// Whether the terminal is gone.
        pub fn has_ended(&self) -> bool {
            let gone = PollFlags::HUP | PollFlags::ERR;
            self.poll(Duration::ZERO).is_ok_and(|events| events.intersects(gone))
        }

        /// Waits until there is something to read, or the terminal is gone.
        fn poll(&self, timeout: Duration) -> io::Result<PollFlags> {
            let mut polled = [PollFd::new(&self.terminal, PollFlags::IN)];
            let timeout = Timespec::try_from(timeout).map_err(io::Error::other)?;
            match poll(&mut polled, Some(&timeout)) {
                Ok(_) => Ok(polled[0].revents()),
                Err(Errno::INTR) => Ok(PollFlags::empty()),
                Err(error) => Err(error.into()),
            }
        }

        /// Reads what there is. The end of the input quits.
        fn read(&mut self) {
            let mut bytes = [0; 256];
            match self.terminal.read(&mut bytes) {
                Ok(n @ 1..) => self.pending.extend(self.decoder.decode(&bytes[..n])),
                Err(e) if matches!(e.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => {}
                // A terminal that is gone is at its end, or returns an error.
                Ok(0) | Err(_) => self.pending.push_back(Key::Quit),
            }
        }
    }

    /// Decodes keys from bytes, and drops the sequences of keys that have none of these meanings.
    #[derive(Debug, Default)]
    struct KeyDecoder {
        /// Whether the last bytes were the start of a sequence.
        is_in_sequence: bool,
    }

    impl KeyDecoder {
        fn decode(&mut self, bytes: &[u8]) -> Vec<Key> {
            let mut keys = Vec::new();
            let mut rest = bytes.iter().copied().peekable();
            while let Some(byte) = rest.next() {
                match byte {
                    // A sequence ends with a letter or a tilde.
                    _ if self.is_in_sequence => {
                        self.is_in_sequence = !(0x40..=0x7e).contains(&byte);
                    }
                    ESCAPE => match rest.next() {
                        Some(b'[') => self.is_in_sequence = true,
                        // Function keys, and keys together with Alt.
                        Some(b'O') => drop(rest.next()),
                        Some(_) => {}
                        None => keys.push(Key::Quit),
                    },
                    // In raw mode, these keys arrive as bytes.
                    CTRL_C | CTRL_D => keys.push(Key::Quit),
                    CTRL_Z => keys.push(Key::Suspend),
                    CTRL_BACKSLASH => keys.push(Key::Abort),
                    _ => keys.extend(Key::from_char(byte.into())),
                }
            }
            keys
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;
        use crate::top::loop_stats::Window;

        #[test]
        fn keys_are_decoded() {
            let decode = |parts: &[&[u8]]| -> Vec<Key> {
                let mut decoder = KeyDecoder::default();
                parts.iter().flat_map(|part| decoder.decode(part)).collect()
            };
            let window = Key::Window(Window::Second);
            assert_eq!(decode(&[b"s1xq"]), [Key::Sort, window, Key::Quit]);
            assert_eq!(decode(&[b"\x03", b"\x04", b"\x1b"]), [Key::Quit; 3]);
            assert_eq!(decode(&[b"\x1a", b"\x1c"]), [Key::Suspend, Key::Abort]);
            assert_eq!(decode(&[b"?h"]), [Key::Help; 2]);
            assert_eq!(decode(&[b"\x1b[A", b"\x1b[15~", b"\x1bOQ", b"\x1bs"]), []);
            assert_eq!(decode(&[b"\x1b[1", b";5", b"As"]), [Key::Sort], "a divided sequence");
            assert_eq!(decode(&["é\u{1b}[1;2qs".as_bytes()]), [Key::Sort]);
        }
    }
}

/// Reads keys from the events of the console.
#[cfg(not(unix))]
mod events {
    use std::io;
    use std::time::Duration;

    use crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

    use super::Key;

    #[derive(Debug)]
    pub struct KeyReader(());

    impl KeyReader {
        pub fn open() -> io::Result<Self> {
            Ok(Self(()))
        }

        /// Waits for a key. Returns `None` after the timeout, and for an event without a meaning.
        pub fn wait(&mut self, timeout: Duration) -> io::Result<Option<Key>> {
            if !event::poll(timeout)? {
                return Ok(None);
            }
            match event::read()? {
                Event::Key(key) if key.kind == KeyEventKind::Press => Ok(decode(key)),
                _ => Ok(None),
            }
        }

        /// Whether the terminal is gone. A console ends its processes.
        pub fn has_ended(&self) -> bool {
            false
        }
    }

    fn decode(key: KeyEvent) -> Option<Key> {
        match key.code {
            KeyCode::Char('c' | 'd') if key.modifiers.contains(KeyModifiers::CONTROL) => {
                Some(Key::Quit)
            }
            KeyCode::Char('\\') if key.modifiers.contains(KeyModifiers::CONTROL) => {
                Some(Key::Abort)
            }
            KeyCode::Esc => Some(Key::Quit),
            KeyCode::Char(key) => Key::from_char(key),
            _ => None,
        }
    }
}
