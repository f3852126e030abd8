//! `osjitter top`: the metered loops of this machine, live.

use std::io::{IsTerminal, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Args;
use cli::exit::{self, Error, ExitStatus, usage};

use crate::interrupt::stop_on_interrupt;
use crate::meters::Watch;
use crate::render::formats::{Format, parser};
use crate::terminal::{columns, note};

pub mod figures;
pub mod frame;
pub mod json;
mod screen;

use figures::{Loops, Sort, Window};
use screen::{Key, Screen};

/// More meters than this are not looked at.
const MAX_METERS: usize = 4_096;
/// How often the meters are read.
const REFRESH: Duration = Duration::from_secs(1);
/// How long an interrupt may go unnoticed.
const NOTICE: Duration = Duration::from_millis(50);

const KEYS: &str = "\
Keys: 1, 2, 3 the last 1, 10, 60 s; s sort by the next column; q quit.

MISSED: ticks that had not come when the next was due. SLOW: those of them that the loop's own work delayed. WORK: the 99th \
percentile of that work. The last column is the p99 of each second.

A program has meters where it uses the library tickmeter.";

#[derive(Debug, Args)]
#[command(after_help = KEYS)]
pub struct TopArgs {
    /// Print once and exit, after one --window
    #[arg(long)]
    once: bool,
    /// What to print to stdout
    #[arg(long, value_parser = parser([Format::Table, Format::Json, Format::Jsonl]), default_value = "table", requires = "once")]
    format: Format,
    /// How far back the figures reach
    #[arg(long, value_enum, default_value = "10s")]
    window: Window,
    /// Which loop to show first
    #[arg(long, value_enum, default_value = "p99")]
    sort: Sort,
    /// Show the loops of all users; needs root
    #[arg(long)]
    all: bool,
}

const NONE: &str = "no metered loop is running as this user. A program has one as soon as it registers a meter of the \
library tickmeter: https://github.com/osjitter/osjitter/blob/main/docs/src/watching.md";

pub fn run(args: &TopArgs) -> exit::Result<ExitStatus> {
    let mut watch = Watch::new(args.all, MAX_METERS)?;
    let mut loops = Loops::default();
    loops.take(watch.look(|_| true));
    if args.once {
        return once(args, watch, loops);
    }
    if !std::io::stdout().is_terminal() {
        return Err(usage!(
            "top draws on a terminal, and stdout is none; add --once, or --once --format json"
        ));
    }
    live(args, watch, loops)
}

#[allow(
    clippy::disallowed_methods,
    reason = "nothing is measured here: it waits between two looks"
)]
fn once(args: &TopArgs, mut watch: Watch, mut loops: Loops) -> exit::Result<ExitStatus> {
    if loops.is_empty() {
        note(false, NONE);
    } else {
        // A figure of so many seconds takes so many seconds.
        for _ in 0..args.window.looks() {
            std::thread::sleep(REFRESH);
            loops.take(watch.look(|_| true));
        }
    }
    for fault in watch.faults() {
        note(false, fault);
    }
    loops.sort(args.sort, args.window);
    let text = match args.format {
        Format::Json => json::document(&loops),
        Format::Jsonl => json::lines(&loops),
        _ if loops.is_empty() => String::new(),
        _ => frame::table(&loops, args.window, args.sort, columns(), usize::MAX).join("\n") + "\n",
    };
    std::io::stdout().write_all(text.as_bytes()).map_err(Error::from_stdout)?;
    Ok(ExitStatus::Done)
}

fn live(args: &TopArgs, mut watch: Watch, mut loops: Loops) -> exit::Result<ExitStatus> {
    let stop = Arc::new(AtomicBool::new(false));
    stop_on_interrupt(&stop)?;
    let (mut window, mut sort) = (args.window, args.sort);
    let screen = Screen::open().map_err(Error::from_stdout)?;
    let mut looked = tach::Instant::now();
    while !stop.load(Ordering::Relaxed) {
        if looked.elapsed() >= REFRESH {
            // Measured from look to look: a figure that says one second is of one second, or a
            // little more.
            looked = tach::Instant::now();
            loops.take(watch.look(|_| true));
        }
        loops.sort(sort, window);
        let (columns, lines) = screen.size();
        let frame = frame::screen(&loops, window, sort, watch.faults(), [columns, lines]);
        screen.draw(&frame).map_err(Error::from_stdout)?;
        let next = REFRESH.saturating_sub(looked.elapsed());
        match screen.key(next, NOTICE, &stop).map_err(Error::from_stdout)? {
            Some(Key::Quit) => break,
            Some(Key::Window(chosen)) => window = chosen,
            Some(Key::Sort) => sort = sort.next(),
            None => {}
        }
    }
    Ok(ExitStatus::Done)
}
