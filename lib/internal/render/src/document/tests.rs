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
    assert!(page.contains("<title>a &lt;title&gt;</title>"), "{page}");
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
