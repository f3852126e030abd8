//! `osjitter top`: the metered loops of this machine, live.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::interrupt::stop_on_interrupt;
use clap::Args;
use cli::exit::{self, Error, ExitStatus, usage};
use cli::file_io;
use cli::terminal::{TerminalSize, columns, has_cursor, note, stdout_size};
use cli::words::pluralize;
use cli::wrap::wrap;

use crate::meters::MeterReader;
use render::formats::{Format, parser};

pub mod frame;
pub mod json;
mod keys;
mod late_functions;
pub mod loop_stats;
mod raw_mode;
mod screen;

use frame::View;
use keys::Key;
use late_functions::LateFunctions;
use loop_stats::{Loops, Sort, Window};
use screen::Screen;

/// Maximum number of meters to read.
const MAX_METERS: usize = 4_096;
/// Time between two polls of the meters.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum number of further polls with `--once` if the window contains a pause of this program.
const MAX_FURTHER_POLLS: usize = 10;
/// Maximum time until an interrupt takes effect.
const INTERRUPT_POLL_INTERVAL: Duration = Duration::from_millis(50);

const KEYS: &str = "\
Keys: 1, 2, 3 show the last 1, 10, 60 s; s sorts by the next column; ? shows this help; q quits.

MISSED: ticks that were not delivered before the next one was due. SLOW: missed ticks that the loop's own work delayed. \
WORK: the 99th percentile of that work. The last column is the p99 of each second.

The lines below the table name the function that ran during the last late tick of a loop, from samples of the program's stacks \
(Linux; kernel.perf_event_paranoid <= 2). At most 64 threads of all programs are sampled.

Only programs that use the tickmeter library are shown.";

#[derive(Debug, Args)]
#[command(after_help = KEYS)]
pub struct TopArgs {
    /// Print once and exit, after one --window
    #[arg(long)]
    once: bool,
    /// Output format
    #[arg(long, value_parser = parser([Format::Table, Format::Json, Format::Jsonl]), default_value = "table", requires = "once")]
    format: Format,
    /// Time span of the statistics
    #[arg(long, value_enum, default_value = "10s")]
    window: Window,
    /// Column to sort by
    #[arg(long, value_enum, default_value = "p99")]
    sort: Sort,
    /// Include the programs of all users (requires root)
    #[arg(long)]
    all: bool,
}

const NO_LOOPS: &str = "no metered loop is running as this user. A program has one once it registers a meter of the library \
tickmeter: https://github.com/osjitter/osjitter/blob/main/docs/src/watching.md";

/// Shows the metered loops once, or live until the user quits.
pub fn run(args: &TopArgs) -> exit::Result<ExitStatus> {
    let meters = MeterReader::new(args.all, MAX_METERS)?;
    let late_functions = LateFunctions::open();
    let started = tach::Instant::now();
    let mut poller = Poller { started, meters, loops: Loops::default(), late_functions };
    poller.poll();
    let (window, sort) = (args.window, args.sort);
    let view = View { window, sort, needs_whole_window: args.once, has_help: false };
    if args.once {
        return print_once(args, poller, view);
    }
    if !std::io::stdout().is_terminal() || !has_cursor() {
        return Err(usage!(
            "stdout is not a terminal that can move its cursor; use --once, or --once --format json"
        ));
    }
    show_live(poller, view)
}

/// The meters, and the statistics of their loops.
struct Poller {
    started: tach::Instant,
    meters: MeterReader,
    loops: Loops,
    /// `None` if stacks cannot be sampled.
    late_functions: Option<LateFunctions>,
}

impl Poller {
    fn poll(&mut self) {
        let poll = self.meters.poll(&[]);
        let polled_at = self.started.elapsed();
        let found = self.late_functions.as_mut().map(|functions| functions.record_poll(&poll.read));
        self.loops.record_poll(poll, polled_at);
        self.loops.set_late_functions(found.unwrap_or_default());
    }
}

