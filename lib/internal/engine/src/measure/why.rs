//! Diagnosis of late ticks in profiled rounds.
//!
//! A profiled round records the statistics of its threads at each park, and their context switches.
//! After the round, the lateness of each tick is attributed to causes. A park costs a reading of
//! the statistics, between a tick and the following sleep. Nothing is read between a wake-up and
//! its time stamp. In other rounds, the hooks are not installed and the loop has two comparisons
//! per tick.

mod availability;
mod cpu_records;
pub mod external_program;
mod kernel_clock;
mod occupants;
mod profiler;
mod round_diagnosis;
mod tick_attribution;
mod wakeup_chains;
mod witness;

/// Room for so many cycles a tick: a neighbour may wake the thread in between.
const CYCLES_PER_TICK: usize = 16;
/// And for no more than so many in a round.
const MAX_CYCLES: usize = 1 << 20;
/// A reading that takes longer was interrupted.
const TORN: Duration = Duration::from_micros(50);
/// The most that the way from a timer to its task is believed to take.
const MAX_PATH_NS: u64 = 20_000;
/// tokio rounds a deadline up to its wheel's millisecond, and the timeout that it gives to the
/// kernel to a whole one.
const WHEEL_NS: u64 = 2_000_000;

/// What is the same for all rounds of a run.
#[derive(Debug)]
pub struct Session {
    quotas: Vec<Quota>,
    fault_ns: Option<u64>,
    /// A ring for each CPU that the process may use, or why there is none.
    cpus: Result<Mutex<Vec<SwitchRing>>, NotAvailable>,
    chains: Chains,
}

impl Session {
    pub fn open() -> Self {
        os::watch_stops();
        let cpus = os::affinity().unwrap_or_else(|| vec![0]);
        let rings = cpus.into_iter().map(SwitchRing::of_cpu).collect::<Result<Vec<_>, _>>();
        Self {
            quotas: os::quotas(),
            fault_ns: os::fault_ns(),
            cpus: rings.map(Mutex::new),
            chains: Chains::open(),
        }
    }

    /// A round of so many ticks is about to begin.
    pub fn begin(&self, ticks: usize, period: Duration) -> Watch {
        let witnesses = Mutex::new(Some(Witnesses::begin(period)));
        self.record(true);
        self.chains.record(true);
        let capacity = ticks.saturating_mul(CYCLES_PER_TICK).saturating_add(64).min(MAX_CYCLES);
        let shared = Shared {
            quotas: self.quotas.clone(),
            capacity,
            threads: AtomicUsize::new(0),
            logs: Mutex::default(),
            witnesses,
        };
        Watch(Arc::new(shared))
    }

    /// Records the switches of the CPUs, or stops to.
    pub fn record(&self, on: bool) {
        if let Ok(rings) = &self.cpus {
            rings
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .iter()
                .for_each(|ring| ring.record(on));
        }
    }
}

/// One round's watch over its threads.
#[derive(Clone, Debug)]
pub struct Watch(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    quotas: Vec<Quota>,
    capacity: usize,
    /// So many threads have entered.
    threads: AtomicUsize,
    logs: Mutex<Vec<Log>>,
    /// Until the round has ended.
    witnesses: Mutex<Option<Witnesses>>,
}

/// What one thread leaves behind.
#[derive(Debug)]
struct Log {
    thread: usize,
    accounts: Accounts,
    without_accounts: Option<NotAvailable>,
    ring: Result<SwitchRing, NotAvailable>,
    cycles: Vec<RawCycle>,
    cycles_lost: u64,
    slack_ns: Option<u64>,
}

/// A cycle in counts.
#[derive(Clone, Copy, Debug)]
struct RawCycle {
    before: u64,
    after: u64,
    reading: Reading,
    unpark: Option<NonZeroU64>,
}

thread_local! {
    /// The log of this thread, while a round that is asked runs on it.
    static LOG: RefCell<Option<Log>> = const { RefCell::new(None) };
}

