//! The timers that are compared, and one round of each, with a new runtime and timer. Lateness is
//! relative to an absolute grid.

use std::time::{Duration, Instant};

use osinterval::{OsInterval, PeriodicInterval, Precision};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contender {
    OsInterval,
    Precise,
    Periodic,
    PeerOneShot,
    PeerPeriodic,
    Hrtime,
    AsyncTimer,
    Tokio,
    SpinSleep,
    Nanosleep,
    Spin,
}

const NAMES: [(Contender, &str); 11] = [
    (Contender::OsInterval, "os-interval"),
    (Contender::Precise, "os-interval-precise"),
    (Contender::Periodic, "periodic-interval"),
    (Contender::PeerOneShot, "tokio-osinterval"),
    (Contender::PeerPeriodic, "tokio-osinterval-periodic"),
    (Contender::Hrtime, "tokio-hrtime"),
    (Contender::AsyncTimer, "async-timer"),
    (Contender::Tokio, "tokio-interval"),
    (Contender::SpinSleep, "spin_sleep"),
    (Contender::Nanosleep, "nanosleep"),
    (Contender::Spin, "spin"),
];

impl Contender {
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(c, _)| *c == self).map_or("?", |(_, name)| name)
    }

    pub fn from_name(name: &str) -> Option<Self> {
        NAMES.iter().find(|(_, n)| *n == name).map(|(c, _)| *c)
    }
}

/// The result of a round.
#[derive(Debug)]
pub struct Round {
    /// Sorted lateness, in nanoseconds.
    lateness: Vec<i64>,
    /// Time from one period before the first deadline to the last wake-up.
    total: Duration,
    /// CPU time and time from the first recorded tick to the last one.
    cpu: Duration,
    elapsed: Duration,
    /// Ticks in that time.
    ticks: u64,
}

impl Round {
    pub fn lateness(&self, q: f64) -> f64 {
        let rank = (q * self.lateness.len() as f64).ceil().max(1.0) as usize;
        self.lateness[rank - 1] as f64
    }

    pub fn cpu_ns_per_tick(&self) -> f64 {
        self.cpu.as_nanos() as f64 / self.ticks as f64
    }

    pub fn total_ms(&self) -> f64 {
        self.total.as_secs_f64() * 1e3
    }

    pub fn core_percent(&self) -> f64 {
        self.cpu.as_secs_f64() / self.elapsed.as_secs_f64() * 100.0
    }
}

struct Grid {
    start: Instant,
    period: Duration,
    last: u64,
    warmup: u64,
    lateness: Vec<i64>,
    /// Readings at the first and at the last recorded tick.
    first: Option<Reading>,
    end: Option<Reading>,
}

/// CPU time of the process at some time.
#[derive(Clone, Copy)]
struct Reading {
    cpu: Duration,
    at: Instant,
}

impl Reading {
    fn take() -> Self {
        Self { cpu: cpu_time(), at: Instant::now() }
    }
}

impl Grid {
    fn new(start: Instant, period: Duration, ticks: u64, warmup: u64) -> Self {
        let total = ticks + warmup;
        let lateness = Vec::with_capacity(usize::try_from(total).expect("a short round"));
        Self { start, period, last: total - 1, warmup, lateness, first: None, end: None }
    }

    fn due(&self, k: u64) -> Instant {
        self.start + self.period * u32::try_from(k).expect("a short round")
    }

    /// Creates the result of the round, which has ended.
    fn finish(mut self) -> Round {
        let late = self.lateness.last().copied().unwrap_or(0);
        let due = self.due(self.last + 1) - self.start;
        let total = due + Duration::from_nanos(u64::try_from(late).unwrap_or(0));
        self.lateness.sort_unstable();
        let (first, end) = self.first.zip(self.end).expect("all ticks were recorded");
        Round {
            lateness: self.lateness,
            total,
            cpu: end.cpu - first.cpu,
            elapsed: end.at - first.at,
            ticks: self.last - self.warmup,
        }
    }

    /// Records that the task woke for tick `k` now. Returns false after the last tick.
    fn record(&mut self, k: u64) -> bool {
        let now = Instant::now();
        if k >= self.warmup {
            let due = self.due(k);
            let late = now.checked_duration_since(due).map_or_else(|| -signed(due - now), signed);
            self.lateness.push(late);
        }
        if k == self.warmup {
            self.first = Some(Reading::take());
        } else if k == self.last {
            self.end = Some(Reading::take());
        }
        k < self.last
    }
}

