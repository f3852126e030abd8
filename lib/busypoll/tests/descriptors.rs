//! Tests what happens when no file descriptor is free, in a separate process.
#![cfg(all(unix, feature = "net"))]
mod common;

use std::time::Duration;

use busypoll::io::{TcpListener, TcpStream, UdpSocket};
use busypoll::{Runtime, spawn_boxed, time};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

fn is_out_of_descriptors(error: &std::io::Error) -> bool {
    error.raw_os_error() == Some(Errno::MFILE.raw_os_error())
}

/// Opens files until no descriptor is free.
fn exhaust_descriptors() -> Vec<std::fs::File> {
    std::iter::from_fn(|| std::fs::File::open("/dev/null").ok()).collect()
}

mod own_process {
    #[test]
    fn descriptor_exhaustion_spares_the_listener() {
        let test = "own_process::descriptor_exhaustion_spares_the_listener";
        let status =
            crate::common::run_in_separate_process(test, super::accept_without_descriptors);
        assert!(status.is_none_or(|status| status.success()));
    }
}

fn accept_without_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(64), maximum: limit.maximum }).unwrap();
    let mut runtime = Runtime::new().unwrap();
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let addr = listener.local_addr().unwrap();
        // The connection waits in the listener's queue.
        let client = TcpStream::connect(addr).await.unwrap();
        let mut taken = exhaust_descriptors();

        for _ in 0..1_000 {
            // Repeated calls without a sleep do not starve other tasks.
            let error = listener.accept().await.unwrap_err();
            assert!(is_out_of_descriptors(&error), "{error}");
        }
        assert!(is_out_of_descriptors(&TcpStream::connect(addr).await.unwrap_err()));
        assert!(is_out_of_descriptors(
            &UdpSocket::bind("127.0.0.1:0".parse().unwrap()).unwrap_err()
        ));
        assert!(is_out_of_descriptors(&Runtime::new().unwrap_err()));

        // Tasks, timers, and existing connections still work.
        let accepting = spawn_boxed(async move {
            loop {
                match listener.accept().await {
                    Ok((stream, _)) => break stream,
                    Err(error) => assert!(is_out_of_descriptors(&error), "{error}"),
                }
                time::sleep(Duration::from_micros(200)).await;
            }
        });
        time::sleep(Duration::from_millis(2)).await;
        assert!(!accepting.is_finished());

        taken.pop();
        let accepted = accepting.await.unwrap();
        client.write_all(b"here").await.unwrap();
        let mut got = [0; 4];
        accepted.read_exact(&mut got).await.unwrap();
        assert_eq!(&got, b"here");
    });
}
