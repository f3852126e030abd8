//! Writes the lateness of every tick to a file, `osjitter.series/1`, if osjitter runs this program
//! to measure or to gate it.
//!
//! osjitter sets the environment variables below. Each meter of the process then keeps the lateness
//! of each tick. When it has all of them, it writes the file if it is the measured one: the meter
//! that [`ENV_METER`] names, or the only one with the requested period. A program that counts its
//! ticks exits by itself. One that would tick forever is ended at the tick after the last requested
//! one. Without the variables, nothing of this happens.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::MutexGuard;
use std::time::{Duration, Instant};

#[cfg(all(target_os = "linux", not(loom)))]
use crate::calls::monotonic_ns;
use crate::measured_meter::{
    CANDIDATES, CandidateFile, CandidateList, Candidates, MeterRequest, MeterRole,
};
use crate::rounds::{self, ENV_TICKS, ENV_WARMUP, RequestedTicks};

/// Has the value `ticks` if osjitter wants one line per tick, rather than the program's own
/// metrics.
const ENV_SERIES: &str = "OSJITTER_SERIES";
/// Requested period in nanoseconds.
const ENV_PERIOD: &str = "OSJITTER_PERIOD_NS";
const ENV_OUT: &str = "OSJITTER_OUT";
/// Has the value `monotonic` if osjitter also wants the time of each wake-up.
const ENV_TIMES: &str = "OSJITTER_TIMES";
/// Selects one of several meters, as `--meter` of osjitter does.
const ENV_METER: &str = "OSJITTER_METER";
/// Maximum number of ticks to keep: 128 MiB.
const MAX_TICKS: usize = 1 << 24;
/// Value of an entry without a tick. It is not zero, because zeroed memory is mapped only when it
/// is first touched, and the touch would delay a tick.
const UNWRITTEN: i64 = i64::MIN;
/// Time for which a meter that does not match the request waits for one that does.
const MATCH_TIMEOUT: Duration = Duration::from_secs(1);

/// Keeps the ticks of a meter until all requested ones have come, and then writes them.
#[derive(Debug)]
pub(crate) struct SeriesWriter {
    out: PathBuf,
    candidates: &'static CandidateList,
    /// Identifier of the meter among the candidates.
    candidate: u64,
    request: MeterRequest,
    /// Number of warm-up ticks that are still to be dropped.
    warmup: u64,
    lateness_ns: Box<[i64]>,
    /// Time of each wake-up after the origin; empty if times are not wanted.
    wake_ns: Box<[i64]>,
    /// Time that the thread had waited for a CPU at each wake-up; empty if it is not wanted or not
    /// available.
    waited_ns: Box<[u64]>,
    schedstat: ThreadSchedstat,
    usage: TickUsage,
    origin: Instant,
    /// Number of ticks kept so far.
    kept: usize,
    period_ns: u64,
    state: State,
    /// The process that is measured.
    process: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Recording,
    /// All ticks are kept since this time, but no meter of the process is measured yet.
    Waiting(tach::Instant),
    /// All ticks are kept since this time, and the file is written.
    Written(tach::Instant),
    Failed,
    /// Another meter is measured, or the program writes the file itself.
    Ignored,
}

impl SeriesWriter {
    /// Returns the writer of a meter if the environment requests one. `origin` is the origin of the
    /// meter's clock.
    pub(crate) fn from_env(meter: &str, period_ns: u64, origin: Instant) -> Option<Box<Self>> {
        let text = |name| std::env::var(name).ok();
        let number = |name| text(name)?.parse::<u64>().ok();
        if text(ENV_SERIES)? != "ticks" {
            return None;
        }
        let out = PathBuf::from(std::env::var_os(ENV_OUT)?);
        let requested = match rounds::current() {
            Some(requested) => requested,
            None => RequestedTicks {
                recorded: number(ENV_TICKS)?,
                warmup: number(ENV_WARMUP).unwrap_or(0),
            },
        };
        let warmup = requested.warmup;
        let ticks = usize::try_from(requested.recorded)
            .ok()
            .filter(|ticks| (1..=MAX_TICKS).contains(ticks))?;
        let with_times = text(ENV_TIMES).is_some_and(|clock| clock == "monotonic");
        let mut writer = Box::new(Self::new(out, warmup, ticks, with_times, origin));
        writer.request = MeterRequest { name: text(ENV_METER), period_ns: number(ENV_PERIOD) };
        writer.candidate = CANDIDATES.lock().add(meter, period_ns);
        Some(writer)
    }

