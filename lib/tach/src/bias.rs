//! Lets one thread read the counter without a fence, as long as no other thread reads it.
//!
//! [`MonotonicInstant`](crate::MonotonicInstant) promises that a reading *b* is not less than a
//! reading *a* if *a* happened before *b*. If all cores have equal counters, this can fail in one
//! way only: the CPU samples the counter for *b* before the loads by which the thread noticed that
//! *a* had happened. A fence rules that out, at the cost of several nanoseconds. But while all
//! readings come from one thread, there is no such load.
//!
//! So the order is *biased* towards one thread, as a biased lock is (Kawachiya, Koseki, Onodera:
//! Lock Reservation, OOPSLA 2002; Russell, Detlefs: Eliminating Synchronization-Related Atomic
//! Operations with Biased Locking and Bulk Rebiasing, OOPSLA 2006). The thread that has the bias
//! reads without a fence. Another thread that reads takes the bias away first. From then on, all
//! threads read with a fence and write to no shared word, until a thread takes the bias that has
//! read several times in a row.
//!
//! # Protocol
//!
//! The *epoch* is a number that grows by one when the bias is taken or taken away. In an odd epoch
//! one thread has the bias, namely the one that began the epoch. In an even epoch no thread has it.
//! A reading has these steps:
//!
//! 1. Load the epoch, which selects the kind of the sample.
//! 2. Sample the counter: bare if this thread has the bias, after a fence if the epoch is even. If
//!    another thread has the bias, end the epoch first.
//! 3. Load the epoch again. If it has changed, start over.
//! 4. In an odd epoch, return the maximum of the sample and the previous reading of this thread in
//!    this epoch.
//!
//! A thread takes the bias in an even epoch: it exchanges the epoch, and makes a reading with a
//! fence, which counts as the first of the odd epoch.
//!
//! # Proof
//!
//! The argument needs five properties of the processor. An event precedes another one if every
//! observer of the memory sees it first.
//!
//! 1. *The sample precedes step 3.* The address of the second load depends on the sample. Neither
//!    x86 nor Arm performs a load before its address is known; Linux relies on the same for its own
//!    clock (`arch_counter_enforce_ordering` of arm64).
//! 2. *Step 3 precedes every later store of the thread.* x86 keeps the order of a load and a later
//!    store (Intel SDM volume 3, 9.2.2; AMD APM volume 2, 7.2). On Arm a store is ordered after a
//!    load on which a branch before the store depends (Arm ARM, B2.3: dependency-ordered-before).
//!    The branch is the comparison of step 3.
//! 3. *Step 3 follows every earlier load of the thread.* x86 keeps the order of loads. Arm keeps it
//!    after an acquire load and across the acquire fence before step 1.
//! 4. *A sample after a fence follows every earlier load of the thread.* This is the contract of
//!    `counter::ordered_count` and `counter::count_after_fence`, which cite the manuals.
//! 5. *Counters are equal*: of two samples, the one that precedes is not greater. The kernel has
//!    checked this on x86, and the architecture specifies it on Arm (see
//!    [`CrossThreadOrder`](crate::CrossThreadOrder)). Otherwise the bias is not used at all.
//!
//! Let *a* and *b* be readings such that *a* happened before *b*: a chain of stores and loads
//! begins with a store of the thread of *a* after *a*, and ends with a load of the thread of *b*
//! before *b*; or both readings are by one thread. Let *i* and *j* be their epochs, which step 3
//! loaded. By 2 and 3, step 3 of *a* precedes step 3 of *b*, so *i* ≤ *j*, since the epoch only
//! grows.
//!
//! - *j* is even. The sample of *b* follows a fence. By 1 and 2, the sample of *a* precedes the
//!   store of its thread; by 4, the load of the thread of *b* precedes the sample of *b*. If one
//!   thread made both readings, step 3 of *a* is such a load. By 5, *a* ≤ *b* if *a* is a sample. If
//!   *a* is a maximum of samples of its thread, the same is true of each of them.
//! - *j* is odd and *i* = *j*. Only the thread with the bias reads in that epoch, so it made both
//!   readings, and *b* is a maximum that includes *a*.
//! - *j* is odd and *i* < *j*. The thread of *b* began epoch *j* by an exchange. Step 3 of *a* loaded
//!   a smaller epoch, so it precedes the exchange, and by 1 so does the sample of *a* (and each one
//!   whose maximum *a* is). The first reading of epoch *j* has a sample that follows the exchange:
//!   on x86 by 4, because an exchange is performed at once and `lfence` and `rdtscp` wait for it; on
//!   Arm a barrier orders the exchange before another load of the epoch, and by 4 that load precedes
//!   the sample. By 5, *a* is not greater than this first reading, and *b* is a maximum that includes
//!   it. ∎
//!
//! Step 3 is what allows the bias to be taken again. Without it, a thread could load an even epoch,
//! lose its CPU, and sample the counter long after another thread has taken the bias.
//!
//! Nothing is assumed about how the threads synchronise. A chain through a third thread, the kernel
//! (a pipe, a signal, a join) or relaxed accesses is a chain of stores and loads as well.
//!
//! A signal handler may interrupt a reading anywhere: the bias counts as taken only after the first
//! reading of the epoch. The interrupted reading may then store a smaller maximum than that of the
//! handler. Later samples are still not less, because the return from a signal goes through the
//! kernel, which waits for earlier instructions on x86 (`iret`) and on Arm (`eret`).
//!
//! A child process after `fork` inherits the epoch with the thread that has the bias, or with a
//! thread that no longer exists, whose bias the next reading takes away. The bias of a thread that
//! has ended is never inherited, since a new thread starts without one.
//!
//! The tests contain a model of the protocol for loom, in which the counter is a word that all
//! threads increment, and a bare sample may be taken before earlier loads. `tests/order.rs` reads
//! the real counter.