impl Watch {
    /// Watches the calling thread from here on.
    pub fn enter(&self) {
        let (accounts, without_accounts) = match Accounts::of_this_thread(&self.0.quotas) {
            Ok(accounts) => (accounts, None),
            Err(why) => (Accounts::without_files(), Some(why)),
        };
        let mut cycles = Vec::new();
        // Without the room they are counted as lost.
        let _ = cycles.try_reserve_exact(self.0.capacity);
        let is_real_time =
            os::sched().is_some_and(|class| matches!(class.as_str(), "fifo" | "rr" | "deadline"));
        let log = Log {
            thread: self.0.threads.fetch_add(1, Ordering::Relaxed),
            accounts,
            without_accounts,
            ring: SwitchRing::of_this_thread(),
            cycles,
            cycles_lost: 0,
            slack_ns: os::timer_slack_ns().filter(|_| !is_real_time),
        };
        LOG.set(Some(log));
        park();
        awake();
    }

    /// Ends the watch over the calling thread.
    pub fn leave(&self) {
        park();
        if let Some(log) = LOG.take() {
            self.0.logs.lock().unwrap_or_else(PoisonError::into_inner).push(log);
        }
    }

    fn logs(&self) -> Vec<Log> {
        let mut logs =
            std::mem::take(&mut *self.0.logs.lock().unwrap_or_else(PoisonError::into_inner));
        logs.sort_by_key(|log| log.thread);
        logs
    }

    /// When everything stood still.
    fn standstills(&self, origin: Instant) -> Option<Vec<Standstill>> {
        self.0.witnesses.lock().unwrap_or_else(PoisonError::into_inner).take()?.end(origin)
    }
}

/// The calling thread is about to park.
pub fn park() {
    LOG.with_borrow_mut(|log| {
        let Some(log) = log else { return };
        if log.cycles.len() == log.cycles.capacity() {
            log.cycles_lost += 1;
            return;
        }
        let before = tach::count();
        let reading = log.accounts.read();
        log.cycles.push(RawCycle { before, after: tach::count(), reading, unpark: None });
    });
}

/// It did not: it has been awake since it read its accounts.
fn awake() {
    LOG.with_borrow_mut(|log| {
        if let Some(cycle) = log.as_mut().and_then(|log| log.cycles.last_mut()) {
            cycle.unpark = NonZeroU64::new(cycle.after);
        }
    });
}

/// It came back at this count.
pub fn unpark(count: u64) {
    LOG.with_borrow_mut(|log| {
        if let Some(cycle) =
            log.as_mut().filter(|log| log.cycles_lost == 0).and_then(|log| log.cycles.last_mut())
        {
            cycle.unpark = cycle.unpark.or(NonZeroU64::new(count));
        }
    });
}

/// Who knows when a thread parks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parks {
    /// Its runtime.
    ByHooks,
    /// The loop: it blocks in its wait.
    InTheWait,
    /// It never does.
    Never,
}

impl Parks {
    pub fn of(waits: Waits, has_hooks: bool) -> Self {
        match waits {
            Waits::Spins => Self::Never,
            _ if has_hooks => Self::ByHooks,
            _ => Self::InTheWait,
        }
    }
}

/// Notes on which thread each wake-up of a loop was, and what the hooks of a runtime do not.
#[derive(Debug)]
pub struct Notes {
    parks: Parks,
    threads: Vec<usize>,
}

impl Notes {
    /// For a loop of so many ticks.
    pub fn with_capacity(ticks: u64, parks: Parks) -> Self {
        Self { parks, threads: Vec::with_capacity(usize::try_from(ticks).unwrap_or(0)) }
    }

    /// The loop waits from here on.
    #[inline(never)]
    pub fn waits(&mut self) {
        if self.parks != Parks::ByHooks {
            park();
        }
        if self.parks == Parks::Never {
            awake();
        }
    }

    /// It was woken at this count.
    #[inline(never)]
    pub fn woken(&mut self, count: u64) {
        if self.parks == Parks::InTheWait {
            unpark(count);
        }
        let thread = LOG.with_borrow(|log| log.as_ref().map_or(usize::MAX, |log| log.thread));
        self.threads.push(thread);
    }

