//! What a meter writes where osjitter runs this program to measure or to gate it: `osjitter.series/1`.
//!
//! osjitter sets the variables below. The first meter of the process, or the one that [`ENV_METER`] names, then keeps each
//! tick's lateness and writes the file when it has all of them. A program that counts its ticks ends by itself; one that would
//! tick for ever is ended at the tick after the last that was asked for. Nothing of this is there without the variables.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

/// Has the value `ticks` where a tick a line is wanted, rather than the program's own numbers.
const ENV_SERIES: &str = "OSJITTER_SERIES";
const ENV_TICKS: &str = "OSJITTER_TICKS";
const ENV_WARMUP: &str = "OSJITTER_WARMUP";
const ENV_OUT: &str = "OSJITTER_OUT";
/// The user's: which of several meters it is about.
const ENV_METER: &str = "OSJITTER_METER";
/// More ticks than this are not kept: 128 MiB.
const MOST_TICKS: usize = 1 << 24;
/// What no memory is filled with for nothing: a page that was never touched would cost a tick its first touch.
const UNWRITTEN: i64 = i64::MIN;

static CLAIMED: AtomicBool = AtomicBool::new(false);

/// A series under way.
#[derive(Debug)]
pub(crate) struct Series {
    out: PathBuf,
    /// Ticks that are still to be dropped.
    warmup: u64,
    lateness_ns: Box<[i64]>,
    kept: usize,
    period_ns: u64,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Recording,
    Written,
    Failed,
    /// Somebody else writes the file.
    NotOurs,
}

impl Series {
    /// The one that was asked for, if it is to be of a meter of this name.
    pub(crate) fn claim(meter: &str) -> Option<Box<Self>> {
        let text = |name| std::env::var(name).ok();
        let number = |name| text(name)?.parse::<u64>().ok();
        if text(ENV_SERIES)? != "ticks" || text(ENV_METER).is_some_and(|named| named != meter) {
            return None;
        }
        let out = PathBuf::from(std::env::var_os(ENV_OUT)?);
        let ticks = usize::try_from(number(ENV_TICKS)?).ok().filter(|ticks| (1..=MOST_TICKS).contains(ticks))?;
        let warmup = number(ENV_WARMUP).unwrap_or(0);
        (!CLAIMED.swap(true, Ordering::Relaxed)).then(|| Box::new(Self::new(out, warmup, ticks)))
    }

    fn new(out: PathBuf, warmup: u64, ticks: usize) -> Self {
        let lateness_ns = vec![UNWRITTEN; ticks].into();
        Self { out, warmup, lateness_ns, kept: 0, period_ns: 0, state: State::Recording }
    }

    /// Keeps the ticks of a wake-up, the first of them so late and each further one a period less.
    #[cold]
    pub(crate) fn push(&mut self, lateness_ns: i64, count: u64, period_ns: u64) {
        match self.state {
            State::Recording => self.keep(lateness_ns, count, period_ns),
            #[allow(clippy::exit, reason = "nobody but osjitter started this process, for what is written now")]
            State::Written => std::process::exit(0),
            #[allow(clippy::exit, reason = "as above")]
            State::Failed => std::process::exit(1),
            State::NotOurs => {}
        }
    }

    fn keep(&mut self, lateness_ns: i64, count: u64, period_ns: u64) {
        self.period_ns = period_ns;
        let dropped = self.warmup.min(count);
        self.warmup -= dropped;
        for k in dropped..count {
            let Some(place) = self.lateness_ns.get_mut(self.kept) else { break };
            let before = i64::try_from(k.saturating_mul(period_ns)).unwrap_or(i64::MAX);
            // What came with a tick that was due is not early.
            *place = lateness_ns.saturating_sub(before).max(lateness_ns.min(0));
            self.kept += 1;
        }
        if self.kept == self.lateness_ns.len() {
            self.finish();
        }
    }

    fn finish(&mut self) {
        self.state = match self.write() {
            Ok(()) => State::Written,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => State::NotOurs,
            Err(error) => {
                #[allow(clippy::print_stderr, reason = "osjitter quotes it: why there is nothing to judge")]
                {
                    eprintln!("tickmeter: cannot write {}: {error}", self.out.display());
                }
                State::Failed
            }
        };
    }

    fn write(&self) -> io::Result<()> {
        let mut text = format!("osjitter.series/1 period_ns={}\n", self.period_ns);
        for ns in &self.lateness_ns[..self.kept] {
            let _ = writeln!(text, "{ns}");
        }
        File::create_new(&self.out)?.write_all(text.as_bytes())
    }
}

impl Drop for Series {
    /// A loop that ends before its time has said what it has: osjitter reports how much is missing. One that never ticked
    /// leaves it to the next.
    fn drop(&mut self) {
        if self.state == State::Recording {
            if self.kept == 0 {
                CLAIMED.store(false, Ordering::Relaxed);
            } else {
                self.finish();
            }
        }
    }
}

#[cfg(all(test, not(loom), not(miri)))]
mod tests {
    use super::*;

    fn series(name: &str, warmup: u64, ticks: usize) -> Series {
        let file = format!("tickmeter-series-{}-{name}", std::process::id());
        Series::new(std::env::temp_dir().join(file), warmup, ticks)
    }

    fn written(series: &Series) -> String {
        let text = std::fs::read_to_string(&series.out).unwrap();
        std::fs::remove_file(&series.out).unwrap();
        text
    }

    #[test]
    fn the_ticks_after_the_warmup_one_by_one() {
        let mut all = series("whole", 2, 5);
        all.push(7, 1, 100);
        // Its first tick is still of the warm-up; the last is due after the wake-up.
        all.push(250, 4, 100);
        assert!(!all.out.exists());
        all.push(-3, 1, 100);
        all.push(9, 1_000_000, 100);
        assert_eq!(all.state, State::Written);
        assert_eq!(written(&all), "osjitter.series/1 period_ns=100\n150\n50\n0\n-3\n9\n");
    }

    #[test]
    fn a_loop_that_ends_early_says_what_it_has() {
        let mut part = series("part", 0, 5);
        part.push(7, 1, 100);
        let out = part.out.clone();
        drop(part);
        assert_eq!(std::fs::read_to_string(&out).unwrap(), "osjitter.series/1 period_ns=100\n7\n");
        std::fs::remove_file(out).unwrap();
        let none = series("none", 5, 5);
        let out = none.out.clone();
        drop(none);
        assert!(!out.exists());
    }

    #[test]
    fn a_program_that_writes_the_file_itself_is_left_alone() {
        let mut own = series("own", 0, 1);
        std::fs::write(&own.out, "its own").unwrap();
        own.push(7, 1, 100);
        own.push(7, 1, 100);
        assert_eq!((own.state, written(&own).as_str()), (State::NotOurs, "its own"));
        let mut nowhere = Series::new("/no/such/directory/series".into(), 0, 1);
        nowhere.push(7, 1, 100);
        assert_eq!(nowhere.state, State::Failed);
    }
}
