//! A meter's file, and what `osjitter top` shows of it.

use std::cell::RefCell;
use std::path::PathBuf;

use cli::exit::{self, Error};
use tickmeter::read::File;

use crate::fuzz::again;
use crate::fuzz::stage::Stages;
use crate::render::formats::{Format, Made};
use crate::top::figures::{Loops, Sort, Window};
use crate::top::{frame, json};

thread_local! {
    /// A meter is read from a file; this one holds one input after the other.
    static FILE: RefCell<tempfile::NamedTempFile> = RefCell::new(tempfile::NamedTempFile::new().expect("a temporary file"));
}

pub fn body(bytes: &[u8], stages: &Stages) -> exit::Result<()> {
    let snapshot = FILE.with_borrow(|file| {
        std::fs::write(file.path(), bytes).expect("a temporary file");
        let read = || File::open(file.path()).and_then(|mut file| file.snapshot());
        stages.of("read", read).map_err(|e| Error::usage(e.to_string()))
    })?;
    for histogram in [&snapshot.lateness, &snapshot.work] {
        let quantiles = [0.0, 0.5, 0.99, 1.0].map(|q| histogram.quantile(q));
        assert!(quantiles.is_sorted(), "{quantiles:?}");
        assert!(histogram.bins().all(|(least, most, _)| least <= most));
    }
    let mut loops = Loops::default();
    let mut earlier = snapshot.clone();
    earlier.ticks /= 2;
    for look in [earlier, snapshot] {
        stages.of("take", || loops.take(vec![(PathBuf::from("a.meter"), look)]));
    }
    loops.sort(Sort::P99, Window::ALL[0]);
    for (columns, lines) in [(80, 24), (20, 3)] {
        let table =
            stages.of("table", || frame::table(&loops, Window::ALL[0], Sort::P99, columns, lines));
        let screen = stages.of("screen", || {
            frame::screen(&loops, Window::ALL[2], Sort::P99, &[], [columns, lines])
        });
        assert!(screen.len() <= lines.max(3) && !table.iter().any(|line| line.contains('\n')));
        again::check(Format::Table, &Made::Text(table.join("\n")));
    }
    again::json(&stages.of("json", || json::document(&loops)));
    json::lines(&loops).lines().for_each(|line| drop(again::json(line)));
    Ok(())
}