    /// The thread that each wake-up was on.
    pub fn threads(self) -> Vec<usize> {
        self.threads
    }
}

/// The ticks of one instance, after a round.
#[derive(Debug)]
pub struct Ticks {
    /// Deadline of tick 0.
    pub start: Instant,
    /// The last index that each wake-up reported, how many it did, its count, and the thread it was
    /// on.
    pub wakeups: Vec<(u64, u64, u64, usize)>,
}

/// What a round answers.
#[derive(Debug)]
pub struct Answer {
    pub round: ProfiledRound,
    /// The lowest tier that could not be had, and why.
    pub missing: Option<Missing>,
    /// The threads that ran its ticks; times are counted from the start of its first instance's
    /// grid.
    pub threads: Vec<Thread>,
    /// Who was given which CPU; empty where that was not recorded.
    pub occupants: HashMap<u32, Vec<Occupant>>,
}

/// A round that was asked, after its end.
#[derive(Debug)]
pub struct Ended<'a> {
    pub index: u64,
    pub grid: Grid,
    pub conversion: Conversion,
    pub waits: Waits,
    pub instances: &'a [Ticks],
    /// Whether nothing else runs on its thread.
    pub alone: bool,
    pub steal_ns: Option<u64>,
}

/// Takes the lateness of every tick of a round apart.
pub fn answer(session: &Session, watch: &Watch, round: &Ended<'_>) -> Answer {
    session.record(false);
    session.chains.record(false);
    let logs = watch.logs();
    let origin = round
        .instances
        .first()
        .map_or_else(|| os::monotonic_pair().ok().map(|(at, _)| at), |i| Some(i.start));
    let Some(origin) = origin else {
        return Answer::none(round.index, "the clocks of this system cannot be joined");
    };
    let kernel = Kernel::new(origin);
    let mut evidence =
        Evidence { steal_ns: round.steal_ns, threads: logs.len() as u64, ..Evidence::default() };
    let why_no_accounts =
        logs.iter().find_map(|log| log.without_accounts.as_ref().map(NotAvailable::to_string));
    let mut why_no_switches =
        kernel.is_none().then(|| "the kernel's clock cannot be read".to_owned());
    let slack_ns = logs.iter().map(|log| log.slack_ns).max().flatten();
    let (mut threads, mut ids) = (Vec::new(), Vec::new());
    for mut log in logs {
        let mut id = None;
        let cycles: Vec<Cycle> =
            log.cycles.iter().map(|raw| cycle(raw, &round.conversion, origin)).collect();
        evidence.cycles_lost += log.cycles_lost;
        let periods = cycles
            .last()
            .zip(cycles.first())
            .and_then(|(b, a)| b.reading.throttled?.checked_sub(a.reading.throttled?));
        if !session.quotas.is_empty() {
            evidence.throttled_periods = evidence.throttled_periods.max(periods);
        }
        let switches = match (&mut log.ring, &kernel) {
            (Ok(ring), Some(kernel)) => {
                let drained = ring.drain();
                evidence.switches_lost += drained.lost;
                id = drained.switches.first().map(|s| s.thread);
                (drained.lost == 0)
                    .then(|| drained.switches.iter().map(|s| kernel.switch(s)).collect())
            }
            (Err(why), _) => {
                why_no_switches.get_or_insert_with(|| why.to_string());
                None
            }
            _ => None,
        };
        threads.resize_with(log.thread, Thread::default);
        threads.push(Thread { cycles, switches });
        ids.resize(log.thread, None);
        ids.push(id);
    }
    if evidence.switches_lost > 0 {
        why_no_switches.get_or_insert_with(|| {
            "the kernel's buffer was too small: switches were lost".to_owned()
        });
    }
    let mut why_no_names = session.cpus.as_ref().err().map(NotAvailable::to_string);
    let occupants = kernel.as_ref().and_then(|kernel| {
        let rings = session.cpus.as_ref().ok()?;
        let drained = occupants(&mut rings.lock().unwrap_or_else(PoisonError::into_inner), kernel);
        if drained.is_none() {
            why_no_names = Some(
                "the kernel's buffer was too small: switches of other threads were lost".to_owned(),
            );
        }
        drained
    });
    let wakeups = match &kernel {
        Some(kernel) => session.chains.wakeups(&ids, kernel),
        None => Err("the kernel's clock cannot be read".to_owned()),
    };
    let tier = match (&why_no_accounts, &why_no_switches) {
        (Some(_), Some(_)) => None,
        (None, Some(_)) => Some(Tier::A1),
        (_, None) if occupants.is_some() && wakeups.is_ok() => Some(Tier::B2),
        (_, None) if occupants.is_some() => Some(Tier::B1),
        (_, None) => Some(Tier::A2),
    };
    let why_no_chains = wakeups.as_ref().err().cloned();
    let reasons = [
        (Tier::A1, why_no_accounts),
        (Tier::A2, why_no_switches),
        (Tier::B1, why_no_names),
        (Tier::B2, why_no_chains),
    ];
    let missing =
        reasons.into_iter().find_map(|(tier, reason)| Some(Missing { tier, reason: reason? }));
    let ticks: Vec<(u64, Vec<(u64, Tick)>)> = (0..)
        .zip(round.instances)
        .map(|(i, instance)| (i, ticks(instance, round, origin)))
        .collect();
    let mut facts = facts(session, round, &ticks, &threads, slack_ns, kernel.as_ref());
    if let Some(standstills) = watch.standstills(origin) {
        facts.standstills = beside(standstills, occupants.as_ref());
        evidence.standstill_ns = Some(facts.standstill_ns());
    }
    let mut names = HashMap::new();
    let mut asked = Vec::new();
    for (instance, ticks) in &ticks {
        let only: Vec<Tick> = ticks.iter().map(|(_, tick)| *tick).collect();
        for ((tick, of), explained) in ticks.iter().zip(why::explain(&only, &threads, &facts)) {
            let mut behind: HashMap<String, u64> = HashMap::new();
            for queued in &explained.queued {
                let Some(switches) = occupants.as_ref().and_then(|o| o.get(&queued.cpu)) else {
                    continue;
                };
                for (thread, ns) in why::occupants_during(queued, switches) {
                    *behind.entry(name(&mut names, thread)).or_default() += ns;
                }
            }
            let of_thread = threads
                .get(of.thread)
                .zip(wakeups.as_ref().ok().and_then(|all| all.get(of.thread)));
            asked.push(ProfiledTick {
                instance: *instance,
                tick: *tick,
                deadline_ns: of.deadline_ns,
                wake_ns: of.wake_ns,
                parts: explained.parts,
                behind: behind.into_iter().collect(),
                way: of_thread
                    .filter(|_| tier == Some(Tier::B2))
                    .map(|(thread, wakeups)| why::trace_wakeup(of, thread, wakeups, &explained)),
            });
        }
    }
    let round = ProfiledRound {
        index: round.index,
        ticks: asked,
        tier,
        known: facts.known(),
        evidence,
        ..ProfiledRound::default()
    };
    Answer { round, missing, threads, occupants: occupants.unwrap_or_default() }
}