    fn new(out: PathBuf, warmup: u64, ticks: usize, with_times: bool, origin: Instant) -> Self {
        let lateness_ns = vec![UNWRITTEN; ticks].into();
        let wake_ns = vec![UNWRITTEN; if with_times { ticks } else { 0 }].into();
        let mut schedstat = ThreadSchedstat::default();
        let with_waits = with_times && schedstat.waited_ns().is_some();
        let waited_ns = vec![u64::MAX; if with_waits { ticks } else { 0 }].into();
        Self {
            out,
            candidates: &CANDIDATES,
            candidate: u64::MAX,
            request: MeterRequest::default(),
            warmup,
            lateness_ns,
            wake_ns,
            waited_ns,
            schedstat,
            usage: TickUsage::default(),
            origin,
            kept: 0,
            period_ns: 0,
            state: State::Recording,
            process: std::process::id(),
        }
    }

    /// Adds the file of the meter to those that are removed when this ends the process.
    pub(crate) fn add_meter_file(&self, path: &Path) {
        let (id, process) = (self.candidate, self.process);
        let file = CandidateFile { id, process, path: path.to_owned() };
        self.candidates.lock().files.push(file);
    }

    /// Replaces the period of the meter.
    pub(crate) fn set_period(&self, period_ns: u64) {
        self.candidates.lock().set_period(self.candidate, period_ns);
    }

    /// Keeps the ticks of a wake-up at `wake_ns` after the origin. The first tick is late by
    /// `lateness_ns`, and each further one by a period less. Ends the process if the file is
    /// already written.
    #[cold]
    pub(crate) fn push(&mut self, lateness_ns: i64, count: u64, period_ns: u64, wake_ns: i64) {
        match self.state {
            State::Recording => self.keep(lateness_ns, count, period_ns, wake_ns),
            State::Waiting(since) | State::Written(since) => self.conclude(since),
            State::Failed => self.exit(self.candidates.lock(), 1),
            State::Ignored => {}
        }
    }

    fn keep(&mut self, lateness_ns: i64, count: u64, period_ns: u64, wake_ns: i64) {
        self.period_ns = period_ns;
        let waited_ns = if self.waited_ns.is_empty() { None } else { self.schedstat.waited_ns() };
        let dropped = self.warmup.min(count);
        self.warmup -= dropped;
        let is_first = self.kept == 0;
        for k in dropped..count {
            let Some(entry) = self.lateness_ns.get_mut(self.kept) else { break };
            let later_due_ns = i64::try_from(k.saturating_mul(period_ns)).unwrap_or(i64::MAX);
            // A tick that shares the wake-up of one that was due is not early.
            *entry = lateness_ns.saturating_sub(later_due_ns).max(lateness_ns.min(0));
            if let Some(entry) = self.wake_ns.get_mut(self.kept) {
                *entry = wake_ns;
            }
            // If the account is not available any more, assume that the thread has not waited
            // since.
            let last_waited_ns =
                self.kept.checked_sub(1).and_then(|last| self.waited_ns.get(last).copied());
            if let Some(entry) = self.waited_ns.get_mut(self.kept) {
                *entry = waited_ns.or(last_waited_ns).unwrap_or(0);
            }
            self.kept += 1;
        }
        let is_last = self.kept == self.lateness_ns.len();
        // There is no tick between two readings of the same wake-up.
        if is_first && self.kept > 0 {
            self.usage.read_first();
        } else if is_last {
            self.usage.read_last();
        }
        if is_last {
            self.finish();
        }
    }

    /// Writes the file if this meter is measured. All of its ticks are kept.
    fn finish(&mut self) {
        let mut candidates = self.candidates.lock();
        self.state = match candidates.role(self.candidate, &self.request) {
            _ if candidates.has_failed => State::Failed,
            MeterRole::Measured | MeterRole::OnlyMeter => self.write_file(&mut candidates),
            MeterRole::Other => State::Ignored,
            MeterRole::Unmatched(_) => State::Waiting(tach::Instant::now()),
            MeterRole::Ambiguous(reason) => self.fail(&mut candidates, &reason),
        };
    }

