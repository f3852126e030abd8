//! Raw mode: the terminal passes on each key at once, does not show it, and leaves the meaning of
//! Ctrl-C to the process.

#[cfg(not(unix))]
pub use crossterm::terminal::{disable_raw_mode as disable, enable_raw_mode as enable};
#[cfg(unix)]
pub use unix::{disable, enable};

#[cfg(unix)]
mod unix {
    use std::fs::File;
    use std::io;
    use std::sync::Mutex;

    use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};

    use crate::top::keys::open_terminal;

    /// The terminal in raw mode, with its previous settings.
    static PREVIOUS: Mutex<Option<(File, Termios)>> = Mutex::new(None);

    /// Puts the terminal of the keys into raw mode.
    ///
    /// # Errors
    /// Returns an error if there is no terminal.
    pub fn enable() -> io::Result<()> {
        let mut previous = PREVIOUS.lock().unwrap_or_else(|e| e.into_inner());
        if previous.is_none() {
            let terminal = open_terminal()?;
            let settings = tcgetattr(&terminal)?;
            let mut raw = settings.clone();
            raw.make_raw();
            tcsetattr(&terminal, OptionalActions::Now, &raw)?;
            *previous = Some((terminal, settings));
        }
        Ok(())
    }

    /// Restores the settings of the terminal, if it is in raw mode.
    ///
    /// # Errors
    /// Returns an error if the terminal is gone.
    pub fn disable() -> io::Result<()> {
        let previous = PREVIOUS.lock().unwrap_or_else(|e| e.into_inner()).take();
        if let Some((terminal, settings)) = previous {
            tcsetattr(terminal, OptionalActions::Now, &settings)?;
        }
        Ok(())
    }
}
