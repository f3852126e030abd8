use super::*;
use crate::layout::{LAYOUT_WORDS, MAGIC, write_text};
use crate::mapping::Mapping;
use crate::publication::{Wakeup, Writer};
use crate::storage::{CreatedMeter, Sweep, create_in};
use crate::sync::Ordering;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// A directory for one test, removed when the test ends.
struct TestDirectory(PathBuf);

impl TestDirectory {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("tickmeter-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Self(path)
    }
}

impl Drop for TestDirectory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Creates a file like a process that is later killed, and so does not remove it.
fn create_meter(directory: &Path, name: &str, layout: &Layout) -> (Mapping, PathBuf) {
    let CreatedMeter { file, mapping } = create_file(directory, name, layout).unwrap();
    mapping.reserve().unwrap();
    let path = file.path();
    std::mem::forget(file);
    (mapping, path)
}

fn create_file(
    directory: &Path,
    name: &str,
    layout: &Layout,
) -> Result<CreatedMeter, crate::storage::Why> {
    create_in(directory, name, &initial_header(layout), layout.words)
}

fn initial_header(layout: &Layout) -> [u64; HEADER_WORDS] {
    let mut words = [0; HEADER_WORDS];
    words[..LAYOUT_WORDS].copy_from_slice(&layout.header_words());
    words[at::PID] = 7;
    words[at::PERIOD] = 1_000_000;
    write_text(&mut words[at::NAME..at::PROGRAM], "loop");
    write_text(&mut words[at::PROGRAM..at::BEGUN], "test");
    words
}

/// Returns wake-up `k`, counted from 1. All its values follow from `k`.
fn wakeup(k: u64) -> Wakeup {
    Wakeup {
        at_ns: k,
        lateness_ns: lateness_ns(k) as i64,
        ticks: 1,
        period_ns: 1_000_000,
        skipped: 0,
        early: false,
        work_ns: (!k.is_multiple_of(3)).then_some(k % 10 * 100),
        overrun_ns: 0,
        late_by_work: false,
        skipped_by_work: false,
        late_from_ns: 40_000,
    }
}

fn lateness_ns(k: u64) -> u64 {
    k % 50 * 1_000
}

/// Returns the `k` of the wake-up that is late tick `n`.
fn late_wakeup(n: u64) -> u64 {
    (n - 1) / 10 * 50 + 40 + (n - 1) % 10
}

/// Stops the writer when it is dropped, even if the test fails.
struct StopGuard<'a>(&'a AtomicBool);

impl Drop for StopGuard<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Writes wake-ups until stopped, and returns their number.
fn write_until_stopped(
    words: &[crate::sync::AtomicU64],
    layout: &Layout,
    stop: &AtomicBool,
) -> u64 {
    let mut k = 0;
    while !stop.load(Ordering::Relaxed) {
        // In bursts, so that some copies are exact and some are not.
        for _ in 0..=k % 97 {
            k += 1;
            Writer::new(words, layout).record(&wakeup(k));
        }
        for _ in 0..k % 1_013 * 8 {
            std::hint::spin_loop();
        }
    }
    k
}

/// Checks what is true of every snapshot, exact or not.
fn check_snapshot(snapshot: &Snapshot) {
    assert_eq!(snapshot.ticks, snapshot.lateness.count());
    for late in &snapshot.late {
        let k = late_wakeup(late.number);
        assert_eq!(late.at, Duration::from_nanos(k), "{late:?}");
        assert_eq!(late.lateness, Duration::from_nanos(lateness_ns(k)), "{late:?}");
        assert_eq!(late.work, wakeup(k).work_ns.map(Duration::from_nanos), "{late:?}");
    }
}

/// Checks the values of an exact snapshot, which all follow from the number of ticks.
fn check_exact_snapshot(snapshot: &Snapshot) {
    let n = snapshot.ticks;
    assert_eq!(snapshot.last_tick, Duration::from_nanos(n));
    assert_eq!(snapshot.work.count(), n - n / 3);
    let late = n / 50 * 10 + (n % 50).saturating_sub(39);
    assert_eq!(snapshot.late.len() as u64, late.min(128), "{n} ticks");
    for (start, end, count) in snapshot.lateness.bins() {
        let is_in_bin = |k: &u64| (start..=end).contains(&lateness_ns(*k));
        let per_cycle = (1..=50).filter(is_in_bin).count() as u64;
        let in_last_cycle = (1..=n % 50).filter(is_in_bin).count() as u64;
        assert_eq!(count, per_cycle * (n / 50) + in_last_cycle);
    }
}

