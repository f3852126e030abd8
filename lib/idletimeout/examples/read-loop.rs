//! An echo server that closes a connection if nothing has moved for 30 seconds. Each connection has
//! one timer, which is armed once.
//!
//!     cargo run -p idletimeout --example read-loop
#![allow(clippy::print_stdout, reason = "an example")]

use std::io;
use std::pin::pin;
use std::time::Duration;

use idletimeout::{IdleIo, IdleTimeout};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

#[tokio::main]
async fn main() -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("echo on {}", listener.local_addr()?);
    loop {
        let (stream, peer) = listener.accept().await?;
        tokio::spawn(async move {
            match echo(stream).await {
                Ok(bytes) => println!("{peer}: {bytes} bytes"),
                Err(error) => println!("{peer}: {error}"),
            }
        });
    }
}

async fn echo(stream: TcpStream) -> io::Result<usize> {
    // With a slack of a tenth, the reads and writes of a busy connection never read a clock.
    let idle = IdleTimeout::new(Duration::from_secs(30)).slack(0.1);
    let mut stream = pin!(IdleIo::new(stream, idle));
    let (mut buffer, mut bytes) = ([0; 4096], 0);
    loop {
        let n = stream.read(&mut buffer).await?;
        if n == 0 {
            return Ok(bytes);
        }
        stream.write_all(&buffer[..n]).await?;
        bytes += n;
    }
}