    /// Decides about the process at a tick after all ticks were kept, which was at `since`.
    ///
    /// Meters that were registered in the meantime can have made the request ambiguous.
    fn conclude(&mut self, since: tach::Instant) {
        let mut candidates = self.candidates.lock();
        let is_written = matches!(self.state, State::Written(_));
        let is_over = since.elapsed() >= MATCH_TIMEOUT;
        match candidates.role(self.candidate, &self.request) {
            // The process ends after its last round.
            MeterRole::Measured | MeterRole::OnlyMeter
                if is_written && rounds::current().is_some() =>
            {
                self.state = State::Ignored;
            }
            MeterRole::Measured if is_written => self.exit(candidates, 0),
            MeterRole::OnlyMeter if is_written && is_over => self.exit(candidates, 0),
            MeterRole::OnlyMeter if is_written => {}
            MeterRole::Measured | MeterRole::OnlyMeter => {
                self.state = self.write_file(&mut candidates);
            }
            MeterRole::Other => self.state = State::Ignored,
            MeterRole::Unmatched(_) if !is_over => {}
            MeterRole::Unmatched(reason) | MeterRole::Ambiguous(reason) => {
                self.state = self.fail(&mut candidates, &reason);
                self.exit(candidates, 1);
            }
        }
    }

    /// Ends the process, which osjitter started only for the file. Its meters are not dropped, so
    /// their files are removed first.
    #[allow(clippy::exit, reason = "the service would tick forever")]
    fn exit(&self, mut candidates: MutexGuard<'_, Candidates>, code: i32) -> ! {
        let files = std::mem::take(&mut candidates.files);
        // A destructor that runs at the end of the process may drop a meter, which takes the lock.
        drop(candidates);
        for file in files.into_iter().filter(|file| file.process == std::process::id()) {
            let _ = std::fs::remove_file(file.path);
        }
        std::process::exit(code)
    }

    /// Writes the file, and returns the state afterwards.
    fn write_file(&self, candidates: &mut Candidates) -> State {
        // Another meter may have written the file while it was the only one.
        match self.write(candidates.has_written) {
            Ok(()) => {
                candidates.has_written = true;
                State::Written(tach::Instant::now())
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => State::Ignored,
            Err(error) => {
                let reason = format!("cannot write {}: {error}", self.out.display());
                self.fail(candidates, &reason)
            }
        }
    }

    /// Reports a failure, unless another meter has reported one, and removes the file of a meter.
    fn fail(&self, candidates: &mut Candidates, reason: &str) -> State {
        if candidates.has_written {
            // A file that cannot be removed is followed by the exit code of a failure.
            let _ = std::fs::remove_file(&self.out);
        }
        if !candidates.has_failed {
            candidates.has_failed = true;
            #[allow(
                clippy::print_stderr,
                reason = "osjitter quotes it to explain why the series is missing"
            )]
            {
                eprintln!("tickmeter: {reason}");
            }
        }
        State::Failed
    }

    fn write(&self, can_replace: bool) -> io::Result<()> {
        let mut text = format!("osjitter.series/1 period_ns={}\n", self.period_ns);
        let origin_ns = self.origin_ns();
        for (n, lateness_ns) in self.lateness_ns[..self.kept].iter().enumerate() {
            let _ = write!(text, "{lateness_ns}");
            if let Some(origin_ns) = origin_ns {
                let _ = write!(text, " {}", origin_ns.saturating_add_signed(self.wake_ns[n]));
                if let Some(waited_ns) = self.waited_ns.get(n) {
                    let _ = write!(text, " {waited_ns}");
                }
            }
            text.push('\n');
        }
        self.usage.write_line(&mut text);
        #[cfg(all(unix, not(loom)))]
        crate::calls::check_file_size(text.len())?;
        let mut file =
            if can_replace { File::create(&self.out)? } else { File::create_new(&self.out)? };
        file.write_all(text.as_bytes())
    }

    /// Returns the origin on the kernel's monotonic clock; `None` if times are not wanted or not
    /// available.
    fn origin_ns(&self) -> Option<u64> {
        let (now, now_ns) = (!self.wake_ns.is_empty()).then(monotonic_now)??;
        let since_origin = now.checked_duration_since(self.origin)?;
        now_ns.checked_sub(u64::try_from(since_origin.as_nanos()).ok()?)
    }
}

