//! What a meter writes where osjitter runs this program to measure or to gate it:
//! `osjitter.series/1`.
//!
//! osjitter sets the variables below. The first meter of the process, or the one that [`ENV_METER`]
//! names, then keeps each tick's lateness and writes the file when it has all of them. A program
//! that counts its ticks ends by itself; one that would tick for ever is ended at the tick after
//! the last that was asked for. Nothing of this is there without the variables.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

#[cfg(all(target_os = "linux", not(loom)))]
use crate::mapping::monotonic;

/// Has the value `ticks` where a tick a line is wanted, rather than the program's own numbers.
const ENV_SERIES: &str = "OSJITTER_SERIES";
const ENV_TICKS: &str = "OSJITTER_TICKS";
const ENV_WARMUP: &str = "OSJITTER_WARMUP";
const ENV_OUT: &str = "OSJITTER_OUT";
/// Has the value `monotonic` where the time of each wake-up is wanted, too.
const ENV_TIMES: &str = "OSJITTER_TIMES";
/// The user's: which of several meters it is about.
const ENV_METER: &str = "OSJITTER_METER";
/// More ticks than this are not kept: 128 MiB.
const MOST_TICKS: usize = 1 << 24;
/// What no memory is filled with for nothing: a page that was never touched would cost a tick its
/// first touch.
const UNWRITTEN: i64 = i64::MIN;

static CLAIMED: AtomicBool = AtomicBool::new(false);

/// A series under way.
#[derive(Debug)]
pub(crate) struct Series {
    out: PathBuf,
    /// Ticks that are still to be dropped.
    warmup: u64,
    lateness_ns: Box<[i64]>,
    /// When each of them came, after the origin; empty where nobody wants to know.
    wake_ns: Box<[i64]>,
    /// How long the thread of each had waited for a CPU; empty where that is not wanted, or cannot
    /// be had.
    waited_ns: Box<[u64]>,
    account: Account,
    origin: Instant,
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
    /// The one that was asked for, if it is to be of a meter of this name, whose clock has this
    /// origin.
    pub(crate) fn claim(meter: &str, origin: Instant) -> Option<Box<Self>> {
        let text = |name| std::env::var(name).ok();
        let number = |name| text(name)?.parse::<u64>().ok();
        if text(ENV_SERIES)? != "ticks" || text(ENV_METER).is_some_and(|named| named != meter) {
            return None;
        }
        let out = PathBuf::from(std::env::var_os(ENV_OUT)?);
        let ticks = usize::try_from(number(ENV_TICKS)?)
            .ok()
            .filter(|ticks| (1..=MOST_TICKS).contains(ticks))?;
        let warmup = number(ENV_WARMUP).unwrap_or(0);
        let times = text(ENV_TIMES).is_some_and(|clock| clock == "monotonic");
        (!CLAIMED.swap(true, Ordering::Relaxed))
            .then(|| Box::new(Self::new(out, warmup, ticks, times, origin)))
    }

    fn new(out: PathBuf, warmup: u64, ticks: usize, times: bool, origin: Instant) -> Self {
        let lateness_ns = vec![UNWRITTEN; ticks].into();
        let wake_ns = vec![UNWRITTEN; if times { ticks } else { 0 }].into();
        let mut account = Account::default();
        let has_account = times && account.waited_ns().is_some();
        let waited_ns = vec![u64::MAX; if has_account { ticks } else { 0 }].into();
        Self {
            out,
            warmup,
            lateness_ns,
            wake_ns,
            waited_ns,
            account,
            origin,
            kept: 0,
            period_ns: 0,
            state: State::Recording,
        }
    }

    /// Keeps the ticks of a wake-up, the first of them so late and each further one a period less;
    /// it came so long after the origin.
    #[cold]
    pub(crate) fn push(&mut self, lateness_ns: i64, count: u64, period_ns: u64, wake_ns: i64) {
        match self.state {
            State::Recording => self.keep(lateness_ns, count, period_ns, wake_ns),
            #[allow(
                clippy::exit,
                reason = "nobody but osjitter started this process, for what is written now"
            )]
            State::Written => std::process::exit(0),
            #[allow(clippy::exit, reason = "as above")]
            State::Failed => std::process::exit(1),
            State::NotOurs => {}
        }
    }

    fn keep(&mut self, lateness_ns: i64, count: u64, period_ns: u64, wake_ns: i64) {
        self.period_ns = period_ns;
        // Where it cannot be had any more, nothing was added.
        let waited_ns = if self.waited_ns.is_empty() { None } else { self.account.waited_ns() };
        let dropped = self.warmup.min(count);
        self.warmup -= dropped;
        for k in dropped..count {
            let Some(place) = self.lateness_ns.get_mut(self.kept) else { break };
            let before = i64::try_from(k.saturating_mul(period_ns)).unwrap_or(i64::MAX);
            // What came with a tick that was due is not early.
            *place = lateness_ns.saturating_sub(before).max(lateness_ns.min(0));
            if let Some(place) = self.wake_ns.get_mut(self.kept) {
                *place = wake_ns;
            }
            let before =
                self.kept.checked_sub(1).and_then(|before| self.waited_ns.get(before).copied());
            if let Some(place) = self.waited_ns.get_mut(self.kept) {
                *place = waited_ns.or(before).unwrap_or(0);
            }
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
                #[allow(
                    clippy::print_stderr,
                    reason = "osjitter quotes it: why there is nothing to judge"
                )]
                {
                    eprintln!("tickmeter: cannot write {}: {error}", self.out.display());
                }
                State::Failed
            }
        };
    }

    fn write(&self) -> io::Result<()> {
        let mut text = format!("osjitter.series/1 period_ns={}\n", self.period_ns);
        let kept = &self.lateness_ns[..self.kept];
        match self.origin_ns() {
            Some(origin_ns) => {
                for (n, (ns, woke)) in kept.iter().zip(&self.wake_ns).enumerate() {
                    let _ = write!(text, "{ns} {}", origin_ns.saturating_add_signed(*woke));
                    let waited = self
                        .waited_ns
                        .get(n)
                        .map_or_else(String::new, |waited| format!(" {waited}"));
                    let _ = writeln!(text, "{waited}");
                }
            }
            None => kept.iter().for_each(|ns| {
                let _ = writeln!(text, "{ns}");
            }),
        }
        File::create_new(&self.out)?.write_all(text.as_bytes())
    }

    /// The origin on the kernel's clock; `None` where times are not wanted, or cannot be had.
    fn origin_ns(&self) -> Option<u64> {
        let (now, ns) = (!self.wake_ns.is_empty()).then(monotonic)??;
        ns.checked_sub(u64::try_from(now.checked_duration_since(self.origin)?.as_nanos()).ok()?)
    }
}