use std::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};
use std::sync::atomic::{AtomicU32, AtomicUsize};

use crate::atomic_words::AtomicU64;

#[cfg(not(loom))]
use std::sync::atomic::{AtomicUsize as EpochWord, fence};

#[cfg(loom)]
use loom::sync::atomic::{AtomicUsize as EpochWord, fence};

/// The first epoch of a process.
const FIRST_EPOCH: usize = 2;
/// The epoch of a thread that does not have the bias.
const NO_EPOCH: usize = 0;
/// The epoch of a thread that has not read the counter yet. No thread has the bias in it, so the
/// first reading treats it as a bias that was lost.
const EPOCH_BEFORE_FIRST: usize = 1;
/// The last epoch in which the bias can be taken, so that the epoch never wraps around.
const LAST_EPOCH: usize = usize::MAX / 2;

/// The readings with a fence after which a thread takes the bias. The number doubles if the thread
/// loses the bias soon, up to a maximum that costs each thread one exchange per millisecond.
const MIN_FENCED_READS: u32 = 16;
const MAX_FENCED_READS: u32 = 1 << 16;
/// The readings after which the bias has been worth its costs: some hundred nanoseconds to take it
/// and to lose it, and some nanoseconds less for each reading.
const MIN_BIASED_READS: u32 = 256;

/// The epoch of the process; see the module.
///
/// Every reading loads it and few store it, so it has a cache line (or a pair) of its own.
#[repr(align(128))]
pub(crate) struct Bias {
    /// The epoch, and a word that is never used. The index is the highest bit of a count, which is
    /// zero.
    epoch: [EpochWord; 2],
}

/// The state of a thread. Only the thread and its signal handlers access it.
pub(crate) struct ThreadBias {
    /// The epoch in which the thread has the bias, `NO_EPOCH` or `EPOCH_BEFORE_FIRST`.
    epoch: AtomicUsize,
    /// The previous reading, if the thread has the bias.
    last: AtomicU64,
    /// The remaining readings with a fence until the thread takes the bias.
    remaining_reads: AtomicU32,
    /// The readings with a fence that are needed for the bias.
    fenced_reads: AtomicU32,
    /// The readings since the thread took the bias. It may wrap around, since it only helps to choose
    /// the number above.
    biased_reads: AtomicU32,
}

