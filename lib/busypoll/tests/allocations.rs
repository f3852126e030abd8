//! Counts the allocations of a runtime on this thread, with a counting allocator, and checks that
//! it allocates nothing after a warm-up.

use std::future::poll_fn;
use std::task::Poll;

use busypoll::channel::local;
use busypoll::{
    CancellationToken, Resources, Runtime, spawn_boxed, spawn_slab, try_claim_slab, yield_now,
};

/// Returns the number of allocations during `f` on this thread.
async fn count_allocations(f: impl AsyncFnOnce()) -> u64 {
    // The counter accepts closures only, so each poll of the future is measured as a closure.
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

/// Returns the number of allocations in `block_on`, including those of the run loop.
fn count_loop_allocations(runtime: &mut Runtime, mut f: impl AsyncFnMut()) -> u64 {
    // Two rounds of warm-up allocate all memory that is kept for later rounds.
    runtime.block_on(f());
    runtime.block_on(f());
    allocation_counter::measure(|| runtime.block_on(f())).count_total
}

#[test]
fn counter_counts_allocations() {
    let mut runtime = Runtime::builder().slab(512, 64).build().unwrap();
    let boxed = count_loop_allocations(&mut runtime, async || {
        for _ in 0..100 {
            spawn_boxed(yield_now()).await.unwrap();
        }
    });
    assert!((100..200).contains(&boxed), "{boxed} allocations for 100 boxed tasks");
    runtime.block_on(async {
        assert_eq!(count_allocations(async || drop(Box::new(1))).await, 1);
    });
}

#[test]
fn slab_tasks_allocate_nothing() {
    let mut runtime = Runtime::builder().slab(512, 64).build().unwrap();
    let allocations = count_loop_allocations(&mut runtime, async || {
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
        // All slots are in use at once.
        let claims: [_; 60] = std::array::from_fn(|_| try_claim_slab().unwrap());
        for handle in claims.map(|claim| claim.spawn(yield_now())) {
            handle.await.unwrap();
        }
    });
    assert_eq!(allocations, 0);
}

#[test]
fn full_growing_slab_allocates_chunk() {
    let mut runtime = Runtime::builder().slab_growing(512, 2).build().unwrap();
    runtime.block_on(async {
        let claims: Vec<_> = (0..2).map(|_| try_claim_slab().unwrap()).collect();
        assert!(count_allocations(async || drop(try_claim_slab())).await > 0);
        drop(claims);
        assert_eq!(count_allocations(async || drop(try_claim_slab())).await, 0);
    });
}

#[test]
fn warm_loop_allocates_nothing() {
    let mut runtime = Runtime::builder().slab(512, 8).build().unwrap();
    runtime.resources().insert(0_u32);
    let (sender, mut receiver) = local::channel(4);
    let token = CancellationToken::new();
    let mut interval =
        runtime.block_on(async { busypoll::time::interval(std::time::Duration::from_micros(20)) });
    // On a slow machine, every tick of a warm-up could be due already, which would leave the timer
    // queue without memory.
    runtime.block_on(async { busypoll::time::sleep(std::time::Duration::from_millis(5)).await });
    let allocations = count_loop_allocations(&mut runtime, async || {
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
fn warm_datagram_exchange_allocates_nothing() {
    use busypoll::io::UdpSocket;
    let mut runtime = Runtime::builder().slab(512, 8).build().unwrap();
    let (client, server) = runtime.block_on(async {
        let bind = || UdpSocket::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let (client, server) = (bind(), bind());
        client.connect(server.local_addr().unwrap()).unwrap();
        server.connect(client.local_addr().unwrap()).unwrap();
        (std::rc::Rc::new(client), std::rc::Rc::new(server))
    });
    let allocations = count_loop_allocations(&mut runtime, async || {
        let echo = std::rc::Rc::clone(&server);
        let echo = spawn_slab(async move {
            let mut buf = [0; 16];
            for _ in 0..200 {
                let n = echo.recv(&mut buf).await.unwrap();
                echo.send(&buf[..n]).await.unwrap();
            }
        });
        for _ in 0..200 {
            client.send(b"datagram").await.unwrap();
            assert_eq!(client.recv(&mut [0; 16]).await.unwrap(), 8);
        }
        echo.await.unwrap();
    });
    // On Windows, waiting itself allocates.
    assert!(allocations == 0 || cfg!(windows), "{allocations}");
}