impl Answer {
    /// Of a round that cannot be asked.
    pub fn none(index: u64, reason: &str) -> Self {
        let missing = Missing { tier: Tier::A1, reason: reason.to_owned() };
        let round = ProfiledRound { index, ..ProfiledRound::default() };
        Self { round, missing: Some(missing), threads: Vec::new(), occupants: HashMap::new() }
    }
}

fn name(names: &mut HashMap<u32, String>, thread: u32) -> String {
    let gone = || "threads without a name".to_owned();
    names.entry(thread).or_insert_with(|| os::thread_name(thread).unwrap_or_else(gone)).clone()
}

fn cycle(raw: &RawCycle, conversion: &Conversion, origin: Instant) -> Cycle {
    let ns = |count| conversion.ns_since(count, origin);
    let (park_ns, after_ns) = (ns(raw.before), ns(raw.after));
    Cycle {
        park_ns,
        reading: raw.reading,
        torn: after_ns - park_ns > TORN.as_nanos() as i64,
        unpark_ns: raw.unpark.map(|count| ns(count.get())),
    }
}

/// Every recorded tick of an instance, with its index.
fn ticks(instance: &Ticks, round: &Ended<'_>, origin: Instant) -> Vec<(u64, Tick)> {
    let grid = &round.grid;
    let shift_ns = ns_after(instance.start, origin);
    let recorded = grid.first_tick..grid.first_tick.saturating_add(grid.ticks);
    let mut all = Vec::with_capacity(instance.wakeups.len());
    for &(last, expirations, count, thread) in &instance.wakeups {
        let wake_ns = round.conversion.ns_since(count, origin);
        for tick in
            (last + 1).saturating_sub(expirations).max(recorded.start)..(last + 1).min(recorded.end)
        {
            let deadline_ns = grid.deadline_ns(tick).saturating_add(shift_ns);
            all.push((tick, Tick { deadline_ns, wake_ns, thread }));
        }
    }
    all
}