fn is_biased(epoch: usize) -> bool {
    epoch % 2 == 1
}

impl ThreadBias {
    pub(crate) const fn new() -> Self {
        Self {
            epoch: AtomicUsize::new(EPOCH_BEFORE_FIRST),
            last: AtomicU64::new(0),
            remaining_reads: AtomicU32::new(0),
            fenced_reads: AtomicU32::new(MIN_FENCED_READS),
            biased_reads: AtomicU32::new(MIN_BIASED_READS),
        }
    }

    /// Returns true if a reading with a fence is to follow, and false if the bias is to be taken.
    fn count_fenced_read(&self) -> bool {
        let remaining = self.remaining_reads.load(Relaxed);
        self.remaining_reads.store(remaining.saturating_sub(1), Relaxed);
        remaining > 0
    }

    /// Chooses the number of readings for the next bias, if the thread has lost the last one.
    fn end_bias(&self) {
        if self.epoch.swap(NO_EPOCH, Relaxed) == NO_EPOCH {
            return;
        }
        let has_lasted = self.biased_reads.load(Relaxed) >= MIN_BIASED_READS;
        let doubled_reads = self.fenced_reads.load(Relaxed).saturating_mul(2);
        let reads = if has_lasted { MIN_FENCED_READS } else { doubled_reads.min(MAX_FENCED_READS) };
        self.fenced_reads.store(reads, Relaxed);
        self.remaining_reads.store(reads, Relaxed);
    }

    /// Records a sample, and returns the reading: the maximum of the samples of this epoch.
    #[inline]
    fn record_biased_read(&self, sample: u64) -> u64 {
        let reads = self.biased_reads.load(Relaxed);
        self.biased_reads.store(reads.wrapping_add(1), Relaxed);
        let count = sample.max(self.last.load(Relaxed));
        self.last.store(count, Relaxed);
        count
    }

    /// Begins the bias with the first reading of an epoch.
    fn begin_bias(&self, epoch: usize, first: u64) {
        self.biased_reads.store(0, Relaxed);
        self.last.store(first, Relaxed);
        // The epoch comes last: a signal handler that finds it must find the first reading.
        std::sync::atomic::compiler_fence(SeqCst);
        self.epoch.store(epoch, Relaxed);
    }
}

impl Bias {
    #[cfg(not(loom))]
    pub(crate) const fn new() -> Self {
        Self { epoch: [const { EpochWord::new(FIRST_EPOCH) }; 2] }
    }

    #[cfg(loom)]
    pub(crate) fn new() -> Self {
        Self { epoch: [EpochWord::new(FIRST_EPOCH), EpochWord::new(FIRST_EPOCH)] }
    }

    #[inline]
    fn epoch(&self) -> usize {
        self.epoch[0].load(Relaxed)
    }

    /// Loads the epoch from an address that depends on `count`, so after the count was sampled.
    #[inline]
    fn epoch_after(&self, count: u64) -> usize {
        self.epoch[(count >> 63) as usize].load(Relaxed)
    }

    /// Reads the counter by the bare instruction; `None` if the thread does not have the bias.
    #[inline]
    pub(crate) fn read_biased(
        &self,
        thread: &ThreadBias,
        bare_count: impl FnOnce() -> u64,
    ) -> Option<u64> {
        fence(Acquire);
        let epoch = self.epoch();
        if epoch != thread.epoch.load(Relaxed) {
            return None;
        }
        let count = bare_count();
        if self.epoch_after(count) != epoch {
            return None;
        }
        Some(thread.record_biased_read(count))
    }

    /// Reads the counter after a fence. Takes the bias from another thread, and takes it for this
    /// one if it is due.
    #[inline]
    pub(crate) fn read_fenced(&self, thread: &ThreadBias, ordered_count: impl Fn() -> u64) -> u64 {
        fence(Acquire);
        let epoch = self.epoch();
        if !is_biased(epoch) && thread.count_fenced_read() {
            let count = ordered_count();
            if self.epoch_after(count) == epoch {
                return count;
            }
        }
        self.read_in_new_epoch(thread, ordered_count)
    }

