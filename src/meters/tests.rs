use std::collections::BTreeMap;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _, chown, symlink};

use super::test_meter::{MeterContents, RunningMeter};
use super::*;

const CONTENTS: MeterContents<'_> = MeterContents {
    name: "loop",
    period_ns: 1_000_000,
    lateness: &[(500, 7)],
    work: &[],
    missed: 0,
    missed_by_work: 0,
};

/// Creates a directory that only this user may write to.
fn create_directory(path: &Path) {
    std::fs::DirBuilder::new().mode(0o700).create(path).unwrap();
}

fn reader(paths: &[&Path], max_files: usize) -> MeterReader {
    let paths = paths.iter().map(|path| path.to_path_buf()).collect();
    MeterReader::with_paths(DirectoryPaths::Fixed(paths), max_files)
}

/// Returns whether each meter that a poll read is new, by its file.
fn poll_meters(reader: &mut MeterReader) -> BTreeMap<FileId, bool> {
    let poll = reader.poll(&[]);
    assert_eq!(poll.unread, []);
    poll.read.into_iter().map(|meter| (meter.id, meter.is_new)).collect()
}

fn id(path: &Path) -> FileId {
    FileId::from_path(path).unwrap()
}

#[test]
fn directory_is_read_once() {
    let home = tempfile::tempdir().unwrap();
    let [run, link] = ["run", "var-run"].map(|name| home.path().join(name));
    let directory = run.join("tickmeter");
    create_directory(&run);
    create_directory(&directory);
    symlink(&run, &link).unwrap();
    let file = directory.join("1.tickmeter");
    let _meter = RunningMeter::start(&file, CONTENTS);
    // A file with two names also counts once.
    std::fs::hard_link(&file, directory.join("2.tickmeter")).unwrap();
    let mut reader = reader(&[&directory, &link.join("tickmeter"), &directory], 9);
    for _ in 0..2 {
        assert_eq!(poll_meters(&mut reader), [(id(&file), false)].into());
        assert_eq!(reader.faults(), Vec::<String>::new());
    }
}

#[test]
fn unsafe_directories_are_left_out() {
    let home = tempfile::tempdir().unwrap();
    let [own, linked, link] = ["own", "linked", "link"].map(|name| home.path().join(name));
    create_directory(&own);
    create_directory(&linked);
    symlink(&linked, &link).unwrap();
    let meters = [own.join("1.tickmeter"), linked.join("1.tickmeter")]
        .map(|path| RunningMeter::start(&path, CONTENTS));
    let mut reader = reader(&[&link, &own], 9);
    assert_eq!(poll_meters(&mut reader), [(id(&own.join("1.tickmeter")), false)].into());
    assert!(reader.faults()[0].contains("is a link"), "{:?}", reader.faults());
    drop(meters);
    reader.poll(&[]);
    assert!(linked.join("1.tickmeter").exists(), "nothing is removed through a link");
    assert!(!own.join("1.tickmeter").exists());
}

/// The files that are read were safe when they were opened.
#[test]
fn known_meters_outlast_unsafe_directories() {
    let home = tempfile::tempdir().unwrap();
    let directory = home.path().join("meters");
    create_directory(&directory);
    let [first, second] = ["1.tickmeter", "2.tickmeter"].map(|name| directory.join(name));
    let _first_meter = RunningMeter::start(&first, CONTENTS);
    let mut reader = reader(&[&directory], 9);
    let known: BTreeMap<FileId, bool> = [(id(&first), false)].into();
    assert_eq!(poll_meters(&mut reader), known);
    std::fs::set_permissions(&directory, std::fs::Permissions::from_mode(0o777)).unwrap();
    let _second_meter = RunningMeter::start(&second, CONTENTS);
    for _ in 0..2 {
        assert_eq!(poll_meters(&mut reader), known);
        assert!(reader.faults()[0].contains("meters are left out"), "{:?}", reader.faults());
        assert_eq!(reader.left_out(), 1, "others may be in it");
    }
    std::fs::set_permissions(&directory, std::fs::Permissions::from_mode(0o700)).unwrap();
    assert_eq!((poll_meters(&mut reader).len(), reader.left_out()), (2, 0));
    assert_eq!(reader.faults(), Vec::<String>::new());
}

#[test]
fn directories_of_others_are_left_out() {
    const OTHER_USER: u32 = 54_321;
    let home = tempfile::tempdir().unwrap();
    let [own, other] = ["own", "other"].map(|name| home.path().join(name));
    create_directory(&own);
    create_directory(&other);
    // Only root can give a directory away.
    if chown(&other, Some(OTHER_USER), None).is_err() {
        return;
    }
    let _meters = [own.join("1.tickmeter"), other.join("1.tickmeter")]
        .map(|path| RunningMeter::start(&path, CONTENTS));
    let mut reader = reader(&[&other, &own], 9);
    assert_eq!(poll_meters(&mut reader), [(id(&own.join("1.tickmeter")), false)].into());
    assert!(reader.faults()[0].contains("belongs to another user"), "{:?}", reader.faults());
}

