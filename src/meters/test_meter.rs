//! Files of meters that tests assemble by hand, as the documentation of layout 1 describes them.

use tickmeter::Snapshot;
use tickmeter::read::File;

/// Contents of a meter's file. Values come with their counts.
#[derive(Clone, Copy, Debug, Default)]
pub struct MeterContents<'a> {
    pub name: &'a str,
    pub period_ns: u64,
    pub lateness: &'a [(u64, u64)],
    pub work: &'a [(u64, u64)],
    pub missed: u64,
    pub missed_by_work: u64,
}

impl MeterContents<'_> {
    pub fn to_bytes(self) -> Vec<u8> {
        const BINS: usize = 3_968;
        let mut words = vec![0_u64; 64 + 2 * BINS + 8];
        let geometry = [
            words.len() as u64 * 8,
            7,
            64,
            BINS as u64,
            64 + BINS as u64,
            BINS as u64,
            64 + 2 * BINS as u64,
            1,
            8,
        ];
        words[0] = u64::from_ne_bytes(*b"tickmetr");
        words[1] = 1;
        words[2..11].copy_from_slice(&geometry);
        words[11..14].copy_from_slice(&[4_711, 1_700_000_000_000_000_000, self.period_ns]);
        write_text(&mut words[16..25], self.name);
        write_text(&mut words[25..32], "flight-control");
        for (from, sum, max, values) in
            [(64, 33, 41, self.lateness), (64 + BINS, 42, 44, self.work)]
        {
            for &(ns, count) in values {
                let shift = (ns | 255).ilog2() - 7;
                words[from + ((shift as usize) << 7) + (ns >> shift) as usize] += count;
                words[sum] += count;
                words[max] = words[max].max(ns);
            }
        }
        words[32] = words[33];
        [words[35], words[36]] = [self.missed, self.missed_by_work];
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    pub fn snapshot(self) -> Snapshot {
        let name = format!("osjitter-{}-{:?}", std::process::id(), std::thread::current().id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, self.to_bytes()).unwrap();
        let snapshot = File::open(&path).unwrap().snapshot().unwrap();
        std::fs::remove_file(path).unwrap();
        snapshot
    }
}

fn write_text(words: &mut [u64], text: &str) {
    words[0] = text.len() as u64;
    for (word, bytes) in words[1..].iter_mut().zip(text.as_bytes().chunks(8)) {
        let mut padded = [0; 8];
        padded[..bytes.len()].copy_from_slice(bytes);
        *word = u64::from_ne_bytes(padded);
    }
}

/// The file of a running meter, which holds its lock. Dropping it is like killing its process.
#[cfg(unix)]
#[derive(Debug)]
pub struct RunningMeter(std::fs::File);

#[cfg(unix)]
impl RunningMeter {
    pub fn start(path: &std::path::Path, contents: MeterContents<'_>) -> Self {
        use rustix::fs::{FlockOperation, flock};
        let file = std::fs::File::options().read(true).write(true).create_new(true).open(path);
        let meter = Self(file.unwrap());
        flock(&meter.0, FlockOperation::NonBlockingLockExclusive).unwrap();
        meter.write(&contents.to_bytes());
        meter
    }

    /// Replaces the contents of the file.
    pub fn write(&self, bytes: &[u8]) {
        std::os::unix::fs::FileExt::write_all_at(&self.0, bytes, 0).unwrap();
    }
}

#[cfg(unix)]
impl Drop for RunningMeter {
    /// Releases the lock. A process that another test has just started holds a copy of the file
    /// until it executes its program.
    fn drop(&mut self) {
        use rustix::fs::{FlockOperation, flock};
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}
