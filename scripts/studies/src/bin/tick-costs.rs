//! Measures the lateness and the CPU time of ticks in rounds whose order changes each time, and
//! writes one JSON object.
//!
//! ```text
//! tick-costs precise ROUNDS PERIOD_US     the precise mode at several quantiles
//! tick-costs runtime ROUNDS PERIOD_US     from a sleeping thread to an interval, and settings of tokio's runtime
//! tick-costs busy ROUNDS PERIOD_US        the settings, next to a task that is always ready
//! tick-costs ticks NAME TICKS PERIOD_US   one of them alone, for `strace` and `perf`
//! ```

use std::num::NonZeroU64;
use std::os::fd::{AsFd, OwnedFd};
use std::task::Poll;
use std::time::{Duration, Instant};

use jitterstat::stats::random::SplitMix64;
use osinterval::{IntervalBuilder, IntervalTimer, OsInterval, Precision, Spin};
use rustix::event::epoll;
use rustix::thread::clock_nanosleep_absolute;
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
    timerfd_create, timerfd_settime,
};
use serde_json::{Value, json};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::runtime::{Builder, Runtime};

/// Time of the ticks of a round that are recorded, of which there are 50 to 250.
const ROUND: Duration = Duration::from_millis(125);
/// Ticks before them, except in rounds that start cold.
const WARM_UP: usize = 20;
/// Length of a poll of the task that is always ready.
const BUSY_POLL: Duration = Duration::from_micros(10);

/// The deadlines of a round.
#[derive(Clone, Copy)]
struct Grid {
    start: Instant,
    period: Duration,
    warm_up: usize,
    ticks: usize,
}

impl Grid {
    fn new(period: Duration, warm_up: usize, ticks: usize, random: &mut SplitMix64) -> Self {
        let phase = period.max(Duration::from_millis(1)).mul_f64(random.unit());
        let start = Instant::now() + Duration::from_millis(2) + phase;
        Self { start, period, warm_up, ticks }
    }

    fn deadlines(self) -> impl Iterator<Item = Instant> {
        let indices = 0..(self.warm_up + self.ticks) as u32;
        indices.map(move |k| self.start + self.period * k)
    }
}

/// The measurement of a round.
struct Round {
    late_ns: Vec<u64>,
    cpu_ns_per_tick: f64,
}

/// Records the ticks of a round. The CPU time is that between the first and the last of them.
struct Recorder {
    grid: Grid,
    seen: usize,
    late_ns: Vec<u64>,
    cpu_at_start: Duration,
}

impl Recorder {
    fn new(grid: Grid) -> Self {
        let late_ns = Vec::with_capacity(grid.ticks);
        Self { grid, seen: 0, late_ns, cpu_at_start: Duration::ZERO }
    }

    fn record(&mut self, deadline: Instant) {
        let now = Instant::now();
        if self.seen == self.grid.warm_up {
            self.cpu_at_start = process_cpu_time();
        }
        if self.seen >= self.grid.warm_up {
            self.late_ns.push(now.saturating_duration_since(deadline).as_nanos() as u64);
        }
        self.seen += 1;
    }

    fn finish(self) -> Round {
        let cpu = process_cpu_time() - self.cpu_at_start;
        let cpu_ns_per_tick = cpu.as_nanos() as f64 / (self.grid.ticks - 1) as f64;
        Round { late_ns: self.late_ns, cpu_ns_per_tick }
    }
}

fn read_clock(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn process_cpu_time() -> Duration {
    read_clock(ClockId::ProcessCPUTime)
}

/// Converts an instant to the kernel's clock.
fn kernel_time(at: Instant) -> Timespec {
    let time = read_clock(ClockId::Monotonic) + at.saturating_duration_since(Instant::now());
    Timespec { tv_sec: time.as_secs() as _, tv_nsec: time.subsec_nanos() as _ }
}

fn measure_spin(grid: Grid) -> Round {
    let mut recorder = Recorder::new(grid);
    for deadline in grid.deadlines() {
        while Instant::now() < deadline {}
        recorder.record(deadline);
    }
    recorder.finish()
}

fn measure_nanosleep(grid: Grid) -> Round {
    let mut recorder = Recorder::new(grid);
    for deadline in grid.deadlines() {
        while Instant::now() < deadline {
            clock_nanosleep_absolute(ClockId::Monotonic, &kernel_time(deadline)).expect("sleeps");
        }
        recorder.record(deadline);
    }
    recorder.finish()
}

fn new_timer() -> OwnedFd {
    timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)
        .expect("creates a timer")
}

fn arm(timer: impl AsFd, deadline: Instant) {
    let it_interval = Timespec { tv_sec: 0, tv_nsec: 0 };
    let time = Itimerspec { it_interval, it_value: kernel_time(deadline) };
    timerfd_settime(timer, TimerfdTimerFlags::ABSTIME, &time).expect("arms the timer");
}

