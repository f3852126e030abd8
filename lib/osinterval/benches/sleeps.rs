//! What a sleep costs that never ends, as nearly all timeouts are, beside 4,096 others: tokio's,
//! and ours.
//!
//! `cargo bench -p osinterval --bench sleeps`. *Arm* is to make it and to poll it once, *cancel* to
//! drop it; tokio's, which have to be pinned, are made and boxed before. *Put off* moves the
//! deadline of one that waits.
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

/// A waker whose clone counts, as that of a task does.
struct Task;

impl Wake for Task {
    fn wake(self: Arc<Self>) {}
}

/// A runtime with a group, and what it has to do before it waits done.
struct Fixture {
    runtime: Runtime,
    group: IntervalGroup,
    waker: Waker,
    start: Instant,
    drawn: Cell<u64>,
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
        Self { runtime, group, waker: Waker::from(Arc::new(Task)), start, drawn: Cell::new(0) }
    }

    /// Spread over a minute, an hour away.
    fn deadline(&self) -> Instant {
        self.drawn.set(self.drawn.get().wrapping_add(0x9E37_79B9_7F4A_7C15));
        self.start + Duration::from_secs(3_600) + Duration::from_nanos(self.drawn.get() >> 28)
    }

    fn armed<S: Future + Unpin>(&self, mut sleep: S) -> S {
        let _ = black_box(Pin::new(&mut sleep).poll(&mut Context::from_waker(&self.waker)));
        sleep
    }

    /// As many as the bench is about, and the driver's turn after them.
    fn crowd<S: Future + Unpin>(&self, mut make: impl FnMut() -> S) -> Vec<S> {
        let crowd = (0..PENDING).map(|_| self.armed(make())).collect();
        self.runtime.block_on(async {
            for _ in 0..10 {
                tokio::task::yield_now().await;
            }
        });
        crowd
    }

    fn arm<D, S: Future + Unpin>(
        &self,
        bencher: Bencher<'_, '_>,
        prepare: impl Fn(Instant) -> D,
        make: impl Fn(D) -> S,
    ) {
        let _runtime = self.runtime.enter();
        let _crowd = self.crowd(|| make(prepare(self.deadline())));
        bencher
            .with_inputs(|| prepare(self.deadline()))
            .bench_local_values(|prepared| self.armed(make(prepared)));
    }

    fn cancel<S: Future + Unpin>(&self, bencher: Bencher<'_, '_>, make: impl Fn(Instant) -> S) {
        let _runtime = self.runtime.enter();
        let _crowd = self.crowd(|| make(self.deadline()));
        bencher.with_inputs(|| self.armed(make(self.deadline()))).bench_local_values(drop);
    }
}

fn tokios(deadline: Instant) -> Pin<Box<tokio::time::Sleep>> {
    Box::pin(tokio::time::sleep_until(deadline))
}

#[divan::bench(sample_size = 500, sample_count = 200)]
fn arm_of_a_group(bencher: Bencher<'_, '_>) {
    let fixture = Fixture::new();
    fixture.arm(bencher, |deadline| deadline, |deadline| fixture.group.sleep_until(deadline));
}

#[divan::bench(sample_size = 500, sample_count = 200)]
fn arm_of_the_runtime(bencher: Bencher<'_, '_>) {
    Fixture::new().arm(bencher, |deadline| deadline, osinterval::sleep_until);
}

#[divan::bench(sample_size = 500, sample_count = 200)]
fn arm_tokios(bencher: Bencher<'_, '_>) {
    Fixture::new().arm(bencher, tokios, |made| made);
}

#[divan::bench(sample_size = 500, sample_count = 200)]
fn cancel_of_a_group(bencher: Bencher<'_, '_>) {
    let fixture = Fixture::new();
    fixture.cancel(bencher, |deadline| fixture.group.sleep_until(deadline));
}

#[divan::bench(sample_size = 500, sample_count = 200)]
fn cancel_of_the_runtime(bencher: Bencher<'_, '_>) {
    Fixture::new().cancel(bencher, osinterval::sleep_until);
}

#[divan::bench(sample_size = 500, sample_count = 200)]
fn cancel_tokios(bencher: Bencher<'_, '_>) {
    Fixture::new().cancel(bencher, tokios);
}

#[divan::bench(sample_size = 500, sample_count = 200)]
fn put_off(bencher: Bencher<'_, '_>) {
    let fixture = Fixture::new();
    let mut crowd = fixture.crowd(|| fixture.group.sleep_until(fixture.deadline()));
    let mut later = fixture.deadline() + Duration::from_secs(100);
    let mut which = 0;
    bencher.bench_local(|| {
        which = (which + 1) % crowd.len();
        later += Duration::from_nanos(1);
        Pin::new(&mut crowd[which]).reset(later);
    });
}

#[divan::bench(sample_size = 500, sample_count = 200)]
fn put_off_tokios(bencher: Bencher<'_, '_>) {
    let fixture = Fixture::new();
    let _runtime = fixture.runtime.enter();
    let mut crowd = fixture.crowd(|| tokios(fixture.deadline()));
    let mut later = fixture.deadline() + Duration::from_secs(100);
    let mut which = 0;
    bencher.bench_local(|| {
        which = (which + 1) % crowd.len();
        later += Duration::from_nanos(1);
        crowd[which].as_mut().reset(later);
    });
}