/// Describes the meters that are not shown, starting with those beyond the maximum, of which no
/// file is named.
fn describe_gaps(faults: &[String], beyond_maximum: usize) -> Vec<String> {
    let mut gaps = Vec::new();
    if beyond_maximum > 0 {
        let meters = pluralize(beyond_maximum, "more meter");
        gaps.push(format!("{meters} left out: the maximum is {MAX_METERS}"));
    }
    gaps.extend_from_slice(faults);
    gaps
}

#[allow(clippy::disallowed_methods, reason = "it waits between two polls; nothing is measured")]
fn print_once(args: &TopArgs, mut poller: Poller, view: View) -> exit::Result<ExitStatus> {
    if !poller.loops.is_empty() {
        // The window must pass before its statistics are complete.
        let polls = view.window.polls();
        for n in 1..=polls + MAX_FURTHER_POLLS {
            std::thread::sleep(POLL_INTERVAL);
            poller.poll();
            if n >= polls && poller.loops.has_window(view.window) {
                break;
            }
        }
    }
    // All loops may have ended in the meantime.
    let is_empty = poller.loops.is_empty();
    let is_unknown = is_empty && poller.meters.unread_directories() > 0;
    if is_empty && !is_unknown {
        note(false, NO_LOOPS);
    }
    for gap in describe_gaps(poller.meters.faults(), poller.meters.beyond_maximum()) {
        note(false, &gap);
    }
    let left_out = poller.meters.left_out();
    let loops = &mut poller.loops;
    loops.sort(view.sort, view.window);
    let text = match args.format {
        Format::Json => json::document(loops, left_out),
        Format::Jsonl => json::lines(loops),
        _ if is_empty => String::new(),
        _ => {
            let size = TerminalSize { columns: columns(), lines: usize::MAX };
            let mut text = frame::table(loops, view, size).join("\n") + "\n";
            text.extend(frame::function_lines(loops).iter().map(|line| wrap(line, size.columns)));
            text
        }
    };
    file_io::write_output(text, None)?;
    Ok(if is_unknown { ExitStatus::NotMeasured } else { ExitStatus::Done })
}

fn show_live(mut poller: Poller, mut view: View) -> exit::Result<ExitStatus> {
    let stop = Arc::new(AtomicBool::new(false));
    stop_on_interrupt(&stop)?;
    let mut screen = Screen::open().map_err(Error::from_stdout)?;
    let mut last_poll = tach::Instant::now();
    while !stop.load(Ordering::Relaxed) {
        if last_poll.elapsed() >= POLL_INTERVAL {
            // Counted from poll to poll, so statistics of one second cover at least that long.
            last_poll = tach::Instant::now();
            poller.poll();
        }
        poller.loops.sort(view.sort, view.window);
        let gaps = describe_gaps(poller.meters.faults(), poller.meters.beyond_maximum());
        let frame = frame::screen(&poller.loops, view, &gaps, stdout_size());
        let timeout = POLL_INTERVAL.saturating_sub(last_poll.elapsed());
        let drawn = screen.draw(&frame);
        let key = drawn.and_then(|()| screen.wait_for_key(timeout, INTERRUPT_POLL_INTERVAL, &stop));
        match key {
            Ok(Some(Key::Quit)) => break,
            Ok(Some(Key::Abort)) => return Ok(ExitStatus::NotMeasured),
            Ok(Some(Key::Suspend)) => screen.suspend().map_err(Error::from_stdout)?,
            Ok(Some(Key::Window(window))) => view.window = window,
            Ok(Some(Key::Help)) => view.has_help = !view.has_help,
            Ok(Some(Key::Sort)) => view.sort = view.sort.next(),
            Ok(None) => {}
            // The user has closed the terminal.
            Err(_) if screen.has_ended() => break,
            Err(error) => return Err(Error::from_stdout(error)),
        }
    }
    Ok(ExitStatus::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meters_beyond_maximum_are_counted() {
        let faults = ["1.tickmeter is damaged".to_owned()];
        assert_eq!(describe_gaps(&faults, 0), faults);
        let gaps = describe_gaps(&faults, 205);
        assert_eq!(
            gaps,
            ["205 more meters left out: the maximum is 4096", "1.tickmeter is damaged"]
        );
    }
}
