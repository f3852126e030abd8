//! What allocates, and what does not once it is warm. Counted on this thread by the allocator
//! itself.

use std::future::poll_fn;
use std::task::Poll;

use busypoll::channel::local;
use busypoll::{
    CancellationToken, Resources, Runtime, spawn_boxed, spawn_slab, try_claim_slab, yield_now,
};

/// Allocations during `f`, on this thread.
async fn allocations_in(f: impl AsyncFnOnce()) -> u64 {
    // The counter takes closures only; the polls of one future are as many closures.
    let mut future = std::pin::pin!(f());
    let mut total = 0;
    poll_fn(|cx| {
        let mut polled = Poll::Pending;
        let counted = allocation_counter::measure(|| polled = future.as_mut().poll(cx));
        total += counted.count_total;
        polled
    })
    .await;
    total
}

/// Nothing of the whole loop escapes the count: that of everything that happens in `block_on`.
fn allocations_of(runtime: &mut Runtime, mut f: impl AsyncFnMut()) -> u64 {
    // Twice first: memory that is kept for the next time is taken now.
    runtime.block_on(f());
    runtime.block_on(f());
    allocation_counter::measure(|| runtime.block_on(f())).count_total
}

#[test]
fn the_count_counts() {
    let mut runtime = Runtime::builder().slab(512, 64).build().unwrap();
    let boxed = allocations_of(&mut runtime, async || {
        for _ in 0..100 {
            spawn_boxed(yield_now()).await.unwrap();
        }
    });
    assert!((100..200).contains(&boxed), "{boxed}: one for each boxed task, and nothing else");
    runtime.block_on(async {
        assert_eq!(allocations_in(async || drop(Box::new(1))).await, 1);
    });
}

#[test]
fn a_slab_task_s_life_allocates_nothing() {
    let mut runtime = Runtime::builder().slab(512, 64).build().unwrap();
    let allocations = allocations_of(&mut runtime, async || {
        for i in 0..1_000_u32 {
            let first = spawn_slab(async move {
                yield_now().await;
                i
            });
            let second = try_claim_slab().unwrap().spawn(yield_now());
            assert_eq!(first.await.unwrap(), i);
            second.await.unwrap();
            drop(spawn_slab(yield_now()));
            spawn_slab(std::future::pending::<()>()).abort();
            yield_now().await;
            yield_now().await;
        }
        // All sixty-four at once.
        let claims: [_; 60] = std::array::from_fn(|_| try_claim_slab().unwrap());
        for handle in claims.map(|claim| claim.spawn(yield_now())) {
            handle.await.unwrap();
        }
    });
    assert_eq!(allocations, 0);
}

#[test]
fn a_full_slab_that_grows_allocates_a_chunk() {
    let mut runtime = Runtime::builder().slab_growing(512, 2).build().unwrap();
    runtime.block_on(async {
        let claims: Vec<_> = (0..2).map(|_| try_claim_slab().unwrap()).collect();
        assert!(allocations_in(async || drop(try_claim_slab())).await > 0);
        drop(claims);
        assert_eq!(allocations_in(async || drop(try_claim_slab())).await, 0);
    });
}

#[test]
fn a_warm_loop_of_timers_channels_tokens_and_resources_allocates_nothing() {
    let mut runtime = Runtime::builder().slab(512, 8).build().unwrap();
    runtime.resources().insert(0_u32);
    let (sender, mut receiver) = local::channel(4);
    let token = CancellationToken::new();
    let mut interval =
        runtime.block_on(async { busypoll::time::interval(std::time::Duration::from_micros(20)) });
    // On a slow machine every tick of a warm-up may be due already, and the queue of timers stay
    // without memory.
    runtime.block_on(async { busypoll::time::sleep(std::time::Duration::from_millis(5)).await });
    let allocations = allocations_of(&mut runtime, async || {
        for i in 0..200 {
            interval.tick().await;
            sender.send(i).await.unwrap();
            assert_eq!(token.run_until_cancelled(receiver.recv()).await, Some(Some(i)));
            Resources::current().with_mut(|count: &mut u32| *count += 1);
        }
    });
    assert_eq!(allocations, 0);
}

#[test]
#[cfg(feature = "net")]
fn a_warm_exchange_of_datagrams_allocates_nothing() {
    use busypoll::io::UdpSocket;
    let mut runtime = Runtime::builder().slab(512, 8).build().unwrap();
    let (one, other) = runtime.block_on(async {
        let bind = || UdpSocket::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let (one, other) = (bind(), bind());
        one.connect(other.local_addr().unwrap()).unwrap();
        other.connect(one.local_addr().unwrap()).unwrap();
        (std::rc::Rc::new(one), std::rc::Rc::new(other))
    });
    let allocations = allocations_of(&mut runtime, async || {
        let echo = std::rc::Rc::clone(&other);
        let echo = spawn_slab(async move {
            let mut buf = [0; 16];
            for _ in 0..200 {
                let n = echo.recv(&mut buf).await.unwrap();
                echo.send(&buf[..n]).await.unwrap();
            }
        });
        for _ in 0..200 {
            one.send(b"datagram").await.unwrap();
            assert_eq!(one.recv(&mut [0; 16]).await.unwrap(), 8);
        }
        echo.await.unwrap();
    });
    // On Windows, waiting itself takes memory.
    assert!(allocations == 0 || cfg!(windows), "{allocations}");
}
