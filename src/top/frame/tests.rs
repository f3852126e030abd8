use std::path::{Path, PathBuf};

use tickmeter::Snapshot;

use super::*;

/// Contents of a meter's file. Values come with their counts.
#[derive(Default)]
struct MeterFile<'a> {
    name: &'a str,
    period_ns: u64,
    lateness: &'a [(u64, u64)],
    work: &'a [(u64, u64)],
    missed: u64,
    missed_by_work: u64,
}

/// Returns the snapshot of a file that is assembled by hand, as the documentation of layout 1
/// describes it.
fn snapshot(file: MeterFile<'_>) -> Snapshot {
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
    words[11..14].copy_from_slice(&[4_711, 1_700_000_000_000_000_000, file.period_ns]);
    let text = |words: &mut [u64], text: &str| {
        words[0] = text.len() as u64;
        for (word, bytes) in words[1..].iter_mut().zip(text.as_bytes().chunks(8)) {
            let mut whole = [0; 8];
            whole[..bytes.len()].copy_from_slice(bytes);
            *word = u64::from_ne_bytes(whole);
        }
    };
    text(&mut words[16..25], file.name);
    text(&mut words[25..32], "flight-control");
    for (from, sum, max, values) in [(64, 33, 41, file.lateness), (64 + BINS, 42, 44, file.work)] {
        for &(ns, count) in values {
            let shift = (ns | 255).ilog2() - 7;
            words[from + ((shift as usize) << 7) + (ns >> shift) as usize] += count;
            words[sum] += count;
            words[max] = words[max].max(ns);
        }
    }
    words[32] = words[33];
    [words[35], words[36]] = [file.missed, file.missed_by_work];
    let path = std::env::temp_dir().join(format!(
        "osjitter-frame-{}-{:?}",
        std::process::id(),
        std::thread::current().id()
    ));
    std::fs::write(&path, words.iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<_>>())
        .unwrap();
    let snapshot = tickmeter::read::File::open(&path).unwrap().snapshot().unwrap();
    std::fs::remove_file(path).unwrap();
    snapshot
}

/// Returns three loops that were watched for five seconds, and a new one.
fn loops() -> Loops {
    let mut loops = Loops::default();
    let path = |name: &str| PathBuf::from(name);
    for second in 0..=5_u64 {
        let late = [(14_000, 95 * second), (33_000, 4 * second), (900_000, u64::from(second >= 3))];
        let control = snapshot(MeterFile {
            name: "control-loop",
            period_ns: 500_000,
            lateness: &late,
            work: &[(80_000, 100 * second)],
            missed: second / 3,
            missed_by_work: 0,
        });
        let slow = snapshot(MeterFile {
            name: "position-publisher",
            period_ns: 10_000_000,
            lateness: &[(1_100_000, 50 * second), (12_000_000, 10 * second)],
            work: &[(11_000_000, 60 * second)],
            missed: 10 * second,
            missed_by_work: 9 * second,
        });
        let hostile = snapshot(MeterFile {
            name: "\u{202e}\u{fffd}x",
            period_ns: 16_666_667,
            lateness: &[(200, second)],
            ..MeterFile::default()
        });
        let mut polled = vec![(path("a"), control), (path("b"), slow), (path("c"), hostile)];
        if second == 5 {
            let new = snapshot(MeterFile {
                name: "new",
                period_ns: 1_000_000_000,
                lateness: &[(500, 7)],
                ..MeterFile::default()
            });
            polled.push((path("d"), new));
        }
        loops.record_poll(polled);
    }
    loops
}

fn draw(columns: usize, lines: usize, window: Window, sort: Sort) -> String {
    let mut loops = loops();
    loops.sort(sort, window);
    let faults = [format!(
        "{} is not a meter's file",
        Path::new("/dev/shm/tickmeter-0/x.tickmeter").display()
    )];
    let frame = screen(&loops, View { window, sort }, &faults, FrameSize { columns, lines });
    assert!(
        frame.len() <= lines && frame.iter().all(|line| line.chars().count() <= columns),
        "{frame:#?}"
    );
    frame.join("\n")
}

#[test]
fn frame_at_80_columns() {
    insta::assert_snapshot!(draw(80, 24, Window::TenSeconds, Sort::P99));
}

#[test]
fn frame_at_120_columns() {
    insta::assert_snapshot!(draw(120, 24, Window::Second, Sort::Name));
}

#[test]
fn frame_on_tiny_terminal() {
    insta::assert_snapshot!(draw(30, 6, Window::Minute, Sort::Missed));
    for (columns, lines) in [(0, 0), (1, 1), (20, 2), (500, 3)] {
        draw(columns, lines, Window::Minute, Sort::Slow);
    }
}

#[test]
fn ambiguous_names_include_the_process() {
    let mut loops = Loops::default();
    let polled = |(i, name): (usize, &str)| {
        let lateness = &[(500, 7)];
        let file = MeterFile { name, period_ns: 1_000_000, lateness, ..MeterFile::default() };
        (PathBuf::from(i.to_string()), snapshot(file))
    };
    let names = [(0, "pump"), (1, "pump"), (2, "valve")];
    loops.record_poll(names.map(polled).into());
    let view = View { window: Window::Second, sort: Sort::Name };
    let lines = |columns| table(&loops, view, FrameSize { columns, lines: 9 });
    let starts =
        |columns, start: &str| lines(columns).iter().filter(|line| line.starts_with(start)).count();
    assert_eq!([starts(80, "pump 4711 "), starts(80, "valve  ")], [2, 1], "{:#?}", lines(80));
    // A wide terminal has a column for the process; on a narrow one the name is truncated.
    assert_eq!([starts(120, "pump  "), starts(120, "pump 4711")], [2, 0], "{:#?}", lines(120));
    assert_eq!(label("control-loop", Some(4_711), 8), "con 4711");
    assert_eq!(label("control-loop", None, 8), "control-");
}

#[test]
fn empty_frame_mentions_help() {
    let view = View { window: Window::Second, sort: Sort::P99 };
    let frame = screen(&Loops::default(), view, &[], FrameSize { columns: 80, lines: 24 });
    assert!(frame.iter().any(|line| line.contains("--help")), "{frame:?}");
}

#[test]
fn windows_sum_their_polls() {
    let loops = loops();
    let control = loops.iter().find(|l| l.snapshot.name == "control-loop").unwrap();
    assert_eq!(Window::ALL.map(|window| control.stats(window).ticks), [99, 496, 496]);
    assert_eq!(Window::ALL.map(|window| control.has(window)), [true, false, false]);
    let missed = |window| control.stats(window).missed;
    assert_eq!((missed(Window::Second), missed(Window::TenSeconds)), (0, 1));
}

#[test]
fn narrow_frame_omits_whole_columns() {
    let heading = |columns| {
        draw(columns, 24, Window::TenSeconds, Sort::P99).lines().nth(1).unwrap().to_owned()
    };
    let words =
        |columns| heading(columns).split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(words(60), ["METER", "PERIOD", "P50", "*P99", "MAX", "MISSED", "WORK"]);
    assert_eq!(words(40), ["METER", "P50", "*P99", "MAX", "MISSED"]);
    assert!(
        heading(60).ends_with("WORK") && heading(40).ends_with("MISSED"),
        "no column is truncated"
    );
}