fn facts(
    session: &Session,
    round: &Ended<'_>,
    ticks: &[(u64, Vec<(u64, Tick)>)],
    threads: &[Thread],
    slack_ns: Option<u64>,
    kernel: Option<&Kernel>,
) -> RoundConditions {
    let median = |mut values: Vec<i64>| {
        values.sort_unstable();
        nearest_rank(&values, 0.5).and_then(|ns| u64::try_from(ns).ok()).unwrap_or(0)
    };
    let lateness =
        ticks.iter().flat_map(|(_, t)| t).map(|(_, t)| t.wake_ns - t.deadline_ns).collect();
    let way_ns = MAX_PATH_NS.min(median(lateness));
    let cpu = |pair: &[Cycle]| {
        i64::try_from(pair[1].reading.cpu_ns?.checked_sub(pair[0].reading.cpu_ns?)?).ok()
    };
    let usual_cpu_ns = match round.waits {
        // Whatever it does between deadline and wake-up is what it should not.
        Waits::Spins => way_ns,
        _ => median(threads.iter().flat_map(|t| t.cycles.windows(2).filter_map(cpu)).collect()),
    };
    RoundConditions {
        fault_ns: session.fault_ns,
        quota_period_ns: session.quotas.iter().map(|q| q.period_ns).max(),
        slack_ns: slack_ns.filter(|_| matches!(round.waits, Waits::Wheel | Waits::Sleep)),
        path_ns: way_ns + if round.waits == Waits::Wheel { WHEEL_NS } else { 0 },
        usual_cpu_ns: round.alone.then_some(usual_cpu_ns),
        continued_ns: kernel
            .map_or(Vec::new(), |k| os::continued_ns().into_iter().map(|ns| k.ns(ns)).collect()),
        steal_ns: round.steal_ns.unwrap_or(0),
        standstills: Vec::new(),
    }
}

/// Whether others ran meanwhile, where the switches of the CPUs are known.
fn beside(
    mut standstills: Vec<Standstill>,
    occupants: Option<&HashMap<u32, Vec<Occupant>>>,
) -> Vec<Standstill> {
    for of_one_cpu in occupants.into_iter().flat_map(HashMap::values) {
        standstills.iter_mut().for_each(|stood| stood.note_occupants(of_one_cpu));
    }
    standstills
}

/// Who ran when on which CPU; `None` where records were lost.
fn occupants(rings: &mut [SwitchRing], kernel: &Kernel) -> Option<HashMap<u32, Vec<Occupant>>> {
    let mut all: HashMap<u32, Vec<Occupant>> = HashMap::new();
    let mut lost = 0;
    for ring in rings {
        let drained = ring.drain();
        lost += drained.lost;
        for record in drained.switches {
            if let Some(thread) = record.next {
                all.entry(record.cpu)
                    .or_default()
                    .push(Occupant { at_ns: kernel.ns(record.at_ns), thread });
            }
        }
    }
    (lost == 0).then_some(all)
}

#[cfg(test)]
mod tests;