#[test]
fn concurrent_snapshots_are_consistent() {
    let directory = TestDirectory::new("torn");
    let layout = Layout::CURRENT;
    let (mapping, path) = create_meter(&directory.0, "1", &layout);
    // ThreadSanitizer is a hundred times slower, and does not depend on luck to find a race.
    let visits = if cfg!(tsan) { 500 } else { 10_000 };
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| write_until_stopped(&mapping, &layout, &stop));
        let stop_guard = StopGuard(&stop);
        let mut exact = 0;
        let mut last: Option<Snapshot> = None;
        let mut visit = 0;
        // The writer may start late.
        let has_few_ticks = |last: &Option<Snapshot>| {
            last.as_ref().is_none_or(|last| last.ticks <= visits) && !writer.is_finished()
        };
        while visit < visits || has_few_ticks(&last) {
            visit += 1;
            let snapshot = File::open(&path).unwrap().snapshot().unwrap();
            check_snapshot(&snapshot);
            if snapshot.exact {
                exact += 1;
                check_exact_snapshot(&snapshot);
            }
            // Counts never decrease.
            if let Some(last) = &last {
                let since = snapshot.since(last).unwrap();
                assert_eq!(since.ticks, snapshot.ticks - last.ticks);
                assert_eq!(since.lateness.count(), since.ticks);
            }
            last = Some(snapshot);
        }
        drop(stop_guard);
        let ticks = writer.join().unwrap();
        assert!(exact > 0 && ticks > visits, "{exact} of {visit} exact, {ticks} ticks");
        assert_eq!(File::open(&path).unwrap().snapshot().unwrap().ticks, ticks);
    });
}

/// Generates pseudorandom numbers, the same in every run.
struct Xorshift(u64);

impl Xorshift {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end.max(1) as u64) as usize
    }
}

/// Changes bytes at random.
fn mutate(bytes: &mut Vec<u8>, random: &mut Xorshift) {
    for _ in 0..=random.below(6) {
        let index = random.below(bytes.len());
        let word = if random.below(2) == 0 { random.below(64) * 8 } else { index / 8 * 8 };
        match random.below(8) {
            0 if !bytes.is_empty() => bytes[index] ^= 1 << random.below(8),
            1 => bytes.truncate(index),
            2 => bytes.extend(std::iter::repeat_n(random.below(256) as u8, random.below(9_000))),
            3 if !bytes.is_empty() => {
                let from = random.below(bytes.len());
                let length = random.below(64).min(bytes.len() - from.max(index));
                bytes.copy_within(from..from + length, index);
            }
            n => {
                let small = random.below(1_500) as u64;
                let value =
                    [u64::MAX, 0, 1, small, 1 << 63, u64::MAX - small, small << 3, small << 32][n];
                if let Some(target) = bytes.get_mut(word..word + 8) {
                    target.copy_from_slice(&value.to_ne_bytes());
                }
            }
        }
    }
}

/// Calls every method of a snapshot.
fn exercise_snapshot(snapshot: &Snapshot, earlier: &Snapshot) {
    for histogram in [&snapshot.lateness, &snapshot.work] {
        let _ = (histogram.quantile(0.0), histogram.quantile(0.99), histogram.max());
        assert!(histogram.bins().all(|(start, end, count)| start <= end && count > 0));
        let _ = histogram.plus(&earlier.lateness).quantile(1.0);
    }
    let _ = (snapshot.since(earlier), earlier.since(snapshot), format!("{snapshot:?}"));
}

/// Reads a number of randomly changed files, and returns how many of them were readable.
fn read_mutated_files(name: &str, files: usize) -> usize {
    let layout = Layout::new(7, 512, 4);
    let directory = TestDirectory::new(name);
    let (mapping, path) = create_meter(&directory.0, "1", &layout);
    for k in 1..=200 {
        Writer::new(&mapping, &layout).record(&wakeup(k));
    }
    let valid = std::fs::read(&path).unwrap();
    let earlier = File::open(&path).unwrap().snapshot().unwrap();
    assert_eq!((earlier.ticks, earlier.late.len()), (200, 4));
    let mutated = directory.0.join("2.tickmeter");
    let mut random = Xorshift(0x9e37_79b9_7f4a_7c15);
    let mut readable = 0;
    for _ in 0..files {
        let mut bytes = valid.clone();
        mutate(&mut bytes, &mut random);
        std::fs::write(&mutated, &bytes).unwrap();
        match File::open(&mutated).and_then(|mut file| file.snapshot()) {
            Err(error) => assert!(!error.to_string().is_empty()),
            Ok(snapshot) => {
                readable += 1;
                exercise_snapshot(&snapshot, &earlier);
            }
        }
    }
    readable
}

