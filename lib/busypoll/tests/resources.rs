//! Tests of typed resources: one value per type, reachable from tasks, dropped when replaced.
mod common;

use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use busypoll::time::sleep;
use busypoll::{Resources, spawn_boxed, yield_now};
use common::run_in_every_mode;

const HOUR: Duration = Duration::from_secs(3_600);

#[derive(Debug, PartialEq)]
struct Count(u32);
struct Name(&'static str);

#[test]
fn tasks_share_one_value_per_type() {
    run_in_every_mode(|runtime| {
        runtime.resources().insert(Count(0));
        runtime.resources().insert(Name("here"));
        runtime.block_on(async {
            let tasks: Vec<_> = (0..10)
                .map(|_| {
                    spawn_boxed(async {
                        let resources = Resources::current();
                        for _ in 0..10 {
                            resources.with_mut(|count: &mut Count| count.0 += 1);
                            yield_now().await;
                        }
                        resources.with(|name: &Name| name.0)
                    })
                })
                .collect();
            for task in tasks {
                assert_eq!(task.await.unwrap(), "here");
            }
        });
        assert_eq!(runtime.resources().with(|count: &Count| count.0), 100);
    });
}

#[test]
fn runtime_starts_without_resources() {
    run_in_every_mode(|runtime| {
        runtime.block_on(async {
            assert!(!Resources::current().contains::<Count>());
            assert!(Resources::current().get::<Count>().is_none());
            // Values inserted inside the runtime are visible outside of it.
            Resources::current().insert(Count(3));
        });
        assert_eq!(runtime.resources().with(|count: &Count| count.0), 3);
    });
}

#[test]
fn resources_work_without_runtime() {
    let resources = Resources::new();
    resources.insert(Count(1));
    let kept = resources.get::<Count>().unwrap();
    resources.insert(Count(2));
    assert_eq!(*kept.borrow(), Count(1), "a replaced value must not change");
    assert_eq!(resources.clone().with(|count: &Count| count.0), 2);
    assert!(resources.remove::<Count>() && !resources.remove::<Count>());
}

#[test]
fn nested_access_to_other_types() {
    let resources = Resources::new();
    resources.insert(Count(1));
    resources.insert(Name("x"));
    let both = resources.with_mut(|count: &mut Count| {
        count.0 += 1;
        resources.with(|name: &Name| (count.0, name.0))
    });
    assert_eq!(both, (2, "x"));
}

#[test]
fn replaced_values_are_dropped() {
    let alive = Rc::new(());
    let resources = Resources::new();
    resources.insert(Rc::clone(&alive));
    resources.insert(Rc::clone(&alive));
    assert_eq!(Rc::strong_count(&alive), 2);
    drop(resources);
    assert_eq!(Rc::strong_count(&alive), 1);
}

#[test]
fn runtime_drops_values_that_hold_it() {
    run_in_every_mode(|runtime| {
        let alive = Rc::new(());
        let held = Rc::clone(&alive);
        runtime.block_on(async {
            let timer = sleep(HOUR);
            let task = spawn_boxed(std::future::pending::<()>());
            Resources::current().insert((timer, task, held));
        });
        drop(std::mem::replace(runtime, busypoll::Runtime::new().unwrap()));
        assert_eq!(Rc::strong_count(&alive), 1);
    });
}

/// A value whose destructor spawns a task and inserts another value, both with a timer of the
/// runtime, and then panics.
struct SpawnOnDrop(Rc<()>);

impl Drop for SpawnOnDrop {
    fn drop(&mut self) {
        let held = (sleep(HOUR), Rc::clone(&self.0));
        let task = spawn_boxed(async move {
            let _held = held;
            std::future::pending::<()>().await;
        });
        assert!(task.is_finished(), "the runtime has dropped its tasks");
        Resources::current().insert((sleep(HOUR), Rc::clone(&self.0)));
        std::panic::resume_unwind(Box::new("on purpose"));
    }
}

struct CountingWaker(AtomicUsize);

impl Wake for CountingWaker {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn runtime_drops_what_destructors_add() {
    run_in_every_mode(|runtime| {
        let alive = Rc::new(());
        runtime.resources().insert(SpawnOnDrop(Rc::clone(&alive)));
        let woken = Arc::new(CountingWaker(AtomicUsize::new(0)));
        let waker = Waker::from(Arc::clone(&woken));
        let (timer, polled) = runtime.block_on(async {
            let mut timer = Box::pin(sleep(HOUR));
            let polled = timer.as_mut().poll(&mut Context::from_waker(&waker));
            (timer, polled)
        });
        assert!(polled.is_pending());
        drop(std::mem::replace(runtime, busypoll::Runtime::new().unwrap()));
        assert_eq!(Rc::strong_count(&alive), 1);
        assert_eq!(woken.0.load(Ordering::Relaxed), 1, "the timer of another runtime's task");
        drop(timer);
    });
}

#[test]
#[should_panic(expected = "no resource of type `resources::Count`")]
fn missing_value_panics_with_type() {
    Resources::new().with(|count: &Count| count.0);
}

#[test]
#[should_panic(expected = "inside `block_on`")]
fn current_panics_outside_runtime() {
    drop(Resources::current());
}