fn measure_epoll(grid: Grid) -> Round {
    let (timer, poller) = (new_timer(), epoll::create(epoll::CreateFlags::CLOEXEC).expect("epoll"));
    let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
    epoll::add(&poller, &timer, epoll::EventData::new_u64(1), flags).expect("adds the timer");
    let mut events = Vec::with_capacity(8);
    let mut recorder = Recorder::new(grid);
    for deadline in grid.deadlines() {
        while Instant::now() < deadline {
            arm(&timer, deadline);
            events.clear();
            epoll::wait(&poller, rustix::buffer::spare_capacity(&mut events), None).expect("waits");
        }
        recorder.record(deadline);
    }
    recorder.finish()
}

async fn measure_async_fd(grid: Grid) -> Round {
    #[allow(deprecated, reason = "the replacement is unsafe")]
    let timer = AsyncFd::with_interest(new_timer(), Interest::READABLE).expect("registers");
    let mut recorder = Recorder::new(grid);
    for deadline in grid.deadlines() {
        while Instant::now() < deadline {
            arm(timer.get_ref(), deadline);
            timer.readable().await.expect("waits").clear_ready();
        }
        recorder.record(deadline);
    }
    recorder.finish()
}

async fn measure_interval(interval: &mut OsInterval, grid: Grid) -> Round {
    interval.reset_at(grid.start.into());
    let mut recorder = Recorder::new(grid);
    for _ in grid.deadlines() {
        let deadline = interval.tick().await;
        recorder.record(deadline.into_std());
    }
    recorder.finish()
}

fn new_interval(runtime: &Runtime, builder: IntervalBuilder) -> OsInterval {
    let _guard = runtime.enter();
    builder.build().expect("has a timer")
}

/// Runs the future in a task of its own, as applications do.
fn run_task<T: Send + 'static>(
    runtime: &Runtime,
    future: impl Future<Output = T> + Send + 'static,
) -> T {
    runtime.block_on(async { tokio::spawn(future).await.expect("does not panic") })
}

