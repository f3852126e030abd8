use crate::document::{Document, Item, Table, html, markdown, terminal};
use jitterstat::gate::Sides;

fn sample() -> Document {
    let mut document = Document::new();
    document.title("Gate");
    document.sides(Sides { base: "old".to_owned(), candidate: "new <b>".to_owned() });
    let mut table = Table::new(["percentile", "A", "verdict"], 1).with_words_last();
    table.row(["p50", "14.2 us", "pass"]);
    table.row(["p99"]);
    document.table(table);
    document.paragraph("");
    document.notes(["one | two".to_owned(), String::new()]);
    document.items([Item {
        text: "governor: powersave".to_owned(),
        detail: Some("wakes slowly".to_owned()),
        command: Some("cpupower frequency-set -g performance".to_owned()),
    }]);
    document.warning("few rounds");
    document.code("a\u{1b}[2J\n");
    document
}

#[test]
fn terminal_separates_blocks() {
    let expected = "Gate\nA  old\nB  new <b>\n\npercentile        A  verdict\np50         14.2 us  pass\n\
                    p99\n\none | two\n\n  governor: powersave\n      wakes slowly\n    > cpupower \
                    frequency-set -g performance\n\nwarning: few rounds\n\na\u{fffd}[2J\n";
    assert_eq!(terminal::render(&sample(), 80), expected);
}

#[test]
fn markdown_escapes_text() {
    let expected = "### Gate\n\nA: old  \nB: new &lt;b>\n\n| percentile | A | verdict |\n|---|---:|---|\n\
                    | p50 | 14.2 us | pass |\n| p99 |  |  |\n\n- one \\| two\n\n- governor: powersave  \n  \
                    wakes slowly  \n  `cpupower frequency-set -g performance`\n\n> **warning**: few rounds\n\n\
                    ```text\na\u{fffd}[2J\n```\n";
    assert_eq!(markdown::render(&sample()), expected);
}

#[test]
fn page_escapes_text() {
    let page = html::page("a <title>", &sample());
    assert!(
        page.contains("<title>Gate, new &lt;b&gt; against old - a &lt;title&gt;</title>"),
        "{page}"
    );
    assert!(page.contains("B: new &lt;b&gt;"), "{page}");
    let row = "<tr><th scope=\"row\">p50</th><td data-of=\"A\">14.2 us</td>\
               <td class=\"left\" data-of=\"verdict\">pass</td></tr>";
    assert!(page.contains(row), "{page}");
    assert!(page.contains("<pre>a\u{fffd}[2J</pre>"), "{page}");
}

#[test]
fn narrow_terminal_keeps_every_value() {
    let text = terminal::render(&sample(), 12);
    for value in ["p50", "14.2 us", "pass", "p99"] {
        assert!(text.contains(value), "{value} is missing: {text}");
    }
}

/// A table of two subjects, four times each.
fn wide_table() -> Table {
    let mut table = Table::new(["subject", "p50", "p90", "p99", "max"], 1);
    table.row(["os-interval", "14.2 us", "20.1 us", "36.7 us", "1.25 ms"]);
    table.row(["spin", "94 ns", "231 ns", "29.8 us", "380 us"]);
    table
}

#[test]
fn narrow_table_names_dropped_columns() {
    assert_eq!(
        terminal::render_table(&wide_table(), 40),
        "subject          p50      p90      p99\n\
         os-interval  14.2 us  20.1 us  36.7 us\n\
         spin           94 ns   231 ns  29.8 us\n\
         Columns left out to fit the width: max\n"
    );
    let table = wide_table().with_expendable(&["p90", "p50", "unknown"]);
    assert_eq!(
        terminal::render_table(&table, 30),
        "subject          p99      max\n\
         os-interval  36.7 us  1.25 ms\n\
         spin         29.8 us   380 us\n\
         Columns left out to fit the\n\
         width: p50; p90\n"
    );
}

#[test]
fn words_stay_next_to_their_row() {
    let mut table = Table::new(["subject", "p50", "max", "verdict"], 1)
        .with_words_last()
        .with_expendable(&["max", "p50"]);
    table.row(["os-interval", "+14.2 us", "+1.25 ms", "no difference shown"]);
    assert_eq!(
        terminal::render_table(&table, 46),
        "subject           p50  verdict\n\
         os-interval  +14.2 us  no difference shown\n\
         Columns left out to fit the width: max\n"
    );
}

#[test]
fn long_names_are_above_values() {
    let mut table = wide_table();
    table.row(["a-subject-with-a-name-of-over-forty-characters", "1 us", "2 us", "3 us", "4 us"]);
    let text = terminal::render_table(&table, 60);
    assert!(text.contains("spin\n"), "{text}");
    assert_eq!(text.lines().count(), 7, "{text}");
}

#[test]
fn every_width_names_every_column() {
    for columns in 22..80 {
        let text = terminal::render_table(&wide_table(), columns);
        assert!(text.lines().all(|line| line.len() <= columns), "{columns}:\n{text}");
        assert!(text.contains("os-interval") && text.contains("spin"), "{columns}:\n{text}");
        for heading in ["p50", "p90", "p99", "max"] {
            assert_eq!(text.matches(heading).count(), 1, "{columns}, {heading}:\n{text}");
        }
    }
}

#[test]
fn long_words_are_wrapped() {
    let mut table = Table::new(["cause", "evidence"], 1).with_words_last();
    table.row(["queue", "behind a long list of threads"]);
    table.row(["host", ""]);
    let render = |columns| terminal::render_table(&table, columns);
    assert_eq!(render(32), "cause  evidence\nqueue  behind a long list of\n       threads\nhost\n");
    assert_eq!(
        render(28),
        "cause\n      evidence\nqueue\n      behind a long list of\n      threads\nhost\n"
    );
}