#[test]
fn hostile_files_are_harmless() {
    let readable = read_mutated_files("hostile", 20_000);
    assert!(
        (100..19_900).contains(&readable),
        "{readable} of 20,000 mutants were readable: the mutations test too little"
    );
}

#[test]
#[ignore = "needs minutes: cargo test --release --package tickmeter --lib -- --ignored million"]
fn million_hostile_files_are_harmless() {
    read_mutated_files("million", 1_000_000);
}

/// A valid file, to be changed.
struct ValidFile {
    directory: TestDirectory,
    path: PathBuf,
    bytes: Vec<u8>,
    _mapping: Mapping,
}

impl ValidFile {
    fn new(name: &str) -> Self {
        let directory = TestDirectory::new(name);
        let (mapping, path) = create_meter(&directory.0, "1", &Layout::CURRENT);
        let bytes = std::fs::read(&path).unwrap();
        Self { directory, path, bytes, _mapping: mapping }
    }

    /// Reads a copy of the file with changed bytes.
    fn read_changed(&self, change: impl Fn(&mut Vec<u8>)) -> Result<Snapshot, ReadError> {
        let mut bytes = self.bytes.clone();
        change(&mut bytes);
        let path = self.directory.0.join("2.tickmeter");
        std::fs::write(&path, bytes).unwrap();
        File::open(&path).and_then(|mut file| file.snapshot())
    }

    /// Reads a copy of the file with a changed word.
    fn read_with_word(&self, at: usize, value: u64) -> Result<Snapshot, ReadError> {
        self.read_changed(|bytes| bytes[at * 8..][..8].copy_from_slice(&value.to_ne_bytes()))
    }
}

#[test]
fn invalid_files_are_rejected() {
    let file = ValidFile::new("faults");
    assert_eq!(file.read_changed(|_| {}).unwrap().ticks, 0);
    let truncated = |length| file.read_changed(|bytes| bytes.truncate(length));
    assert!(matches!(truncated(0), Err(ReadError::NotAMeter)));
    assert!(matches!(truncated(5_000), Err(ReadError::Truncated)));
    assert!(matches!(truncated(100), Err(ReadError::Truncated)));
    let too_long = file.read_changed(|bytes| bytes.resize(2 << 20, 0));
    assert!(matches!(too_long, Err(ReadError::Malformed(_))));
    let with_word = |at, value| file.read_with_word(at, value);
    assert!(matches!(with_word(0, 5), Err(ReadError::NotAMeter)));
    assert!(matches!(with_word(at::VERSION, 2), Err(ReadError::Newer { version: 2 })));
    assert!(matches!(with_word(at::LATENESS, 9_020), Err(ReadError::Malformed(_))));
    assert!(matches!(with_word(at::NAME, 65), Err(ReadError::Malformed(_))));
    assert!(matches!(with_word(at::NAME + 1, u64::MAX), Err(ReadError::Malformed(_))));
    let with_ticks = |ticks: u64, in_bin: u64| {
        file.read_changed(|bytes| {
            for (at, value) in [(at::BEGUN, ticks), (at::DONE, ticks), (HEADER_WORDS, in_bin)] {
                bytes[at * 8..][..8].copy_from_slice(&value.to_ne_bytes());
            }
        })
    };
    assert_eq!(with_ticks(3, 3).unwrap().ticks, 3);
    assert!(matches!(with_ticks(3, 5), Err(ReadError::Torn)), "a bin with ticks that never came");
    assert!(matches!(with_ticks(5, 3), Err(ReadError::Torn)));
    assert!(matches!(with_word(at::DONE, 5), Err(ReadError::Torn)));
}

#[test]
fn unreadable_paths_are_rejected() {
    let file = ValidFile::new("paths");
    let directory = &file.directory.0;
    assert!(matches!(File::open(&directory.join("3.tickmeter")), Err(ReadError::Io(_))));
    let link = directory.join("link.tickmeter");
    std::os::unix::fs::symlink(&file.path, &link).unwrap();
    assert!(matches!(File::open(&link), Err(ReadError::Io(_))), "a link is not followed");
    assert!(matches!(File::open(directory), Err(ReadError::Io(_))));
}

