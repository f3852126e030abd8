use super::*;
use crate::book::{Book, Entry};
use crate::layout::{at, put_text};
use crate::place::create_in;
use crate::sync::Ordering;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// A directory of a test's own, gone with it.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("tickmeter-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Self(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn words(layout: &Layout) -> Vec<u64> {
    let mut words = vec![0; layout.words];
    words[..11].copy_from_slice(&layout.header());
    words[at::PID] = 7;
    words[at::PERIOD] = 1_000_000;
    put_text(&mut words[at::NAME..at::PROGRAM], "loop");
    put_text(&mut words[at::PROGRAM..at::BEGUN], "test");
    words
}

/// Tick number k, from 1: all of it follows from k.
fn entry(k: u64) -> Entry {
    Entry {
        at_ns: k,
        lateness_ns: lateness_ns(k) as i64,
        ticks: 1,
        period_ns: 1_000_000,
        skipped: 0,
        early: false,
        work_ns: (!k.is_multiple_of(3)).then_some(k % 10 * 100),
        overrun_ns: 0,
        by_work: false,
        skipped_by_work: false,
        late_from_ns: 40_000,
    }
}

fn lateness_ns(k: u64) -> u64 {
    k % 50 * 1_000
}

/// The tick that is late number n.
fn late_tick(n: u64) -> u64 {
    (n - 1) / 10 * 50 + 40 + (n - 1) % 10
}

struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_reader_that_comes_and_goes_sees_nothing_torn() {
    let directory = Directory::new("torn");
    let layout = Layout::CURRENT;
    let (mapping, path) = create_in(&directory.0, "1", &words(&layout)).unwrap();
    // ThreadSanitizer takes a hundred times as long, and needs no luck to see a race.
    let visits = if cfg!(tsan) { 500 } else { 10_000 };
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut k = 0;
            while !stop.load(Ordering::Relaxed) {
                // In bursts, so that some copies are exact and some are not.
                for _ in 0..=k % 97 {
                    k += 1;
                    Book::new(&mapping, &layout).enter(&entry(k));
                }
                (0..k % 1_013 * 8).for_each(|_| std::hint::spin_loop());
            }
            k
        });
        // Ends the writer even if this fails.
        let end = End(&stop);
        let mut exact = 0;
        let mut last: Option<Snapshot> = None;
        for _ in 0..visits {
            let snapshot = File::open(&path).unwrap().snapshot().unwrap();
            assert_eq!(
                (snapshot.ticks, snapshot.lateness.count()),
                (snapshot.lateness.count(), snapshot.ticks)
            );
            for late in &snapshot.late {
                let k = late_tick(late.number);
                let is = (late.at, late.lateness, late.work);
                let work = entry(k).work_ns.map(Duration::from_nanos);
                assert_eq!(
                    is,
                    (Duration::from_nanos(k), Duration::from_nanos(lateness_ns(k)), work),
                    "{late:?}"
                );
            }
            if snapshot.exact {
                exact += 1;
                let n = snapshot.ticks;
                assert_eq!(snapshot.last_tick, Duration::from_nanos(n));
                assert_eq!(snapshot.work.count(), n - n / 3);
                let late = n / 50 * 10 + (n % 50).saturating_sub(39);
                assert_eq!(snapshot.late.len() as u64, late.min(128), "of {n}");
                for (start, end, count) in snapshot.lateness.bins() {
                    let of = |k: &u64| (start..=end).contains(&lateness_ns(*k));
                    let whole = (1..=50).filter(of).count() as u64 * (n / 50);
                    assert_eq!(count, whole + (1..=n % 50).filter(of).count() as u64);
                }
            }
            // Counts only grow.
            if let Some(last) = &last {
                let since = snapshot.since(last).unwrap();
                assert_eq!(since.ticks, snapshot.ticks - last.ticks);
                assert_eq!(since.lateness.count(), since.ticks);
            }
            last = Some(snapshot);
        }
        drop(end);
        let ticks = writer.join().unwrap();
        assert!(exact > 0 && ticks > visits, "{exact} of {visits} exact, {ticks} ticks");
        assert_eq!(File::open(&path).unwrap().snapshot().unwrap().ticks, ticks);
    });
}