    #[cold]
    #[inline(never)]
    fn read_in_new_epoch(&self, thread: &ThreadBias, ordered_count: impl Fn() -> u64) -> u64 {
        thread.end_bias();
        loop {
            let epoch = self.epoch();
            let is_due = thread.remaining_reads.load(Relaxed) == 0 && epoch < LAST_EPOCH;
            let changes = is_biased(epoch) || is_due;
            let new = if changes { epoch + 1 } else { epoch };
            if changes && self.epoch[0].compare_exchange(epoch, new, SeqCst, Relaxed).is_err() {
                continue;
            }
            // On Arm the exchange may still be on its way when the next load is performed. The fence
            // orders it before this load, for which the ordered count waits.
            fence(SeqCst);
            if self.epoch() != new {
                continue;
            }
            let count = ordered_count();
            if self.epoch_after(count) != new {
                continue;
            }
            if is_biased(new) {
                thread.begin_bias(new, count);
            }
            return count;
        }
    }
}

#[cfg(not(loom))]
static BIAS: Bias = Bias::new();

#[cfg(not(loom))]
thread_local! {
    static THREAD_BIAS: ThreadBias = const { ThreadBias::new() };
}

/// Reads the counter by the bare instruction; `None` if the thread does not have the bias of the
/// process.
#[cfg(not(loom))]
#[inline]
pub(crate) fn read_biased(bare_count: impl FnOnce() -> u64) -> Option<u64> {
    THREAD_BIAS.try_with(|thread| BIAS.read_biased(thread, bare_count)).ok().flatten()
}

/// Reads the counter after a fence, and ends the bias of another thread.
#[cfg(not(loom))]
#[inline]
pub(crate) fn read_fenced(ordered_count: impl Fn() -> u64) -> u64 {
    THREAD_BIAS
        .try_with(|thread| BIAS.read_fenced(thread, &ordered_count))
        // On some platforms, a thread that is about to end has lost its variables.
        .unwrap_or_else(|_| BIAS.read_fenced(&ThreadBias::new(), &ordered_count))
}

/// The words of loom exist within a model only, so the process has no bias.
#[cfg(loom)]
pub(crate) fn read_biased(_: impl FnOnce() -> u64) -> Option<u64> {
    None
}