#[test]
fn truncated_open_file_is_an_error() {
    let ValidFile { directory: _directory, path, _mapping: mapping, .. } =
        ValidFile::new("truncated");
    let mut file = File::open(&path).unwrap();
    drop(mapping);
    let changeable = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(&path, changeable).unwrap();
    std::fs::File::options().write(true).open(&path).unwrap().set_len(4_000).unwrap();
    assert!(matches!(file.snapshot(), Err(ReadError::Truncated)));
}

#[test]
fn file_and_directory_are_private() {
    use std::os::unix::fs::PermissionsExt as _;
    let directory = TestDirectory::new("modes");
    let (_mapping, path) = create_meter(&directory.0, "1", &Layout::CURRENT);
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&path), mode(&directory.0)), (0o400, 0o700));
}

#[test]
fn abandoned_files_are_swept() {
    let directory = TestDirectory::new("alive");
    let (mapping, path) = create_meter(&directory.0, "1", &Layout::CURRENT);
    let file = File::open(&path).unwrap();
    assert!(file.is_alive() && file.is_alive());
    assert_eq!((sweep(&directory.0), list(&directory.0).unwrap().len()), (0, 1));
    std::fs::write(directory.0.join("other"), "another program's").unwrap();
    std::fs::write(directory.0.join("other.tickmeter"), "not a meter").unwrap();
    std::fs::write(directory.0.join("half.new"), "unfinished").unwrap();
    drop(mapping);
    assert!(!file.is_alive());
    assert_eq!(sweep(&directory.0), 1);
    assert_eq!(list(&directory.0).unwrap(), [directory.0.join("other.tickmeter")]);
    assert!(directory.0.join("other").exists() && directory.0.join("half.new").exists());
}

#[test]
fn registrations_sweep_few_files_each() {
    let directory = TestDirectory::new("steps");
    let meters = (0..5).map(|n| create_meter(&directory.0, &n.to_string(), &Layout::CURRENT));
    drop(meters.collect::<Vec<_>>());
    let opened = Directory::open(&directory.0).unwrap().unwrap();
    let mut steps = Sweep { directory: None, names: Vec::new() };
    let remaining = [(); 4].map(|()| {
        steps.continue_in(&opened);
        list(&directory.0).unwrap().len()
    });
    assert_eq!(remaining, [3, 1, 0, 0]);
    drop(create_meter(&directory.0, "40", &Layout::CURRENT));
    steps.continue_in(&opened);
    assert_eq!(list(&directory.0).unwrap().len(), 1, "each file is examined once");
}

#[test]
fn unfinished_files_need_the_magic() {
    let directory = TestDirectory::new("unfinished");
    let (mapping, path) = create_meter(&directory.0, "1", &Layout::CURRENT);
    let [meter, other] = ["1.new", "settings.new"].map(|name| directory.0.join(name));
    std::fs::rename(&path, &meter).unwrap();
    std::fs::write(&other, "another program's").unwrap();
    let an_hour_ago = std::time::SystemTime::now() - Duration::from_secs(3_600);
    for file in [&meter, &other] {
        std::fs::File::open(file).unwrap().set_modified(an_hour_ago).unwrap();
    }
    assert_eq!(sweep(&directory.0), 0, "its process is running");
    drop(mapping);
    assert_eq!((sweep(&directory.0), meter.exists(), other.exists()), (1, false, true));
}