fn signed(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

pub fn run(
    contender: Contender,
    period: Duration,
    ticks: u64,
    warmup: u64,
    phase: Duration,
) -> Round {
    let start = Instant::now() + Duration::from_millis(2) + phase;
    let mut grid = Grid::new(start, period, ticks, warmup);
    match contender {
        Contender::SpinSleep | Contender::Nanosleep | Contender::Spin => {
            on_thread(contender, &mut grid)
        }
        _ => {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime");
            grid = run_in_task(&runtime, contender, grid);
        }
    }
    grid.finish()
}

/// Runs a round in a task of a runtime.
fn run_in_task(runtime: &tokio::runtime::Runtime, contender: Contender, mut grid: Grid) -> Grid {
    runtime.block_on(async {
        let task = tokio::spawn(async move {
            on_tokio(contender, &mut grid).await;
            grid
        });
        task.await.expect("the round ends")
    })
}

/// Runs one round on a given runtime.
#[cfg(tokio_unstable)]
pub fn run_on(
    runtime: tokio::runtime::Runtime,
    contender: Contender,
    period: Duration,
    ticks: u64,
    warmup: u64,
    phase: Duration,
) -> Round {
    let start = Instant::now() + Duration::from_millis(2) + phase;
    let grid = Grid::new(start, period, ticks, warmup);
    run_in_task(&runtime, contender, grid).finish()
}

/// Measures an ordinary interval of `period` that shares its worker with an interval of
/// `other_period` and the given precision.
pub fn run_with_neighbour(
    other: Option<Precision>,
    period: Duration,
    other_period: Duration,
    ticks: u64,
    phase: Duration,
) -> Round {
    let start = Instant::now() + Duration::from_millis(20) + phase;
    let mut grid = Grid::new(start, period, ticks, 0);
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    grid = runtime.block_on(async {
        let neighbour = other.map(|precision| {
            let interval = OsInterval::builder(other_period).precision(precision).build();
            let mut interval = interval.expect("an interval");
            tokio::spawn(async move {
                loop {
                    interval.tick().await;
                }
            })
        });
        let measured = tokio::spawn(async move {
            on_tokio(Contender::OsInterval, &mut grid).await;
            grid
        });
        let grid = measured.await.expect("the round ends");
        neighbour.inspect(tokio::task::JoinHandle::abort);
        grid
    });
    grid.finish()
}

async fn on_tokio(contender: Contender, grid: &mut Grid) {
    let (start, period) = (grid.start.into(), grid.period);
    match contender {
        Contender::OsInterval | Contender::Precise => {
            let precision =
                if contender == Contender::Precise { Precision::spin() } else { Precision::Os };
            let builder = OsInterval::builder(period).start_at(start).precision(precision);
            let mut interval = builder.build().expect("an interval");
            for k in 0.. {
                interval.tick().await;
                if !grid.record(k) {
                    return;
                }
            }
        }
        Contender::Periodic => {
            let mut interval = PeriodicInterval::new_at(start, period).expect("an interval");
            let mut k = 0;
            loop {
                let count = interval.tick().await.expect("a tick").count;
                for _ in 0..count {
                    if !grid.record(k) {
                        return;
                    }
                    k += 1;
                }
            }
        }
        Contender::PeerOneShot => {
            let mut interval = tokio_osinterval::interval_at(start, period);
            for k in 0.. {
                interval.tick().await;
                if !grid.record(k) {
                    return;
                }
            }
        }
        Contender::PeerPeriodic => {
            // It has no absolute start, so only its cost is meaningful here, not its lateness.
            tokio::time::sleep_until(start - period).await;
            let mut interval =
                tokio_osinterval::PeriodicInterval::new(period).expect("an interval");
            let mut k = 0;
            loop {
                for _ in 0..interval.tick().await.expect("a tick") {
                    if !grid.record(k) {
                        return;
                    }
                    k += 1;
                }
            }
        }
        Contender::Hrtime => {
            let mut interval = tokio_hrtime::interval_at(grid.start, period);
            for k in 0.. {
                interval.tick().await;
                if !grid.record(k) {
                    return;
                }
            }
        }
        Contender::AsyncTimer => {
            // Its interval has no absolute start and skips ticks, so one of its timers is set again
            // for each tick.
            let remaining = |due: Instant| {
                due.saturating_duration_since(Instant::now()).max(Duration::from_nanos(1))
            };
            let mut timer = async_timer::new_timer(remaining(grid.due(0)));
            for k in 0.. {
                (&mut timer).await;
                if !grid.record(k) {
                    return;
                }
                async_timer::Timer::restart(&mut timer, remaining(grid.due(k + 1)));
            }
        }
        _ => {
            let mut interval = tokio::time::interval_at(start, period);
            for k in 0.. {
                interval.tick().await;
                if !grid.record(k) {
                    return;
                }
            }
        }
    }
}

fn on_thread(contender: Contender, grid: &mut Grid) {
    if contender == Contender::Nanosleep {
        // SAFETY: takes a number and concerns the calling thread alone.
        unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_u64, 0, 0, 0) };
    }
    for k in 0.. {
        let due = grid.due(k);
        match contender {
            Contender::SpinSleep => spin_sleep::SpinSleeper::default().sleep_until(due),
            Contender::Nanosleep => {
                std::thread::sleep(due.saturating_duration_since(Instant::now()))
            }
            _ => {
                if k == 0 {
                    std::thread::sleep(
                        due.saturating_duration_since(Instant::now() + Duration::from_millis(1)),
                    );
                }
                while Instant::now() < due {
                    std::hint::spin_loop();
                }
            }
        }
        if !grid.record(k) {
            break;
        }
    }
    if contender == Contender::Nanosleep {
        // SAFETY: as above; zero restores the slack of the process.
        unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 0_u64, 0, 0, 0) };
    }
}

pub fn cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure is ours, and the call fills it.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
