//! The process `osjitter stress LOAD`, which loads the machine. It is not a command for users, so
//! it is not part of the command line that help and completions describe.
//!
//! `run --load` starts it as a separate process, so that its CPU time is not counted for the
//! subject. It runs until its standard input closes, so it also ends if its parent dies.

use crate::interrupt;
use std::ffi::OsString;
use std::fs::File;
use std::hint::{black_box, spin_loop};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::net::{Ipv4Addr, UdpSocket};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};

use cli::exit::{Error, ExitStatus, Result};
use cli::terminal;
use engine::load::{READY_LINE, Stress, StressKind};

/// The memory that each thread writes through, which exceeds the cache of a core.
const MEMORY_BYTES: usize = 64 << 20;
/// The distance between two writes: a cache line.
const STRIDE_BYTES: usize = 64;
/// The blocks that each thread writes before it returns to the start of its file.
const FILE_BLOCKS: usize = 64;
const BLOCK_BYTES: usize = 1 << 20;
const PACKET_BYTES: usize = 64;

/// Returns the load, if the arguments of this process are those of a load process.
pub fn parse_args(args: &[OsString]) -> Option<Result<Stress>> {
    match args {
        [_, command, load] if command == "stress" => {
            Some(load.to_string_lossy().parse().map_err(Error::from))
        }
        _ => None,
    }
}

/// Loads the machine until standard input closes.
pub fn run(stress: Stress) -> Result<ExitStatus> {
    let stop = Arc::new(AtomicBool::new(false));
    let barrier = Arc::new(Barrier::new(stress.threads + 1));
    let failed = |e: io::Error| Error::measure(format!("{stress}: {e}"));
    for _ in 0..stress.threads {
        let work = prepare_work(stress.kind).map_err(failed)?;
        let (barrier, stop) = (Arc::clone(&barrier), Arc::clone(&stop));
        let thread = move || {
            barrier.wait();
            if let Err(e) = work(&stop) {
                // Fewer threads would be a different load.
                terminal::failure(&Error::measure(format!("{stress}: {e}")));
                interrupt::abort();
            }
        };
        std::thread::Builder::new().spawn(thread).map_err(failed)?;
    }
    barrier.wait();
    io::stdout()
        .write_all(READY_LINE.as_bytes())
        .and_then(|()| io::stdout().flush())
        .map_err(failed)?;
    // Nothing is written to standard input: this returns when it closes.
    let _ = io::stdin().read(&mut [0]);
    stop.store(true, Ordering::Relaxed);
    Ok(ExitStatus::Done)
}

/// The work of a thread, with its resources. It ends after its argument is set.
type Work = Box<dyn FnOnce(&AtomicBool) -> io::Result<()> + Send>;

fn prepare_work(kind: StressKind) -> io::Result<Work> {
    Ok(match kind {
        StressKind::Cpu => Box::new(spin),
        StressKind::Memory => {
            let mut memory = Vec::new();
            memory.try_reserve_exact(MEMORY_BYTES).map_err(io::Error::other)?;
            // Writing makes the kernel map each page.
            memory.resize(MEMORY_BYTES, 1);
            Box::new(move |stop| write_memory(memory, stop))
        }
        StressKind::Io => {
            // /tmp is often in memory. An unnamed file is removed when its process ends.
            let disk = Some(Path::new("/var/tmp")).filter(|directory| directory.is_dir());
            let file = disk.map_or_else(tempfile::tempfile, tempfile::tempfile_in)?;
            Box::new(move |stop| write_file(file, stop))
        }
        StressKind::Softirq => {
            let sender = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
            let receiver = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
            sender.connect(receiver.local_addr()?)?;
            receiver.set_nonblocking(true)?;
            Box::new(move |stop| send_packets(&sender, &receiver, stop))
        }
    })
}

fn is_running(stop: &AtomicBool) -> bool {
    !stop.load(Ordering::Relaxed)
}

fn spin(stop: &AtomicBool) -> io::Result<()> {
    while is_running(stop) {
        spin_loop();
    }
    Ok(())
}

fn write_memory(mut memory: Vec<u8>, stop: &AtomicBool) -> io::Result<()> {
    while is_running(stop) {
        for line in memory.chunks_mut(STRIDE_BYTES) {
            line[0] = line[0].wrapping_add(1);
        }
        black_box(&mut memory);
    }
    Ok(())
}

fn write_file(mut file: File, stop: &AtomicBool) -> io::Result<()> {
    let block = vec![0x5a; BLOCK_BYTES];
    while is_running(stop) {
        file.rewind()?;
        for _ in (0..FILE_BLOCKS).take_while(|_| is_running(stop)) {
            file.write_all(&block)?;
            file.sync_data()?;
        }
    }
    Ok(())
}

fn send_packets(sender: &UdpSocket, receiver: &UdpSocket, stop: &AtomicBool) -> io::Result<()> {
    let mut packet = [0; PACKET_BYTES];
    while is_running(stop) {
        // A full queue drops the packet, but its interrupt has happened.
        let _ = sender.send(&packet);
        let _ = receiver.recv(&mut packet);
    }
    Ok(())
}
