//! Opens a page in the browser of the user.

use cli::exit::{self, Error};
use cli::terminal;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

/// Environment variable with the browser of the user.
const ENV_BROWSER: &str = "BROWSER";
/// Time within which a program that cannot open the page ends.
const FAILURE_TIMEOUT: Duration = Duration::from_secs(2);
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Starts the browser with the settings that the thread had which created it: a browser inherits
/// the CPU and the scheduling class of the thread that starts it, and may run for days.
pub struct Viewer {
    pages: Sender<PathBuf>,
    thread: JoinHandle<()>,
}

impl Viewer {
    /// Prepares a viewer. Call this before the calling thread changes its settings.
    ///
    /// # Errors
    /// Returns an error if no thread can be started.
    pub fn new() -> exit::Result<Self> {
        let (pages, receiver) = mpsc::channel();
        let open_all = move || receiver.iter().for_each(|page: PathBuf| open(&page));
        let thread = std::thread::Builder::new().name("viewer".to_owned()).spawn(open_all);
        let thread = thread.map_err(|e| Error::measure(format!("cannot start a thread: {e}")))?;
        Ok(Self { pages, thread })
    }

    /// Opens a page. Prints a warning if that is not possible: the page itself exists.
    pub fn open(self, page: &Path) {
        let Self { pages, thread } = self;
        let _ = pages.send(page.to_owned());
        drop(pages);
        let _ = thread.join();
    }
}

fn open(page: &Path) {
    if let Err(error) = start(page).and_then(check_start) {
        terminal::warning(&format!("cannot open {}: {error}", page.display()));
    }
}

/// Starts the browser in [`ENV_BROWSER`], or else the program of the system.
fn start(page: &Path) -> io::Result<Child> {
    let page = page.canonicalize()?;
    let browser = std::env::var(ENV_BROWSER).unwrap_or_default();
    let mut command = match browser.split(':').find(|name| !name.is_empty()) {
        Some(browser) if !cfg!(windows) => Command::new(browser),
        _ => system_viewer(),
    };
    let silent = command.arg(page).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    silent.spawn().map_err(|error| {
        let program = command.get_program().to_string_lossy().into_owned();
        io::Error::new(error.kind(), format!("{program}: {error}; set {ENV_BROWSER}"))
    })
}

fn system_viewer() -> Command {
    if cfg!(windows) {
        Command::new("explorer")
    } else if cfg!(target_os = "macos") {
        Command::new("open")
    } else {
        Command::new("xdg-open")
    }
}

/// Waits until the program has failed, or has run for a while. A browser may run until it is
/// closed.
fn check_start(mut program: Child) -> io::Result<()> {
    for _ in 0..FAILURE_TIMEOUT.as_millis() / POLL_INTERVAL.as_millis() {
        match program.try_wait()? {
            // The explorer of Windows returns 1 after it has opened the page.
            Some(status) if status.success() || cfg!(windows) => return Ok(()),
            Some(status) => return Err(io::Error::other(format!("the browser ended: {status}"))),
            None => {}
        }
        #[allow(clippy::disallowed_methods, reason = "nothing is measured any more")]
        std::thread::sleep(POLL_INTERVAL);
    }
    Ok(())
}