#[test]
fn linked_directories_are_not_swept() {
    let home = TestDirectory::new("linked");
    let target = home.0.join("target");
    std::fs::create_dir_all(&target).unwrap();
    let (mapping, path) = create_meter(&target, "1", &Layout::CURRENT);
    drop(mapping);
    let link = home.0.join("tickmeter-0");
    std::os::unix::fs::symlink(&target, &link).unwrap();
    assert_eq!((sweep(&link), path.exists()), (0, true));
    assert!(matches!(Directory::open(&link), Err(DirectoryError::NotADirectory)));
    assert!(matches!(Directory::open_of_any_user(&link), Err(DirectoryError::NotADirectory)));
    assert_eq!(list(&link).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    let created = create_file(&link, "2", &Layout::CURRENT);
    assert!(matches!(created, Err(crate::storage::Why::NotOurs(_))), "{created:?}");
    // A directory that is replaced by a link after it was opened is not followed either.
    let opened = Directory::open(&target).unwrap().unwrap();
    let moved = home.0.join("moved");
    std::fs::rename(&target, &moved).unwrap();
    std::fs::create_dir(home.0.join("bait")).unwrap();
    std::fs::write(home.0.join("bait/1.tickmeter"), MAGIC.to_ne_bytes()).unwrap();
    std::os::unix::fs::symlink(home.0.join("bait"), &target).unwrap();
    assert_eq!(opened.sweep(), 1, "by its name, in the opened directory");
    assert!(home.0.join("bait/1.tickmeter").exists() && !moved.join("1.tickmeter").exists());
}

#[test]
fn meters_of_others_are_refused() {
    const OTHER_USER: u32 = 54_321;
    let directory = TestDirectory::new("others");
    let (mapping, path) = create_meter(&directory.0, "1", &Layout::CURRENT);
    drop(mapping);
    // Only root can give a file away.
    if std::os::unix::fs::chown(&path, Some(OTHER_USER), None).is_err() {
        return;
    }
    let opened = Directory::open(&directory.0).unwrap().unwrap();
    let read = opened.file("1.tickmeter".as_ref());
    assert!(matches!(read, Err(ReadError::OtherOwner { owner: OTHER_USER })), "{read:?}");
    assert_eq!(opened.sweep(), 0);
    std::os::unix::fs::chown(&directory.0, Some(OTHER_USER), None).unwrap();
    let own = Directory::open(&directory.0);
    assert!(matches!(own, Err(DirectoryError::OtherOwner { owner: OTHER_USER })), "{own:?}");
    let opened = Directory::open_of_any_user(&directory.0).unwrap().unwrap();
    assert_eq!(opened.file("1.tickmeter".as_ref()).unwrap().snapshot().unwrap().name, "loop");
    assert_eq!((opened.sweep(), path.exists()), (0, true), "only the owner's processes remove it");
}

#[test]
fn identity_is_independent_of_the_path() {
    let file = ValidFile::new("identity");
    let opened = Directory::open(&file.directory.0).unwrap().unwrap();
    let another_path = file.directory.0.join("..").join(file.directory.0.file_name().unwrap());
    assert_eq!(Directory::open(&another_path).unwrap().unwrap().id(), opened.id());
    let by_name = opened.file(file.path.file_name().unwrap()).unwrap().id();
    assert_eq!(by_name, File::open(&file.path).unwrap().id());
    assert_eq!(by_name, FileId::from_path(&file.path));
    assert_ne!(by_name, Some(opened.id()));
}

#[test]
fn taken_file_names_are_kept() {
    let directory = TestDirectory::new("taken");
    let _first = create_meter(&directory.0, "1", &Layout::CURRENT);
    for taken in ["3.new", "4.tickmeter"] {
        let path = directory.0.join(taken);
        std::fs::write(&path, "another program's").unwrap();
        assert!(create_file(&directory.0, &taken[..1], &Layout::CURRENT).is_err(), "{taken}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "another program's");
    }
    assert!(!directory.0.join("4.new").exists());
}

#[test]
fn unsafe_directories_are_refused() {
    use std::os::unix::fs::PermissionsExt as _;
    let directory = TestDirectory::new("open");
    std::fs::create_dir(&directory.0).unwrap();
    std::fs::set_permissions(&directory.0, std::fs::Permissions::from_mode(0o777)).unwrap();
    let writable = create_file(&directory.0, "1", &Layout::CURRENT);
    assert!(matches!(writable, Err(crate::storage::Why::NotOurs(_))), "{writable:?}");
    assert!(matches!(Directory::open(&directory.0), Err(DirectoryError::Writable)));
    let missing = create_file(&directory.0.join("a/b"), "1", &Layout::CURRENT);
    assert!(matches!(missing, Err(crate::storage::Why::Refused(..))), "{missing:?}");
}

#[test]
#[cfg(target_os = "linux")]
fn registration_is_on_the_monotonic_clock() {
    let now = || Duration::from_nanos(crate::calls::monotonic_ns().unwrap());
    let before = now();
    let meter = crate::Meter::register("monotonic", Duration::from_millis(1)).unwrap();
    let registered = meter.snapshot().registered_monotonic.unwrap();
    // The pair of clocks has an error.
    let earliest = before - Duration::from_millis(1);
    assert!((earliest..=now()).contains(&registered), "{registered:?} after {before:?}");
}