/// Numbers that look random; the same in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end.max(1) as u64) as usize
    }
}

fn mutate(bytes: &mut Vec<u8>, numbers: &mut Numbers) {
    for _ in 0..=numbers.below(6) {
        let place = numbers.below(bytes.len());
        let word = if numbers.below(2) == 0 { numbers.below(64) * 8 } else { place / 8 * 8 };
        match numbers.below(8) {
            0 if !bytes.is_empty() => bytes[place] ^= 1 << numbers.below(8),
            1 => bytes.truncate(place),
            2 => bytes.extend(std::iter::repeat_n(numbers.below(256) as u8, numbers.below(9_000))),
            3 if !bytes.is_empty() => {
                let from = numbers.below(bytes.len());
                let length = numbers.below(64).min(bytes.len() - from.max(place));
                bytes.copy_within(from..from + length, place);
            }
            n => {
                let small = numbers.below(1_500) as u64;
                let value =
                    [u64::MAX, 0, 1, small, 1 << 63, u64::MAX - small, small << 3, small << 32][n];
                if let Some(place) = bytes.get_mut(word..word + 8) {
                    place.copy_from_slice(&value.to_ne_bytes());
                }
            }
        }
    }
}

/// Reads so many hostile files; how many of them could be read.
fn hostile(name: &str, files: usize) -> usize {
    let layout = Layout::new(7, 512, 4);
    let directory = Directory::new(name);
    let (mapping, path) = create_in(&directory.0, "1", &words(&layout)).unwrap();
    (1..=200).for_each(|k| Book::new(&mapping, &layout).enter(&entry(k)));
    let valid = std::fs::read(&path).unwrap();
    let earlier = File::open(&path).unwrap().snapshot().unwrap();
    assert_eq!((earlier.ticks, earlier.late.len()), (200, 4));
    let victim = directory.0.join("2.tickmeter");
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
    let mut read = 0;
    for _ in 0..files {
        let mut bytes = valid.clone();
        mutate(&mut bytes, &mut numbers);
        std::fs::write(&victim, &bytes).unwrap();
        match File::open(&victim).and_then(|mut file| file.snapshot()) {
            Err(error) => assert!(!error.to_string().is_empty()),
            Ok(snapshot) => {
                read += 1;
                for histogram in [&snapshot.lateness, &snapshot.work] {
                    let _ = (histogram.quantile(0.0), histogram.quantile(0.99), histogram.max());
                    assert!(histogram.bins().all(|(start, end, count)| start <= end && count > 0));
                    let _ = histogram.plus(&earlier.lateness).quantile(1.0);
                }
                let _ =
                    (snapshot.since(&earlier), earlier.since(&snapshot), format!("{snapshot:?}"));
            }
        }
    }
    read
}

#[test]
fn no_hostile_file_harms_a_reader() {
    let read = hostile("hostile", 20_000);
    assert!(
        (100..19_900).contains(&read),
        "{read} of 20,000 mutants could be read: they test too little"
    );
}

#[test]
#[ignore = "a million files take minutes: cargo test --release --package tickmeter --lib -- --ignored million"]
fn no_hostile_file_of_a_million_harms_a_reader() {
    hostile("million", 1_000_000);
}