#[test]
fn new_meters_do_not_displace_others() {
    let home = tempfile::tempdir().unwrap();
    let [first, second] = ["5.tickmeter", "1.tickmeter"].map(|name| home.path().join(name));
    let first_meter = RunningMeter::start(&first, CONTENTS);
    let mut reader = reader(&[home.path()], 1);
    assert_eq!(poll_meters(&mut reader), [(id(&first), false)].into());
    let _second_meter = RunningMeter::start(&second, CONTENTS);
    assert_eq!(poll_meters(&mut reader), [(id(&first), false)].into());
    assert_eq!((reader.left_out(), reader.beyond_maximum()), (1, 1));
    drop(first_meter);
    assert_eq!(poll_meters(&mut reader), [(id(&second), false)].into(), "it is not new any more");
    assert_eq!(reader.left_out(), 0);
}

#[test]
fn meters_are_new_once() {
    let home = tempfile::tempdir().unwrap();
    let directory = home.path().join("meters");
    let mut reader = reader(&[&directory], 9);
    assert_eq!(poll_meters(&mut reader), BTreeMap::new());
    create_directory(&directory);
    let path = directory.join("1.tickmeter");
    let _meter = RunningMeter::start(&path, CONTENTS);
    assert_eq!(poll_meters(&mut reader), [(id(&path), true)].into());
    assert_eq!(poll_meters(&mut reader), [(id(&path), false)].into());
}

#[test]
fn torn_meters_are_unread() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("1.tickmeter");
    let meter = RunningMeter::start(&path, CONTENTS);
    let mut reader = reader(&[home.path()], 9);
    poll_meters(&mut reader);
    let mut torn = CONTENTS.to_bytes();
    torn[32 * 8..34 * 8].fill(1);
    meter.write(&torn);
    let poll = reader.poll(&[]);
    assert_eq!((poll.read.len(), poll.unread), (0, vec![id(&path)]));
    assert!(reader.faults()[0].contains("do not add up"), "{:?}", reader.faults());
    meter.write(&CONTENTS.to_bytes());
    assert_eq!(poll_meters(&mut reader), [(id(&path), false)].into());
    drop(meter);
    assert_eq!(poll_meters(&mut reader), BTreeMap::new());
}

/// Many short-lived processes get the ids, and even the file names, of others that were killed.
#[test]
fn reused_process_ids_are_new_meters() {
    const METERS: usize = 300;
    let home = tempfile::tempdir().unwrap();
    let path = |n: usize| home.path().join(format!("4711-{n}.tickmeter"));
    let start = |n| RunningMeter::start(&path(n), CONTENTS);
    let mut meters: Vec<RunningMeter> = (0..METERS).map(start).collect();
    let mut reader = reader(&[home.path()], 2 * METERS);
    let first = poll_meters(&mut reader);
    assert_eq!((first.len(), reader.left_out()), (METERS, 0));
    // Half of the processes are killed. Other meters have their names.
    meters.drain(..METERS / 2);
    for n in 0..METERS / 2 {
        std::fs::remove_file(path(n)).unwrap();
        meters.push(start(n));
    }
    let second = poll_meters(&mut reader);
    let new: Vec<&FileId> =
        second.iter().filter(|(_, is_new)| **is_new).map(|(id, _)| id).collect();
    assert_eq!((second.len(), new.len()), (METERS, METERS / 2));
    assert!(new.iter().all(|id| !first.contains_key(id)), "no file is taken for an older one");
    drop(meters);
    assert_eq!(
        (poll_meters(&mut reader), std::fs::read_dir(home.path()).unwrap().count()),
        ([].into(), 0)
    );
}

#[test]
fn unreadable_meters_are_left_out() {
    let home = tempfile::tempdir().unwrap();
    let _meter = RunningMeter::start(&home.path().join("1.tickmeter"), CONTENTS);
    std::fs::write(home.path().join("2.tickmeter"), "not a meter").unwrap();
    let mut reader = reader(&[home.path()], 9);
    for _ in 0..2 {
        assert_eq!((poll_meters(&mut reader).len(), reader.left_out()), (1, 1));
        assert_eq!(reader.beyond_maximum(), 0);
    }
}

#[test]
fn excluded_files_need_no_room() {
    let home = tempfile::tempdir().unwrap();
    let [own, other] = ["1.tickmeter", "2.tickmeter"].map(|name| home.path().join(name));
    let _meters = [&own, &other].map(|path| RunningMeter::start(path, CONTENTS));
    let mut reader = reader(&[home.path()], 1);
    for _ in 0..2 {
        let poll = reader.poll(&[id(&own)]);
        let ids: Vec<FileId> = poll.read.iter().map(|meter| meter.id).collect();
        assert_eq!((ids, reader.left_out()), (vec![id(&other)], 0));
    }
}
