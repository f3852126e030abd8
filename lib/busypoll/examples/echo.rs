//! An echo server and its clients, in one runtime on one thread.
//!
//! `cargo run --example echo` starts 50 clients against the server and checks every byte that comes
//! back. Then it cancels the server's token and drains the remaining tasks.
//!
//! With an address as argument, it only runs the server, until Ctrl-C:
//! `cargo run --release --example echo 127.0.0.1:7000`.
#![allow(clippy::print_stdout, reason = "an example prints its results")]

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use busypoll::io::{TcpListener, TcpStream};
use busypoll::{CancellationToken, Runtime, spawn_boxed, time};

const CLIENTS: u32 = 50;
const MESSAGES: u32 = 100;

/// Maximum time for connections to end after the listener was closed.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

async fn echo(stream: TcpStream) -> io::Result<u64> {
    stream.set_nodelay(true)?;
    let mut buf = [0; 4096];
    let mut total = 0;
    loop {
        match stream.read(&mut buf).await? {
            0 => return Ok(total),
            n => {
                stream.write_all(&buf[..n]).await?;
                total += n as u64;
            }
        }
    }
}

async fn serve(listener: TcpListener, stop: CancellationToken) {
    while let Some(accepted) = stop.run_until_cancelled(listener.accept()).await {
        match accepted {
            // The task is detached, so that a failing connection affects no other.
            Ok((stream, _peer)) => drop(spawn_boxed(echo(stream))),
            Err(error) => {
                println!("cannot accept: {error}");
                // The process may be out of descriptors, for example. Some may be free again later.
                time::sleep(Duration::from_millis(10)).await;
            }
        }
    }
}

async fn client(addr: SocketAddr, id: u32) -> io::Result<()> {
    let stream = TcpStream::connect(addr).await?;
    stream.set_nodelay(true)?;
    for number in 0..MESSAGES {
        let sent = [id.to_be_bytes(), number.to_be_bytes()].concat();
        stream.write_all(&sent).await?;
        let mut got = [0; 8];
        stream.read_exact(&mut got).await?;
        assert_eq!(got[..], sent[..], "a different message came back");
    }
    Ok(())
}

#[cfg(unix)]
async fn wait_for_shutdown() -> io::Result<()> {
    busypoll::ShutdownSignal::current()?.await
}

#[cfg(not(unix))]
async fn wait_for_shutdown() -> io::Result<()> {
    std::future::pending().await
}

fn main() -> io::Result<()> {
    let requested_addr = std::env::args()
        .nth(1)
        .map(|addr| addr.parse::<SocketAddr>().map_err(io::Error::other))
        .transpose()?;
    let mut runtime = Runtime::new()?;
    let stop = CancellationToken::new();
    runtime.block_on(async {
        let listener =
            TcpListener::bind(requested_addr.unwrap_or(SocketAddr::from(([127, 0, 0, 1], 0))))?;
        let addr = listener.local_addr()?;
        println!("listening on {addr}");
        drop(spawn_boxed(serve(listener, stop.child_token())));
        if requested_addr.is_some() {
            return wait_for_shutdown().await;
        }
        let clients: Vec<_> = (0..CLIENTS).map(|id| spawn_boxed(client(addr, id))).collect();
        for client in clients {
            client.await??;
        }
        println!("{CLIENTS} clients received {MESSAGES} responses each");
        Ok(())
    })?;
    stop.cancel();
    let drained = runtime.drain(DRAIN_TIMEOUT);
    println!("{drained}");
    if drained.is_complete() {
        Ok(())
    } else {
        Err(io::Error::other("some connections did not end in time"))
    }
}