#[cfg(loom)]
pub(crate) fn read_fenced(ordered_count: impl Fn() -> u64) -> u64 {
    ordered_count()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// A counter that counts its readings.
    #[derive(Default)]
    struct Counter {
        count: Cell<u64>,
        bare_reads: Cell<u64>,
        fenced_reads: Cell<u64>,
    }

    impl Counter {
        fn advance(&self, reads: &Cell<u64>) -> u64 {
            reads.set(reads.get() + 1);
            self.count.set(self.count.get() + 1);
            self.count.get()
        }

        /// Reads as often as `reads`, and checks that no reading is less than the one before.
        fn read(&self, bias: &Bias, thread: &ThreadBias, reads: u32) {
            let mut last = 0;
            for _ in 0..reads {
                let biased = bias.read_biased(thread, || self.advance(&self.bare_reads));
                let count = biased.unwrap_or_else(|| {
                    bias.read_fenced(thread, || self.advance(&self.fenced_reads))
                });
                assert!(count >= last);
                last = count;
            }
        }

        /// Returns the bare and the fenced readings since the last call.
        fn take_reads(&self) -> (u64, u64) {
            (self.bare_reads.take(), self.fenced_reads.take())
        }
    }

    const MIN: u64 = MIN_FENCED_READS as u64;

    fn take_bias(bias: &Bias, thread: &ThreadBias) {
        for count in 1..=MIN + 2 {
            assert_eq!(bias.read_biased(thread, || unreachable!("no bias yet")), None);
            bias.read_fenced(thread, || count);
        }
    }

    #[test]
    fn lone_thread_gets_the_bias() {
        let (bias, thread, counter) = (Bias::new(), ThreadBias::new(), Counter::default());
        counter.read(&bias, &thread, 1_000);
        // One reading before the count of them begins, and one to take the bias.
        assert_eq!(counter.take_reads(), (1_000 - MIN - 2, MIN + 2));
    }

    #[test]
    fn other_thread_ends_the_bias() {
        let (bias, counter) = (Bias::new(), Counter::default());
        let threads = [ThreadBias::new(), ThreadBias::new()];
        counter.read(&bias, &threads[0], 1_000);
        counter.take_reads();
        counter.read(&bias, &threads[1], 1);
        assert_eq!(counter.take_reads(), (0, 1));
        // The sample that the first thread has taken before is valid only if the bias still is.
        counter.read(&bias, &threads[0], 1);
        assert_eq!(counter.take_reads(), (0, 1));
        counter.read(&bias, &threads[0], 1_000);
        assert_eq!(counter.take_reads(), (1_000 - MIN - 1, MIN + 1));
    }

    /// Returns how many readings with a fence a thread needs for the bias.
    fn count_reads_to_bias(bias: &Bias, thread: &ThreadBias, counter: &Counter) -> u64 {
        counter.take_reads();
        while thread.epoch.load(Relaxed) != bias.epoch() {
            counter.read(bias, thread, 1);
        }
        let (_, fenced_reads) = counter.take_reads();
        fenced_reads
    }

    #[test]
    fn bias_lost_soon_takes_longer() {
        let (bias, counter) = (Bias::new(), Counter::default());
        let (thread, other) = (ThreadBias::new(), ThreadBias::new());
        for doublings in 0..=20 {
            let reads = count_reads_to_bias(&bias, &thread, &counter);
            let expected = (MIN << doublings).min(u64::from(MAX_FENCED_READS)) + 2;
            assert_eq!(reads, expected, "{doublings} doublings");
            counter.read(&bias, &thread, MIN_BIASED_READS - 1);
            counter.read(&bias, &other, 1);
        }
        count_reads_to_bias(&bias, &thread, &counter);
        counter.read(&bias, &thread, MIN_BIASED_READS);
        counter.read(&bias, &other, 1);
        assert_eq!(count_reads_to_bias(&bias, &thread, &counter), MIN + 2);
    }

    #[test]
    fn biased_readings_never_go_back() {
        let (bias, thread) = (Bias::new(), ThreadBias::new());
        take_bias(&bias, &thread);
        assert_eq!(bias.read_biased(&thread, || 200), Some(200));
        assert_eq!(bias.read_biased(&thread, || 150), Some(200));
        assert_eq!(bias.read_biased(&thread, || 201), Some(201));
    }

    #[test]
    fn ended_bias_discards_the_sample() {
        let (bias, thread) = (Bias::new(), ThreadBias::new());
        take_bias(&bias, &thread);
        let other = ThreadBias::new();
        let end_bias = || bias.read_fenced(&other, || 100);
        assert_eq!(bias.read_biased(&thread, end_bias), None);
        assert_eq!(bias.read_biased(&thread, || 101), None);
    }
}

/// A model of the protocol, in which loom tries every schedule and every value that a load may
/// return.
///
/// The counter is a word that each sample increments. Since it is incremented with `AcqRel`, the
/// samples order memory like physical time: a load after a sample cannot miss a store that was
/// performed before an earlier sample. A bare sample may be taken before loads that precede it in
/// the program, but not before the last fence, so the model takes it at that fence.
#[cfg(all(test, loom))]
mod model {
    use std::cell::Cell;

    use loom::sync::Arc;
    use loom::sync::atomic::AtomicU64;
    use loom::sync::atomic::Ordering::AcqRel;

    use super::*;

    struct Process {
        bias: Bias,
        counter: AtomicU64,
        published: AtomicU64,
    }

    impl Process {
        fn new() -> Self {
            let (counter, published) = (AtomicU64::new(1), AtomicU64::new(0));
            Self { bias: Bias::new(), counter, published }
        }