/// The usage of the process at the first and at the last recorded tick.
///
/// It is read after the time of the tick. The part of the loop before the first reading, such as the
/// warm-up, is not in the difference, nor is the writing of the file.
#[derive(Debug, Default)]
struct TickUsage {
    #[cfg(all(unix, not(loom)))]
    first: Option<crate::calls::ProcessUsage>,
    #[cfg(all(unix, not(loom)))]
    last: Option<crate::calls::ProcessUsage>,
}

#[cfg(all(unix, not(loom)))]
impl TickUsage {
    fn read_first(&mut self) {
        self.first = crate::calls::process_usage();
    }

    fn read_last(&mut self) {
        self.last = crate::calls::process_usage();
    }

    /// Writes the difference, unless other processes may do a part of the work.
    fn write_line(&self, text: &mut String) {
        let Some((first, last)) = self.first.zip(self.last) else { return };
        if crate::calls::has_no_children() {
            let _ = writeln!(
                text,
                "usage process={} cpu_ns={} switches_voluntary={} switches_involuntary={}",
                std::process::id(),
                last.cpu_ns.saturating_sub(first.cpu_ns),
                last.switches_voluntary.saturating_sub(first.switches_voluntary),
                last.switches_involuntary.saturating_sub(first.switches_involuntary)
            );
        }
    }
}

/// The usage is not available on other systems.
#[cfg(not(all(unix, not(loom))))]
impl TickUsage {
    fn read_first(&mut self) {}

    fn read_last(&mut self) {}

    fn write_line(&self, _: &mut String) {}
}

/// The kernel's scheduler statistics of the thread that runs the ticks.
#[derive(Debug, Default)]
struct ThreadSchedstat {
    /// The thread, and its open `schedstat` file.
    #[cfg(target_os = "linux")]
    file: Option<(std::thread::ThreadId, File)>,
}

impl ThreadSchedstat {
    /// Returns how long the calling thread has waited for a CPU.
    #[cfg(target_os = "linux")]
    fn waited_ns(&mut self) -> Option<u64> {
        use std::os::unix::fs::FileExt as _;

        let current = std::thread::current().id();
        if self.file.as_ref().is_none_or(|(thread, _)| *thread != current) {
            self.file = Some((current, File::open("/proc/thread-self/schedstat").ok()?));
        }
        let mut text = [0; 96];
        let n = self.file.as_ref()?.1.read_at(&mut text, 0).ok()?;
        std::str::from_utf8(&text[..n]).ok()?.split_ascii_whitespace().nth(1)?.parse().ok()
    }

    #[cfg(not(target_os = "linux"))]
    fn waited_ns(&mut self) -> Option<u64> {
        None
    }
}

/// Returns the current time as an [`Instant`], and as nanoseconds of the kernel's monotonic clock.
#[cfg(all(target_os = "linux", not(loom)))]
fn monotonic_now() -> Option<(Instant, u64)> {
    let now_ns = tach::read_paired(monotonic_ns);
    Some((now_ns.at, now_ns.value?))
}

/// Times are not available: on other systems osjitter records no context switches to compare them
/// with.
#[cfg(not(all(target_os = "linux", not(loom))))]
fn monotonic_now() -> Option<(Instant, u64)> {
    None
}

impl Drop for SeriesWriter {
    /// Writes what there is if the loop ends early; osjitter reports how much is missing. A meter
    /// that never ticked leaves the file to the other meters, as does the copy of a forked child to
    /// the parent.
    fn drop(&mut self) {
        if self.process != std::process::id() {
            return;
        }
        self.candidates.lock().files.retain(|file| file.id != self.candidate);
        match self.state {
            State::Recording if self.kept == 0 => self.candidates.lock().remove(self.candidate),
            State::Recording => self.finish(),
            _ => {}
        }
        if let State::Waiting(_) = self.state {
            let mut candidates = self.candidates.lock();
            let role = candidates.role(self.candidate, &self.request);
            if let MeterRole::Unmatched(reason) = role {
                self.state = self.fail(&mut candidates, &reason);
            }
        }
    }
}

#[cfg(all(test, not(loom), not(miri)))]
mod tests {
    use super::*;

