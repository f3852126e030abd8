//! Target for the file of a meter and its display in `osjitter top`.

use std::cell::RefCell;
use std::time::Duration;

use cli::exit::{self, Error};
use cli::terminal::TerminalSize;
use tickmeter::read::{File, FileId};

use crate::fuzz::round_trip;
use crate::fuzz::step_costs::StepCosts;
use crate::meters::{MeterPoll, ReadMeter};
use crate::top::frame::View;
use crate::top::loop_stats::{Loops, Sort, Window};
use crate::top::{frame, json};
use render::formats::{Format, Rendering};

thread_local! {
    /// The file from which meters are read; it holds one input after the other.
    static FILE: RefCell<tempfile::NamedTempFile> = RefCell::new(tempfile::NamedTempFile::new().expect("a temporary file"));
}

pub fn body(bytes: &[u8], costs: &StepCosts) -> exit::Result<()> {
    let snapshot = FILE.with_borrow(|file| {
        std::fs::write(file.path(), bytes).expect("a temporary file");
        let read = || File::open(file.path()).and_then(|mut file| file.snapshot());
        costs.measure("read", read).map_err(|e| Error::usage(e.to_string()))
    })?;
    for histogram in [&snapshot.lateness, &snapshot.work] {
        let quantiles = [0.0, 0.5, 0.99, 1.0].map(|q| histogram.quantile(q));
        assert!(quantiles.is_sorted(), "{quantiles:?}");
        assert!(histogram.bins().all(|(least, most, _)| least <= most));
    }
    let mut loops = Loops::default();
    let mut earlier = snapshot.clone();
    earlier.ticks /= 2;
    for (second, snapshot) in (0..).zip([earlier, snapshot]) {
        let meter = ReadMeter { id: FileId::new(1, 1), snapshot, is_new: false };
        let poll = MeterPoll { read: vec![meter], unread: Vec::new() };
        costs.measure("take", || loops.record_poll(poll, Duration::from_secs(second)));
    }
    loops.sort(Sort::P99, Window::ALL[0]);
    for (columns, lines) in [(80, 24), (20, 3)] {
        let size = TerminalSize { columns, lines };
        let view =
            |window| View { window, sort: Sort::P99, needs_whole_window: false, has_help: false };
        let table = costs.measure("table", || frame::table(&loops, view(Window::ALL[0]), size));
        let screen =
            costs.measure("screen", || frame::screen(&loops, view(Window::ALL[2]), &[], size));
        assert!(screen.len() <= lines.max(3) && !table.iter().any(|line| line.contains('\n')));
        round_trip::check(Format::Table, &Rendering::Text(table.join("\n")));
    }
    round_trip::parse_json(&costs.measure("json", || json::document(&loops, 0)));
    for line in json::lines(&loops).lines() {
        drop(round_trip::parse_json(line));
    }
    Ok(())
}