        fn sample(&self) -> u64 {
            self.counter.fetch_add(1, AcqRel)
        }
    }

    #[derive(Clone, Copy)]
    enum BareSample {
        /// At the last fence.
        Early,
        /// In the order of the program.
        InPlace,
    }

    struct Reader {
        process: Arc<Process>,
        thread: ThreadBias,
        bare_sample: BareSample,
        early: Cell<u64>,
    }

    impl Reader {
        fn new(process: &Arc<Process>, bare_sample: BareSample) -> Self {
            let (process, thread) = (Arc::clone(process), ThreadBias::new());
            Self { process, thread, bare_sample, early: Cell::new(0) }
        }

        fn sample_after_fence(&self) -> u64 {
            let count = self.process.sample();
            self.early.set(self.process.sample());
            count
        }

        fn bare_sample(&self) -> u64 {
            match self.bare_sample {
                BareSample::Early => self.early.get(),
                BareSample::InPlace => self.process.sample(),
            }
        }

        fn read(&self) -> u64 {
            let bias = &self.process.bias;
            let biased = bias.read_biased(&self.thread, || self.bare_sample());
            biased.unwrap_or_else(|| bias.read_fenced(&self.thread, || self.sample_after_fence()))
        }

        /// Loads the reading that a thread has published, reads, compares, and publishes.
        fn check(&self) {
            let before = self.process.published.load(Acquire);
            let now = self.read();
            assert!(now >= before, "{now} after {before}");
            self.process.published.store(now, std::sync::atomic::Ordering::Release);
        }

        /// Checks readings of a thread that takes the bias whenever no thread has it.
        fn check_greedy(&self, reads: usize) {
            self.thread.epoch.store(NO_EPOCH, Relaxed);
            for _ in 0..reads {
                self.thread.remaining_reads.store(0, Relaxed);
                self.thread.fenced_reads.store(0, Relaxed);
                self.check();
            }
        }

        /// Checks readings of a thread that never takes the bias.
        fn check_modest(&self, reads: usize) {
            (0..reads).for_each(|_| self.check());
        }
    }

    /// Runs a model with each kind of bare sample of the first thread and of the others.
    fn run(
        preemptions: usize,
        model: impl Fn(BareSample, BareSample) + Sync + Send + Copy + 'static,
    ) {
        for first in [BareSample::Early, BareSample::InPlace] {
            for others in [BareSample::Early, BareSample::InPlace] {
                let mut builder = loom::model::Builder::new();
                builder.preemption_bound = Some(preemptions);
                builder.check(move || model(first, others));
            }
        }
    }

    fn spawn_reader(
        process: &Arc<Process>,
        bare_sample: BareSample,
        check: impl FnOnce(&Reader) + 'static,
    ) -> loom::thread::JoinHandle<()> {
        let process = Arc::clone(process);
        loom::thread::spawn(move || check(&Reader::new(&process, bare_sample)))
    }

    #[test]
    fn bias_is_taken_and_ended() {
        run(3, |first, others| {
            let process = Arc::new(Process::new());
            let other = spawn_reader(&process, others, |reader| reader.check_modest(2));
            Reader::new(&process, first).check_greedy(3);
            other.join().unwrap();
        });
    }

    #[test]
    fn two_threads_take_the_bias() {
        run(3, |first, others| {
            let process = Arc::new(Process::new());
            let other = spawn_reader(&process, others, |reader| reader.check_greedy(3));
            Reader::new(&process, first).check_greedy(2);
            other.join().unwrap();
        });
    }

    #[test]
    fn third_thread_passes_on_readings() {
        run(1, |first, others| {
            let process = Arc::new(Process::new());
            let greedy = spawn_reader(&process, others, |reader| reader.check_greedy(2));
            let modest = spawn_reader(&process, others, |reader| reader.check_modest(1));
            Reader::new(&process, first).check_greedy(2);
            greedy.join().unwrap();
            modest.join().unwrap();
        });
    }
}
