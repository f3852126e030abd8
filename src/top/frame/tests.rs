use std::path::Path;

use files::report::why::LateCode;
use tickmeter::read::FileId;

use super::*;
use crate::meters::test_meter::MeterContents;
use crate::meters::{MeterPoll, ReadMeter};

/// Returns a meter that a poll read.
fn read_meter(inode: u64, contents: MeterContents<'_>) -> ReadMeter {
    ReadMeter { id: FileId::new(1, inode), snapshot: contents.snapshot(), is_new: false }
}

fn poll(read: Vec<ReadMeter>) -> MeterPoll {
    MeterPoll { read, unread: Vec::new() }
}

/// Returns three loops that were watched for five seconds, and a new one.
fn loops() -> Loops {
    let mut loops = Loops::default();
    for second in 0..=5_u64 {
        let late = [(14_000, 95 * second), (33_000, 4 * second), (900_000, u64::from(second >= 3))];
        let control = MeterContents {
            name: "control-loop",
            period_ns: 500_000,
            lateness: &late,
            work: &[(80_000, 100 * second)],
            missed: second / 3,
            missed_by_work: 0,
        };
        let slow = MeterContents {
            name: "position-publisher",
            period_ns: 10_000_000,
            lateness: &[(1_100_000, 50 * second), (12_000_000, 10 * second)],
            work: &[(11_000_000, 60 * second)],
            missed: 10 * second,
            missed_by_work: 9 * second,
        };
        let hostile = MeterContents {
            name: "\u{202e}\u{fffd}x",
            period_ns: 16_666_667,
            lateness: &[(200, second)],
            ..MeterContents::default()
        };
        let mut polled: Vec<ReadMeter> =
            (1..).zip([control, slow, hostile]).map(|(n, meter)| read_meter(n, meter)).collect();
        if second == 5 {
            let new = MeterContents {
                name: "new",
                period_ns: 1_000_000_000,
                lateness: &[(500, 7)],
                ..MeterContents::default()
            };
            polled.push(read_meter(4, new));
        }
        loops.record_poll(poll(polled), Duration::from_secs(second));
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
    let frame = screen(
        &loops,
        View { window, sort, needs_whole_window: false, has_help: false },
        &faults,
        TerminalSize { columns, lines },
    );
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
fn short_watch_has_dashes() {
    let mut loops = Loops::default();
    for second in 0..4 {
        let lateness = &[(500, 1_000 * second + 1)];
        let contents =
            MeterContents { name: "pump", period_ns: 1_000_000, lateness, ..Default::default() };
        loops.record_poll(poll(vec![read_meter(1, contents)]), Duration::from_secs(second));
    }
    let line = |window, needs_whole_window| {
        let view = View { window, sort: Sort::Name, needs_whole_window, has_help: false };
        let lines = table(&loops, view, TerminalSize { columns: 70, lines: 9 });
        lines.into_iter().find(|line| line.starts_with("pump")).unwrap()
    };
    let dashes = |line: &str| line.split_whitespace().filter(|cell| *cell == "-").count();
    let whole = line(Window::Second, true);
    assert_eq!(whole, line(Window::Second, false));
    let short = line(Window::TenSeconds, true);
    assert!(dashes(&short) > dashes(&whole), "{short}");
    assert!(short.contains("1ms") && line(Window::TenSeconds, false).contains("500 ns"), "{short}");
}

#[test]
fn ambiguous_names_include_the_process() {
    let mut loops = Loops::default();
    let polled = |(inode, name): (u64, &str)| {
        let lateness = &[(500, 7)];
        let contents = MeterContents { name, period_ns: 1_000_000, lateness, ..Default::default() };
        read_meter(inode, contents)
    };
    let names = [(0, "pump"), (1, "pump"), (2, "valve")];
    loops.record_poll(poll(names.map(polled).into()), Duration::ZERO);
    let view = View {
        window: Window::Second,
        sort: Sort::Name,
        needs_whole_window: false,
        has_help: false,
    };
    let lines = |columns| table(&loops, view, TerminalSize { columns, lines: 9 });
    let starts =
        |columns, start: &str| lines(columns).iter().filter(|line| line.starts_with(start)).count();
    assert_eq!([starts(80, "pump 4711 "), starts(80, "valve  ")], [2, 1], "{:#?}", lines(80));
    // A wide terminal has a column for the process; on a narrow one the name is truncated.
    assert_eq!([starts(120, "pump  "), starts(120, "pump 4711")], [2, 0], "{:#?}", lines(120));
    assert_eq!(label("control-loop", Some(4_711), 8), "c…p 4711");
    assert_eq!(label("control-loop", None, 8), "cont…oop");
}

#[test]
fn long_names_keep_both_ends() {
    let elided = [0, 1, 2, 5, 9, 10].map(|columns| elide("worker-é01", columns));
    assert_eq!(elided, ["", "…", "w…", "wo…01", "work…-é01", "worker-é01"]);
}

#[test]
fn help_explains_every_column() {
    let view =
        View { window: Window::Second, sort: Sort::P99, needs_whole_window: false, has_help: true };
    let frame = screen(&loops(), view, &[], TerminalSize { columns: 80, lines: 24 });
    let text = frame.join("\n");
    for word in COLUMNS.map(|column| column.heading).into_iter().chain(["METER", "P99/s", "? help"])
    {
        assert!(text.contains(word), "{word}: {text}");
    }
    assert!(!text.contains("control-loop"), "{text}");
}

#[test]
fn frame_names_late_functions() {
    let mut loops = loops();
    let code = LateCode {
        function: "svc::parse".to_owned(),
        callers: vec!["svc::main".to_owned()],
        share: 0.98,
        coverage: 1.0,
        samples: 30,
    };
    let function = LateFunction { lateness: Duration::from_millis(32), code };
    loops.set_late_functions(vec![(FileId::new(1, 1), function)]);
    let unread = MeterPoll { read: Vec::new(), unread: vec![FileId::new(1, 1)] };
    loops.record_poll(unread, Duration::from_secs(6));
    let view = View {
        window: Window::Second,
        sort: Sort::P99,
        needs_whole_window: false,
        has_help: false,
    };
    let size = TerminalSize { columns: 80, lines: 24 };
    let expected = "control-loop: 32.0 ms late, 98 % of it in svc::parse ← svc::main";
    assert!(screen(&loops, view, &[], size).contains(&expected.to_owned()));
    assert!(screen(&Loops::default(), view, &[], size).iter().all(|line| !line.contains('←')));
}

#[test]
fn empty_frame_mentions_help() {
    let view = View {
        window: Window::Second,
        sort: Sort::P99,
        needs_whole_window: false,
        has_help: false,
    };
    let frame = screen(&Loops::default(), view, &[], TerminalSize { columns: 80, lines: 24 });
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
fn unread_loops_keep_their_history() {
    let mut loops = loops();
    let unread = MeterPoll { read: Vec::new(), unread: vec![FileId::new(1, 1)] };
    loops.record_poll(unread, Duration::from_secs(6));
    let names: Vec<&str> = loops.iter().map(|l| l.snapshot.name.as_str()).collect();
    assert_eq!(names, ["control-loop"], "the others have ended");
    let lateness: &[(u64, u64)] = &[(14_000, 95 * 7), (33_000, 4 * 7), (900_000, 1)];
    let contents = MeterContents {
        name: "control-loop",
        period_ns: 500_000,
        lateness,
        ..MeterContents::default()
    };
    loops.record_poll(poll(vec![read_meter(1, contents)]), Duration::from_secs(7));
    let watched = loops.iter().next().unwrap();
    assert!(!watched.has(Window::Second), "it was last read two seconds ago");
    assert_eq!(watched.stats(Window::TenSeconds).ticks, 496 + 2 * 99);
    assert_eq!(watched.p99_history().len(), 6);
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
