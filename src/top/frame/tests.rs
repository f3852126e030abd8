use std::path::{Path, PathBuf};

use tickmeter::Snapshot;

use super::*;

/// What a meter of layout 1 has in its file, made by hand from the layout's documentation: values
/// and how often.
fn snapshot(
    name: &str,
    period_ns: u64,
    lateness: &[(u64, u64)],
    work: &[(u64, u64)],
    missed: [u64; 2],
) -> Snapshot {
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
    words[11..14].copy_from_slice(&[4_711, 1_700_000_000_000_000_000, period_ns]);
    let text = |words: &mut [u64], text: &str| {
        words[0] = text.len() as u64;
        for (word, bytes) in words[1..].iter_mut().zip(text.as_bytes().chunks(8)) {
            let mut whole = [0; 8];
            whole[..bytes.len()].copy_from_slice(bytes);
            *word = u64::from_ne_bytes(whole);
        }
    };
    text(&mut words[16..25], name);
    text(&mut words[25..32], "flight-control");
    for (from, sum, max, values) in [(64, 33, 41, lateness), (64 + BINS, 42, 44, work)] {
        for &(ns, count) in values {
            let shift = (ns | 255).ilog2() - 7;
            words[from + ((shift as usize) << 7) + (ns >> shift) as usize] += count;
            words[sum] += count;
            words[max] = words[max].max(ns);
        }
    }
    words[32] = words[33];
    [words[35], words[36]] = missed;
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

/// Three loops watched for five seconds, and one that was found just now.
fn loops() -> Loops {
    let mut loops = Loops::default();
    let path = |name: &str| PathBuf::from(name);
    for second in 0..=5_u64 {
        let late = [(14_000, 95 * second), (33_000, 4 * second), (900_000, u64::from(second >= 3))];
        let control =
            snapshot("control-loop", 500_000, &late, &[(80_000, 100 * second)], [second / 3, 0]);
        let slow = [(1_100_000, 50 * second), (12_000_000, 10 * second)];
        let slow = snapshot(
            "position-publisher",
            10_000_000,
            &slow,
            &[(11_000_000, 60 * second)],
            [10 * second, 9 * second],
        );
        let hostile = snapshot("\u{202e}\u{fffd}x", 16_666_667, &[(200, second)], &[], [0, 0]);
        let mut looked = vec![(path("a"), control), (path("b"), slow), (path("c"), hostile)];
        if second == 5 {
            looked.push((path("d"), snapshot("new", 1_000_000_000, &[(500, 7)], &[], [0, 0])));
        }
        loops.take(looked);
    }
    loops
}

fn drawn(columns: usize, lines: usize, window: Window, sort: Sort) -> String {
    let mut loops = loops();
    loops.sort(sort, window);
    let faults = [format!(
        "{} is not a meter's file",
        Path::new("/dev/shm/tickmeter-0/x.tickmeter").display()
    )];
    let frame = screen(&loops, window, sort, &faults, [columns, lines]);
    assert!(
        frame.len() <= lines && frame.iter().all(|line| line.chars().count() <= columns),
        "{frame:#?}"
    );
    frame.join("\n")
}

#[test]
fn a_frame_at_eighty_columns() {
    insta::assert_snapshot!(drawn(80, 24, Window::TenSeconds, Sort::P99));
}

#[test]
fn a_frame_at_a_hundred_and_twenty_columns() {
    insta::assert_snapshot!(drawn(120, 24, Window::Second, Sort::Name));
}

#[test]
fn a_frame_that_is_too_small() {
    insta::assert_snapshot!(drawn(30, 6, Window::Minute, Sort::Missed));
    for (columns, lines) in [(0, 0), (1, 1), (20, 2), (500, 3)] {
        drawn(columns, lines, Window::Minute, Sort::Slow);
    }
}

#[test]
fn loops_of_one_name_say_whose_they_are() {
    let mut loops = Loops::default();
    let of = |name: &str| snapshot(name, 1_000_000, &[(500, 7)], &[], [0, 0]);
    loops.take(
        ["pump", "pump", "valve"]
            .iter()
            .enumerate()
            .map(|(i, name)| (PathBuf::from(i.to_string()), of(name)))
            .collect(),
    );
    let lines = |columns| table(&loops, Window::Second, Sort::Name, columns, 9);
    let starts =
        |columns, start: &str| lines(columns).iter().filter(|line| line.starts_with(start)).count();
    assert_eq!([starts(80, "pump 4711 "), starts(80, "valve  ")], [2, 1], "{:#?}", lines(80));
    // Where there is a column for it, that has it; where there is no room, the process stays.
    assert_eq!([starts(120, "pump  "), starts(120, "pump 4711")], [2, 0], "{:#?}", lines(120));
    assert_eq!(label("control-loop", Some(4_711), 8), "con 4711");
    assert_eq!(label("control-loop", None, 8), "control-");
}

#[test]
fn a_frame_without_a_loop_says_so() {
    let frame = screen(&Loops::default(), Window::Second, Sort::P99, &[], [80, 24]);
    assert!(frame.iter().any(|line| line.contains("--help")), "{frame:?}");
}

#[test]
fn a_window_is_the_sum_of_its_looks() {
    let loops = loops();
    let of = loops.iter().find(|of| of.now.name == "control-loop").unwrap();
    assert_eq!(Window::ALL.map(|window| of.of(window).ticks), [99, 496, 496]);
    assert_eq!(Window::ALL.map(|window| of.has(window)), [true, false, false]);
    assert_eq!((of.of(Window::Second).missed, of.of(Window::TenSeconds).missed), (0, 1));
}

#[test]
fn a_narrow_frame_goes_without_whole_columns() {
    let heading = |columns| {
        drawn(columns, 24, Window::TenSeconds, Sort::P99).lines().nth(1).unwrap().to_owned()
    };
    let words =
        |columns| heading(columns).split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(words(60), ["METER", "PERIOD", "P50", "*P99", "MAX", "MISSED", "WORK"]);
    assert_eq!(words(40), ["METER", "P50", "*P99", "MAX", "MISSED"]);
    assert!(heading(60).ends_with("WORK") && heading(40).ends_with("MISSED"), "none is cut");
}
