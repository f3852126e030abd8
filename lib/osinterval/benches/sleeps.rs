//! Measures the cost of a sleep that never fires, as nearly all timeouts are, while 4,096 others
//! are pending: tokio's and those of this crate.
//!
//! Run it with `cargo bench -p osinterval --bench sleeps`. *Arm* creates a sleep and polls it once,
//! *cancel* drops it, and *postpone* moves the deadline of a sleep that waits. tokio's sleeps,
//! which have to be pinned, are created and boxed before they are measured.
#![allow(clippy::unwrap_used, reason = "a measuring program may panic")]

use std::cell::Cell;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use divan::{Bencher, black_box};
use osinterval::IntervalGroup;
use tokio::runtime::Runtime;
use tokio::time::Instant;

const PENDING: u64 = 4_096;

fn main() {
    divan::main();
}

/// A waker with a reference count, like that of a task.
struct TaskWaker;

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {}
}

/// A runtime with a group; the drivers of both have run until they wait.
struct Fixture {
    runtime: Runtime,
    group: IntervalGroup,
    waker: Waker,
    start: Instant,
    random: Cell<u64>,
}

impl Fixture {
    fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let group = runtime.block_on(async {
            let group =
                IntervalGroup::builder().resolution(Duration::from_nanos(1)).build().unwrap();
            osinterval::sleep(Duration::from_millis(1)).await;
            group.sleep(Duration::from_millis(1)).await;
            group
        });
        let start = Instant::now();
        Self {
            runtime,
            group,
            waker: Waker::from(Arc::new(TaskWaker)),
            start,
            random: Cell::new(0),
        }
    }

    /// The next deadline: an hour away, spread over a minute.
    fn next_deadline(&self) -> Instant {
        self.random.set(self.random.get().wrapping_add(0x9E37_79B9_7F4A_7C15));
        self.start + Duration::from_secs(3_600) + Duration::from_nanos(self.random.get() >> 28)
    }

    fn poll_once<S: Future + Unpin>(&self, mut sleep: S) -> S {
        let _ = black_box(Pin::new(&mut sleep).poll(&mut Context::from_waker(&self.waker)));
        sleep
    }

    /// Creates the sleeps that are pending during a benchmark, and lets the driver run.
    fn create_pending<S: Future + Unpin>(&self, mut create: impl FnMut() -> S) -> Vec<S> {
        let pending = (0..PENDING).map(|_| self.poll_once(create())).collect();
        self.runtime.block_on(async {
            for _ in 0..10 {
                tokio::task::yield_now().await;
            }
        });
        pending
    }

    fn arm<D, S: Future + Unpin>(
        &self,
        bencher: Bencher<'_, '_>,
        prepare: impl Fn(Instant) -> D,
        create: impl Fn(D) -> S,
    ) {
        let _runtime = self.runtime.enter();
        let _pending = self.create_pending(|| create(prepare(self.next_deadline())));
        bencher
            .with_inputs(|| prepare(self.next_deadline()))
            .bench_local_values(|prepared| self.poll_once(create(prepared)));
    }

    fn cancel<S: Future + Unpin>(&self, bencher: Bencher<'_, '_>, create: impl Fn(Instant) -> S) {
        let _runtime = self.runtime.enter();
        let _pending = self.create_pending(|| create(self.next_deadline()));
        let bencher = bencher.with_inputs(|| self.poll_once(create(self.next_deadline())));
        bencher.bench_local_values(drop);
    }
}

fn tokio_sleep(deadline: Instant) -> Pin<Box<tokio::time::Sleep>> {
    Box::pin(tokio::time::sleep_until(deadline))
}

#[divan::bench(sample_size = 500, sample_count = 200)]
fn arm_group(bencher: Bencher<'_, '_>) {
    let fixture = Fixture::new();
    fixture.arm(bencher, |deadline| deadline, |deadline| fixture.group.sleep_until(deadline));
}

#[divan::bench(sample_size = 500, sample_count = 200)]
fn arm_runtime(bencher: Bencher<'_, '_>) {
    Fixture::new().arm(bencher, |deadline| deadline, osinterval::sleep_until);
}

#[divan::bench(sample_size = 500, sample_count = 200)]
fn arm_tokio(bencher: Bencher<'_, '_>) {
    Fixture::new().arm(bencher, tokio_sleep, |sleep| sleep);
}

#[divan::bench(sample_size = 500, sample_count = 200)]
fn cancel_group(bencher: Bencher<'_, '_>) {
    let fixture = Fixture::new();
    fixture.cancel(bencher, |deadline| fixture.group.sleep_until(deadline));
}

#[divan::bench(sample_size = 500, sample_count = 200)]
fn cancel_runtime(bencher: Bencher<'_, '_>) {
    Fixture::new().cancel(bencher, osinterval::sleep_until);
}

#[divan::bench(sample_size = 500, sample_count = 200)]
fn cancel_tokio(bencher: Bencher<'_, '_>) {
    Fixture::new().cancel(bencher, tokio_sleep);
}

#[divan::bench(sample_size = 500, sample_count = 200)]
fn postpone_group(bencher: Bencher<'_, '_>) {
    let fixture = Fixture::new();
    let mut pending = fixture.create_pending(|| fixture.group.sleep_until(fixture.next_deadline()));
    let mut deadline = fixture.next_deadline() + Duration::from_secs(100);
    let mut index = 0;
    bencher.bench_local(|| {
        index = (index + 1) % pending.len();
        deadline += Duration::from_nanos(1);
        Pin::new(&mut pending[index]).reset(deadline);
    });
}

#[divan::bench(sample_size = 500, sample_count = 200)]
fn postpone_tokio(bencher: Bencher<'_, '_>) {
    let fixture = Fixture::new();
    let _runtime = fixture.runtime.enter();
    let mut pending = fixture.create_pending(|| tokio_sleep(fixture.next_deadline()));
    let mut deadline = fixture.next_deadline() + Duration::from_secs(100);
    let mut index = 0;
    bencher.bench_local(|| {
        index = (index + 1) % pending.len();
        deadline += Duration::from_nanos(1);
        pending[index].as_mut().reset(deadline);
    });
}