#[test]
fn each_fault_has_its_error() {
    let directory = Directory::new("faults");
    let (mapping, path) = create_in(&directory.0, "1", &words(&Layout::CURRENT)).unwrap();
    let valid = std::fs::read(&path).unwrap();
    let with = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = valid.clone();
        change(&mut bytes);
        let path = directory.0.join("2.tickmeter");
        std::fs::write(&path, bytes).unwrap();
        File::open(&path).and_then(|mut file| file.snapshot())
    };
    let set = |bytes: &mut Vec<u8>, at: usize, value: u64| {
        bytes[at * 8..][..8].copy_from_slice(&value.to_ne_bytes())
    };
    assert_eq!(with(&|_| {}).unwrap().ticks, 0);
    assert!(matches!(with(&|b| b.clear()), Err(ReadError::NotAMeter)));
    assert!(matches!(with(&|b| set(b, 0, 5)), Err(ReadError::NotAMeter)));
    assert!(matches!(with(&|b| set(b, at::VERSION, 2)), Err(ReadError::Newer { version: 2 })));
    assert!(matches!(with(&|b| b.truncate(5_000)), Err(ReadError::Truncated)));
    assert!(matches!(with(&|b| b.truncate(100)), Err(ReadError::Truncated)));
    assert!(matches!(with(&|b| set(b, at::LATENESS, 9_020)), Err(ReadError::Malformed(_))));
    assert!(matches!(with(&|b| set(b, at::NAME, 65)), Err(ReadError::Malformed(_))));
    assert!(matches!(with(&|b| set(b, at::NAME + 1, u64::MAX)), Err(ReadError::Malformed(_))));
    assert!(matches!(with(&|b| b.resize(2 << 20, 0)), Err(ReadError::Malformed(_))));
    assert!(
        matches!(with(&|b| set(b, 64, 5)), Err(ReadError::Torn)),
        "five ticks that nobody booked"
    );
    assert!(matches!(with(&|b| set(b, at::DONE, 5)), Err(ReadError::Torn)));
    assert!(matches!(File::open(&directory.0.join("3.tickmeter")), Err(ReadError::Io(_))));
    std::os::unix::fs::symlink(&path, directory.0.join("link.tickmeter")).unwrap();
    assert!(
        matches!(File::open(&directory.0.join("link.tickmeter")), Err(ReadError::Io(_))),
        "a link is not followed"
    );
    assert!(matches!(File::open(&directory.0), Err(ReadError::Io(_))));
    // A file that its owner truncates while it is open here: an error, no signal.
    let mut open = File::open(&path).unwrap();
    drop(mapping);
    std::fs::File::options().write(true).open(&path).unwrap().set_len(4_000).unwrap();
    assert!(matches!(open.snapshot(), Err(ReadError::Truncated)));
}

#[test]
fn a_file_is_alive_as_long_as_it_is_written_and_then_swept() {
    use std::os::unix::fs::PermissionsExt as _;
    let directory = Directory::new("alive");
    let (mapping, path) = create_in(&directory.0, "1", &words(&Layout::CURRENT)).unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&path), mode(&directory.0)), (0o600, 0o700));
    let file = File::open(&path).unwrap();
    assert!(file.is_alive() && file.is_alive());
    assert_eq!((sweep(&directory.0), list(&directory.0).unwrap().len()), (0, 1));
    std::fs::write(directory.0.join("other"), "not ours").unwrap();
    std::fs::write(directory.0.join("other.tickmeter"), "not a meter's").unwrap();
    std::fs::write(directory.0.join("half.new"), "still being made").unwrap();
    drop(mapping);
    assert!(!file.is_alive());
    // The next one to register sweeps, too.
    let (_mapping, second) = create_in(&directory.0, "2", &words(&Layout::CURRENT)).unwrap();
    assert_eq!(list(&directory.0).unwrap(), [second, directory.0.join("other.tickmeter")]);
    assert!(directory.0.join("other").exists() && directory.0.join("half.new").exists());
    // A name that is taken is not written over.
    std::fs::write(directory.0.join("3.new"), "").unwrap();
    assert!(create_in(&directory.0, "3", &words(&Layout::CURRENT)).is_err());
}

#[test]
fn a_directory_that_others_may_write_to_is_not_used() {
    use std::os::unix::fs::PermissionsExt as _;
    let directory = Directory::new("open");
    std::fs::create_dir(&directory.0).unwrap();
    std::fs::set_permissions(&directory.0, std::fs::Permissions::from_mode(0o777)).unwrap();
    let refused = create_in(&directory.0, "1", &words(&Layout::CURRENT));
    assert!(matches!(refused, Err(crate::place::Why::NotOurs(_))), "{refused:?}");
    let missing = create_in(&directory.0.join("a/b"), "1", &words(&Layout::CURRENT));
    assert!(matches!(missing, Err(crate::place::Why::Refused(..))), "{missing:?}");
}
