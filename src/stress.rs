//! The hidden command that loads the machine: a process of its own, so that its CPU time is never
//! the subject's. It ends when whoever started it closes its standard input, by intent or by dying.

use std::fs::File;
use std::hint::{black_box, spin_loop};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::net::{Ipv4Addr, UdpSocket};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};

use cli::exit::{Error, ExitStatus, Result};
use engine::load::{READY_LINE, Stress, StressKind};

use crate::terminal;

/// Of each thread: more than any cache of a core.
const MEMORY_BYTES: usize = 64 << 20;
/// A cache line.
const STRIDE: usize = 64;
/// What each thread writes before it begins again at the start of its file.
const FILE_BLOCKS: usize = 64;
const BLOCK_BYTES: usize = 1 << 20;
const PACKET_BYTES: usize = 64;

pub fn run(stress: Stress) -> Result<ExitStatus> {
    let over = Arc::new(AtomicBool::new(false));
    let all = Arc::new(Barrier::new(stress.threads + 1));
    let failed = |e: io::Error| Error::measure(format!("{stress}: {e}"));
    for _ in 0..stress.threads {
        let work = Work::prepare(stress.kind).map_err(failed)?;
        let (all, over) = (Arc::clone(&all), Arc::clone(&over));
        let thread = move || {
            all.wait();
            if let Err(e) = work.run(&over) {
                // A load with a thread less is another load.
                terminal::failure(&Error::measure(format!("{stress}: {e}")));
                terminal::abort();
            }
        };
        std::thread::Builder::new().spawn(thread).map_err(failed)?;
    }
    all.wait();
    io::stdout()
        .write_all(READY_LINE.as_bytes())
        .and_then(|()| io::stdout().flush())
        .map_err(failed)?;
    // Nothing is ever written to it: this returns at its end.
    let _ = io::stdin().read(&mut [0]);
    over.store(true, Ordering::Relaxed);
    Ok(ExitStatus::Done)
}

/// What one thread needs for its work.
enum Work {
    Cpu,
    Memory(Vec<u8>),
    Io(File),
    Softirq(UdpSocket, UdpSocket),
}

impl Work {
    fn prepare(kind: StressKind) -> io::Result<Self> {
        Ok(match kind {
            StressKind::Cpu => Self::Cpu,
            StressKind::Memory => {
                let mut memory = Vec::new();
                memory.try_reserve_exact(MEMORY_BYTES).map_err(io::Error::other)?;
                // Written, so that each page is there.
                memory.resize(MEMORY_BYTES, 1);
                Self::Memory(memory)
            }
            StressKind::Io => {
                // /tmp is often memory; a file without a name goes with its process.
                let disk = Some(Path::new("/var/tmp")).filter(|place| place.is_dir());
                Self::Io(disk.map_or_else(tempfile::tempfile, tempfile::tempfile_in)?)
            }
            StressKind::Softirq => {
                let [from, to] = [(); 2].map(|()| UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)));
                let (from, to) = (from?, to?);
                from.connect(to.local_addr()?)?;
                to.set_nonblocking(true)?;
                Self::Softirq(from, to)
            }
        })
    }

    fn run(self, over: &AtomicBool) -> io::Result<()> {
        let goes_on = || !over.load(Ordering::Relaxed);
        match self {
            Self::Cpu => {
                while goes_on() {
                    spin_loop();
                }
            }
            Self::Memory(mut memory) => {
                while goes_on() {
                    for line in memory.chunks_mut(STRIDE) {
                        line[0] = line[0].wrapping_add(1);
                    }
                    black_box(&mut memory);
                }
            }
            Self::Io(mut file) => {
                let block = vec![0x5a; BLOCK_BYTES];
                while goes_on() {
                    file.rewind()?;
                    for _ in (0..FILE_BLOCKS).take_while(|_| goes_on()) {
                        file.write_all(&block)?;
                        file.sync_data()?;
                    }
                }
            }
            Self::Softirq(from, to) => {
                let mut packet = [0; PACKET_BYTES];
                while goes_on() {
                    // A full queue drops packets: their interrupt has happened.
                    let _ = from.send(&packet);
                    let _ = to.recv(&mut packet);
                }
            }
        }
        Ok(())
    }
}