    #[allow(clippy::disallowed_methods, reason = "an origin")]
    fn new_series(name: &str, warmup: u64, ticks: usize) -> SeriesWriter {
        let file = format!("tickmeter-series-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(file);
        measured(SeriesWriter::new(path, warmup, ticks, false, Instant::now()))
    }

    /// Makes a series that of the only meter.
    fn measured(mut series: SeriesWriter) -> SeriesWriter {
        series.candidates = Box::leak(Box::new(CandidateList::new()));
        series.candidate = series.candidates.lock().add("loop", 100);
        series
    }

    /// Reads and removes the file of a series. Returns its text without the usage of the process.
    fn take_file(series: &SeriesWriter) -> String {
        let text = std::fs::read_to_string(&series.out).unwrap();
        std::fs::remove_file(&series.out).unwrap();
        let lines = text.split_inclusive('\n');
        lines.filter(|line| !line.starts_with("usage ")).collect()
    }

    #[test]
    fn ticks_after_warmup_are_written() {
        let mut series = new_series("whole", 2, 5);
        series.push(7, 1, 100, 0);
        // The first tick still belongs to the warm-up; the last is due after the wake-up.
        series.push(250, 4, 100, 0);
        assert!(!series.out.exists());
        series.push(-3, 1, 100, 0);
        series.push(9, 1_000_000, 100, 0);
        assert!(matches!(series.state, State::Written(_)), "{series:?}");
        assert_eq!(take_file(&series), "osjitter.series/1 period_ns=100\n150\n50\n0\n-3\n9\n");
    }

    #[test]
    fn incomplete_series_is_written() {
        let mut series = new_series("part", 0, 5);
        series.push(7, 1, 100, 0);
        let out = series.out.clone();
        drop(series);
        assert_eq!(std::fs::read_to_string(&out).unwrap(), "osjitter.series/1 period_ns=100\n7\n");
        std::fs::remove_file(out).unwrap();
    }

    #[test]
    fn empty_series_is_not_written() {
        let series = new_series("none", 5, 5);
        let out = series.out.clone();
        drop(series);
        assert!(!out.exists());
    }

    #[test]
    fn existing_file_is_kept() {
        let mut series = new_series("existing", 0, 1);
        std::fs::write(&series.out, "by the program").unwrap();
        series.push(7, 1, 100, 0);
        series.push(7, 1, 100, 0);
        assert_eq!(series.state, State::Ignored);
        assert_eq!(take_file(&series), "by the program");
    }

    #[test]
    fn write_error_fails_series() {
        let mut series = new_series("nowhere", 0, 1);
        series.out = "/no/such/directory/series".into();
        series.push(7, 1, 100, 0);
        assert_eq!(series.state, State::Failed);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn usage_needs_two_wakeups() {
        for (counts, is_written) in [(&[5][..], false), (&[2, 3], true), (&[1, 1, 1, 1, 1], true)] {
            let mut series = new_series("usage", 0, 5);
            for &count in counts {
                series.push(500, count, 100, 0);
            }
            let text = std::fs::read_to_string(&series.out).unwrap();
            std::fs::remove_file(&series.out).unwrap();
            let last = text.lines().last().unwrap();
            let process = format!("usage process={} cpu_ns=", std::process::id());
            assert_eq!(last.starts_with(&process), is_written, "{counts:?}: {text}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn times_are_on_monotonic_clock() {
        let (before, before_ns) = monotonic_now().expect("a clock");
        let mut series = new_series("timed", 1, 3);
        series = measured(SeriesWriter::new(series.out.clone(), 1, 3, true, before));
        series.push(5, 1, 100, 1_000);
        series.push(250, 2, 100, 2_000);
        series.push(-3, 1, 100, 3_000);
        let text = take_file(&series);
        let numbers = |line: &str| line.split(' ').map(|word| word.parse().unwrap()).collect();
        let ticks: Vec<Vec<i64>> = text.lines().skip(1).map(numbers).collect();
        assert_eq!(ticks.iter().map(|tick| tick[0]).collect::<Vec<_>>(), [250, 150, -3]);
        // The waiting time, if the kernel has it, never decreases.
        assert!(ticks.iter().all(|tick| tick.len() == ticks[0].len()));
        assert!(ticks.is_sorted_by_key(|tick| tick.get(2).copied()));
        // Ticks of one wake-up have the same time. The origin is off by the time between the
        // readings of the two clocks.
        let after: Vec<i64> = ticks.iter().map(|tick| tick[1] - before_ns as i64).collect();
        assert_eq!([after[1] - after[0], after[2] - after[1]], [0, 1_000]);
        assert!((after[0] - 2_000).abs() < 1_000_000_000, "{after:?}");
    }
}