/// Is ready in each turn of the runtime, and takes [`BUSY_POLL`] each time.
async fn stay_ready() {
    std::future::poll_fn(|cx| {
        let end = Instant::now() + BUSY_POLL;
        while Instant::now() < end {}
        // Unlike `yield_now`, this does not make the runtime poll its drivers.
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await
}

struct Contender {
    name: String,
    warm_up: usize,
    measure: Box<dyn FnMut(Grid) -> Round>,
    rounds: Vec<Round>,
}

impl Contender {
    fn new(name: impl Into<String>, measure: impl FnMut(Grid) -> Round + 'static) -> Self {
        let rounds = Vec::new();
        Self { name: name.into(), warm_up: WARM_UP, measure: Box::new(measure), rounds }
    }

    /// An interval that lives through all rounds, on a runtime that does as well. With
    /// `is_busy`, each turn of the runtime also polls a task for [`BUSY_POLL`].
    fn busy_or_idle(
        name: impl Into<String>,
        runtime: Runtime,
        builder: IntervalBuilder,
        is_busy: bool,
    ) -> Self {
        let mut idle = Some(new_interval(&runtime, builder.clone()));
        Self::new(name, move |grid| {
            let mut interval = idle.take().expect("is put back after each round");
            let neighbour = is_busy.then(|| runtime.spawn(stay_ready()));
            let (round, interval) = run_task(&runtime, async move {
                (measure_interval(&mut interval, grid).await, interval)
            });
            idle = Some(interval);
            if let Some(neighbour) = neighbour {
                neighbour.abort();
            }
            round
        })
    }

    fn living(name: impl Into<String>, runtime: Runtime, builder: IntervalBuilder) -> Self {
        Self::busy_or_idle(name, runtime, builder, false)
    }

    /// A new interval on a new runtime for each round, which is recorded from the first tick.
    fn cold(name: &str, builder: IntervalBuilder) -> Self {
        let cold = Self::new(name, move |grid| {
            let runtime = current_thread().build().expect("a runtime");
            let mut interval = new_interval(&runtime, builder.clone());
            run_task(&runtime, async move { measure_interval(&mut interval, grid).await })
        });
        Self { warm_up: 0, ..cold }
    }

    fn to_json(&self) -> Value {
        let rounds: Vec<Value> = self.rounds.iter().map(Round::to_json).collect();
        json!({ "name": self.name, "rounds": rounds })
    }
}

impl Round {
    fn to_json(&self) -> Value {
        let cpu_ns_per_tick = self.cpu_ns_per_tick.round();
        json!({ "cpu_ns_per_tick": cpu_ns_per_tick, "late_ns": self.late_ns })
    }
}

fn current_thread() -> Builder {
    let mut builder = Builder::new_current_thread();
    builder.enable_all();
    builder
}

/// Returns plain and precise intervals that live or are new in each round, and a spinning thread.
/// Both have a timer of their own.
fn precise_contenders(period: Duration) -> Vec<Contender> {
    let runtime = || current_thread().build().expect("a runtime");
    let plain = OsInterval::builder(period).timer(IntervalTimer::Own);
    let precise = plain.clone().precision(Precision::spin());
    let mut contenders = vec![
        Contender::new("spin", measure_spin),
        Contender::cold("plain, cold", plain.clone()),
        Contender::cold("precise, cold", precise.clone()),
        Contender::living("plain", runtime(), plain),
        Contender::living("precise", runtime(), precise.clone()),
    ];
    for quantile in [0.9, 0.95, 0.99, 0.999] {
        let builder = precise.clone().precision(Spin::default().with_quantile(quantile));
        contenders.push(Contender::living(format!("precise {quantile}"), runtime(), builder));
    }
    contenders
}

/// Returns runtimes by the settings in which they differ.
fn runtimes() -> Vec<(&'static str, Runtime)> {
    let current = |change: fn(&mut Builder) -> &mut Builder| {
        change(&mut current_thread()).build().expect("a runtime")
    };
    let multi_thread = |workers| {
        let mut builder = Builder::new_multi_thread();
        builder.enable_all().worker_threads(workers).build().expect("a runtime")
    };
    let with_io = Builder::new_current_thread().enable_io().build().expect("a runtime");
    vec![
        ("current_thread, enable_all", current(|builder| builder)),
        ("current_thread, again", current(|builder| builder)),
        ("enable_io", with_io),
        ("event_interval 1", current(|builder| builder.event_interval(1))),
        ("event_interval 10", current(|builder| builder.event_interval(10))),
        ("event_interval 1024", current(|builder| builder.event_interval(1024))),
        ("global_queue_interval 1", current(|builder| builder.global_queue_interval(1))),
        ("multi_thread, 1 worker", multi_thread(1)),
        ("multi_thread, 2 workers", multi_thread(2)),
    ]
}

/// Returns the steps from a sleeping thread to an interval, and intervals on other runtimes.
fn runtime_contenders(period: Duration) -> Vec<Contender> {
    let runtime = || current_thread().build().expect("a runtime");
    let bare = runtime();
    let builder = OsInterval::builder(period);
    let own = builder.clone().timer(IntervalTimer::Own);
    let steps = [
        Contender::new("nanosleep", measure_nanosleep),
        Contender::new("epoll", measure_epoll),
        Contender::new("AsyncFd", move |grid| run_task(&bare, measure_async_fd(grid))),
        Contender::living("own timer", runtime(), own),
    ];
    let settings = runtimes()
        .into_iter()
        .map(|(name, runtime)| Contender::living(name, runtime, builder.clone()));
    steps.into_iter().chain(settings).collect()
}

/// Returns intervals on runtimes with a task that is always ready.
fn busy_contenders(period: Duration) -> Vec<Contender> {
    let builder = OsInterval::builder(period);
    let new = |(name, runtime)| Contender::busy_or_idle(name, runtime, builder.clone(), true);
    runtimes().into_iter().map(new).collect()
}

fn main() {
    // The kernel may delay the sleeping thread by 50 us otherwise.
    rustix::thread::set_current_timer_slack(NonZeroU64::new(1)).expect("is always allowed");
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let number = |text: &str| text.parse::<u64>().expect("a number");
    let period = Duration::from_micros(number(arguments.last().expect("see the documentation")));
    let mut random = SplitMix64::new(1);
    let (mut contenders, count) = match arguments[..] {
        ["precise", count, _] => (precise_contenders(period), number(count)),
        ["runtime", count, _] => (runtime_contenders(period), number(count)),
        ["busy", count, _] => (busy_contenders(period), number(count)),
        ["ticks", name, ticks, _] => {
            let all = precise_contenders(period).into_iter().chain(runtime_contenders(period));
            let mut contender = all.into_iter().find(|c| c.name == name).expect("a known name");
            (contender.measure)(Grid::new(period, 0, number(ticks) as usize, &mut random));
            return;
        }
        _ => panic!("unknown arguments {arguments:?}: see the documentation of the program"),
    };
    let ticks = (ROUND.as_nanos() / period.as_nanos()).clamp(50, 250) as usize;
    // The first round of each is not kept.
    for round in 0..=count {
        let mut order: Vec<usize> = (0..contenders.len()).collect();
        random.shuffle(&mut order);
        for contender in order {
            let contender = &mut contenders[contender];
            let grid = Grid::new(period, contender.warm_up, ticks, &mut random);
            let measured = (contender.measure)(grid);
            if round > 0 {
                contender.rounds.push(measured);
            }
        }
    }
    let rows: Vec<Value> = contenders.iter().map(Contender::to_json).collect();
    println!("{}", json!({ "period_ns": period.as_nanos() as u64, "contenders": rows }));
}