/// What the kernel accounts for of the thread that runs the ticks.
#[derive(Debug, Default)]
struct Account {
    #[cfg(target_os = "linux")]
    of: Option<(std::thread::ThreadId, File)>,
}

impl Account {
    /// How long the calling thread has waited for a CPU.
    #[cfg(target_os = "linux")]
    fn waited_ns(&mut self) -> Option<u64> {
        use std::os::unix::fs::FileExt as _;

        let thread = std::thread::current().id();
        if self.of.as_ref().is_none_or(|(of, _)| *of != thread) {
            self.of = Some((thread, File::open("/proc/thread-self/schedstat").ok()?));
        }
        let mut text = [0; 96];
        let n = self.of.as_ref()?.1.read_at(&mut text, 0).ok()?;
        std::str::from_utf8(&text[..n]).ok()?.split_ascii_whitespace().nth(1)?.parse().ok()
    }

    #[cfg(not(target_os = "linux"))]
    fn waited_ns(&mut self) -> Option<u64> {
        None
    }
}

/// Elsewhere no switches are recorded that its times would be held against.
#[cfg(not(all(target_os = "linux", not(loom))))]
fn monotonic() -> Option<(Instant, u64)> {
    None
}

impl Drop for Series {
    /// A loop that ends before its time has said what it has: osjitter reports how much is missing.
    /// One that never ticked leaves it to the next.
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

    #[allow(clippy::disallowed_methods, reason = "an origin")]
    fn series(name: &str, warmup: u64, ticks: usize) -> Series {
        let file = format!("tickmeter-series-{}-{name}", std::process::id());
        Series::new(std::env::temp_dir().join(file), warmup, ticks, false, Instant::now())
    }

    fn written(series: &Series) -> String {
        let text = std::fs::read_to_string(&series.out).unwrap();
        std::fs::remove_file(&series.out).unwrap();
        text
    }

    #[test]
    fn the_ticks_after_the_warmup_one_by_one() {
        let mut all = series("whole", 2, 5);
        all.push(7, 1, 100, 0);
        // Its first tick is still of the warm-up; the last is due after the wake-up.
        all.push(250, 4, 100, 0);
        assert!(!all.out.exists());
        all.push(-3, 1, 100, 0);
        all.push(9, 1_000_000, 100, 0);
        assert_eq!(all.state, State::Written);
        assert_eq!(written(&all), "osjitter.series/1 period_ns=100\n150\n50\n0\n-3\n9\n");
    }

    #[test]
    fn a_loop_that_ends_early_says_what_it_has() {
        let mut part = series("part", 0, 5);
        part.push(7, 1, 100, 0);
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
        own.push(7, 1, 100, 0);
        own.push(7, 1, 100, 0);
        assert_eq!((own.state, written(&own).as_str()), (State::NotOurs, "its own"));
        let mut nowhere = series("nowhere", 0, 1);
        nowhere.out = "/no/such/directory/series".into();
        nowhere.push(7, 1, 100, 0);
        assert_eq!(nowhere.state, State::Failed);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_times_are_those_of_the_kernels_clock() {
        let (before, before_ns) = monotonic().expect("a clock");
        let mut timed = series("timed", 1, 3);
        timed = Series::new(timed.out.clone(), 1, 3, true, before);
        timed.push(5, 1, 100, 1_000);
        timed.push(250, 2, 100, 2_000);
        timed.push(-3, 1, 100, 3_000);
        let text = written(&timed);
        let ticks: Vec<Vec<i64>> = text
            .lines()
            .skip(1)
            .map(|line| line.split(' ').map(|word| word.parse().unwrap()).collect())
            .collect();
        assert_eq!(ticks.iter().map(|t| t[0]).collect::<Vec<_>>(), [250, 150, -3]);
        // Where there is such an account, it only ever rises.
        assert!(
            ticks.iter().all(|t| t.len() == ticks[0].len())
                && ticks.is_sorted_by_key(|t| t.get(2).copied())
        );
        // What came at once has one time; two readings of two clocks lie between.
        let after: Vec<i64> = ticks.iter().map(|t| t[1] - before_ns as i64).collect();
        assert_eq!([after[1] - after[0], after[2] - after[1]], [0, 1_000]);
        assert!((after[0] - 2_000).abs() < 1_000_000_000, "{after:?}");
    }
}
