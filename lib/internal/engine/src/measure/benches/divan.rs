//! The table that divan prints, which is its only output.
//!
//! It is a tree of names next to six columns, which the heading names. The row of a benchmark begins
//! with a branch of the tree and has a number with its unit in each column. Rows without a branch
//! belong to the benchmark above them: its throughputs and its allocations. A benchmark's own output
//! can be between its name and its numbers.

use jitterstat::series::Better;

use super::BenchOutputError;
use super::bench_harness::{BenchMillis, FilterSyntax, Flag, Harness, flag, option};
use super::bench_samples::{BenchSamples, NumberSamples, join_name};
use super::bench_selection::{Selection, possible_names};
use super::command_words::executable_separator_place;
use super::known_cause::{FlagEffect, MEASURES_NOTHING, effect};

pub const HARNESS: Harness = Harness {
    name: "divan",
    expected_output: "rows of the table of divan on standard output",
    default_number: MEDIAN,
    known_numbers: Some(NUMBERS),
    example_number: "fastest",
    counts: MEMORY_NUMBERS,
    // Three lines, each after runs that find the number of iterations.
    bench_millis: Some(BenchMillis { short: 20..=110, brief: 5..=30 }),
    flags: &[flag("--bench")],
    variables: VARIABLES,
    effects: EFFECTS,
    output_variables: |_, _| Vec::new(),
    output_arguments: |_| Vec::new(),
    argument_place: executable_separator_place,
    filter_syntax: FilterSyntax::Regex,
    own_filter: |_| None,
    filter_arguments: |filters, _| filters.to_vec(),
    select: |_, names| Some(Selection::Filter(name_filters(names))),
    read_files: None,
    parse: |stdout, _| parse(&String::from_utf8_lossy(stdout)),
};

/// Flags of the command that prevent a result.
const EFFECTS: &[FlagEffect] = &[
    effect("--test", MEASURES_NOTHING),
    effect("--list", MEASURES_NOTHING),
    effect("--exact", "takes the filter as the whole name"),
];

/// Variables of a short run, which have priority over the attributes of a benchmark. Without a
/// minimum, the samples of a fast benchmark end within a millisecond.
const VARIABLES: &[Flag] = &[
    option("DIVAN_MIN_TIME", "0.02").or_brief("0.005"),
    option("DIVAN_MAX_TIME", "0.1").or_brief("0.02"),
];

const MEDIAN: &str = "median";
/// Numbers that `--metric` can choose.
const NUMBERS: &[&str] = &[
    MEDIAN, "fastest", "mean", "slowest", "bytes/s", "chars/s", "items/s", "Hz", "max-alloc",
    "alloc", "dealloc", "grow", "shrink", "max-alloc-bytes", "alloc-bytes", "dealloc-bytes",
    "grow-bytes", "shrink-bytes",
];

/// Numbers that count.
const MEMORY_NUMBERS: &[&str] = NUMBERS.split_at(8).1;

const COLUMNS: [&str; 6] = ["fastest", "slowest", MEDIAN, "mean", "samples", "iters"];
const MEDIAN_COLUMN: usize = 2;
const SEPARATOR: char = '│';
/// Number of characters of a level of the tree.
const LEVEL_WIDTH: usize = 3;
/// Minimum number of spaces between a name and the first column.
const NAME_GAP: usize = 2;
/// Text in the first column of a benchmark that did not run.
const IGNORED: &str = "(ignored)";

/// The cells of a row.
type Cells<'a> = [&'a str; COLUMNS.len()];

/// The lines read so far.
#[derive(Default)]
struct Reader<'a> {
    /// Number of characters in front of the first column.
    name_width: usize,
    /// Names from the root to the last node.
    path: Vec<&'a str>,
    /// Whether the node at each level of the path is followed by another one.
    is_followed: Vec<bool>,
    /// Whether the last node is a benchmark without numbers so far.
    is_pending: bool,
    /// The kind of allocations that the next rows count.
    allocation: Option<String>,
    benches: Vec<BenchSamples>,
}

/// Returns the filters that select benchmarks by their whole names. Those of a benchmark that runs
/// with several numbers of threads have one path.
fn name_filters(names: &[&str]) -> Vec<String> {
    let is_threads =
        |node: &str| node.strip_prefix("t=").is_some_and(|threads| threads.parse::<u64>().is_ok());
    let path = |name: &str| match name.rsplit_once("::") {
        Some((path, node)) if is_threads(node) => path.to_owned(),
        _ => name.to_owned(),
    };
    let mut paths: Vec<String> = possible_names(names).into_iter().map(path).collect();
    paths.dedup();
    ["--exact".to_owned()].into_iter().chain(paths).collect()
}

/// Parses the benchmarks of a run.
fn parse(text: &str) -> Result<Vec<BenchSamples>, BenchOutputError> {
    let mut reader = Reader::default();
    for line in text.lines() {
        reader.read_line(line)?;
    }
    reader.end_table()?;
    Ok(reader.benches)
}

impl<'a> Reader<'a> {
    fn read_line(&mut self, line: &'a str) -> Result<(), BenchOutputError> {
        let cells = split_cells(line);
        if let Some(name) = cells.and_then(|cells| find_root(&cells)) {
            self.end_table()?;
            self.name_width = name.chars().count();
            self.path = vec![name.trim_end()];
        } else if let Some(node) = find_node(line)
            && (1..=self.path.len()).contains(&node.depth)
        {
            self.read_node(line, node)?;
        } else if let Some(mut cells) = cells {
            cells[0] = cells[0].trim_matches([SEPARATOR, ' ']);
            match self.is_pending {
                true => self.read_times(&cells)?,
                false => self.read_details(&cells),
            }
        }
        Ok(())
    }

    /// Reads a row with the name of a group or benchmark.
    fn read_node(&mut self, line: &'a str, node: Node<'a>) -> Result<(), BenchOutputError> {
        self.end_bench()?;
        let (row_name, columns) = split_name(line, self.name_width);
        let name = row_name.get(line.len() - node.text.len()..).unwrap_or(node.text);
        self.path.truncate(node.depth);
        self.path.push(name.trim_end());
        self.is_followed.truncate(node.depth - 1);
        self.is_followed.resize(node.depth - 1, false);
        self.is_followed.push(node.is_followed);
        match split_cells(columns) {
            Some(cells) if cells.iter().all(|cell| cell.trim().is_empty()) => {}
            Some(cells) if cells[0].trim() == IGNORED => {}
            Some(cells) => {
                self.is_pending = true;
                self.read_times(&cells)?;
            }
            None => self.is_pending = true,
        }
        Ok(())
    }

    /// Reads the times of the pending benchmark, if the row has the counts of samples and
    /// iterations.
    fn read_times(&mut self, cells: &Cells<'_>) -> Result<(), BenchOutputError> {
        let [times @ .., samples, iterations] = cells;
        let is_count = |cell: &&str| cell.trim().parse::<u64>().is_ok();
        if ![samples, iterations].into_iter().all(is_count) {
            return Ok(());
        }
        let name = join_name(&self.path, "::")?;
        let figures = times.map(|cell| Figure::parse(cell.trim()));
        let median = figures[MEDIAN_COLUMN].ok_or_else(|| BenchOutputError::InvalidTime {
            time: times[MEDIAN_COLUMN].trim().to_owned(),
            name: name.clone(),
            example: "1.234 µs",
        })?;
        let mut numbers = Vec::new();
        for (column, figure) in COLUMNS.into_iter().zip(figures) {
            // Output of the benchmark without a line break is part of the first cell.
            let is_own = column != COLUMNS[0] || figure.is_some_and(|own| own.ns() <= median.ns());
            if let Some(figure) = figure.filter(|_| is_own) {
                numbers.push(figure.time(column));
            }
        }
        self.benches.push(BenchSamples::new(name, numbers));
        (self.is_pending, self.allocation) = (false, None);
        Ok(())
    }

    /// Reads a throughput, or a row on allocations, of the last benchmark.
    fn read_details(&mut self, cells: &Cells<'_>) {
        let Some(bench) = self.benches.last_mut() else { return };
        let [first, others @ ..] = cells.map(str::trim);
        if others.iter().all(|cell| cell.is_empty()) {
            self.allocation = first.strip_suffix(':').map(|kind| kind.replace(' ', "-"));
            return;
        }
        let cell = cells[MEDIAN_COLUMN].trim();
        let number = match (&self.allocation, cell.parse::<f64>()) {
            (Some(kind), Ok(count)) => {
                Some(NumberSamples::new(kind, "", Better::Lower, vec![count]))
            }
            (Some(kind), Err(_)) => Figure::parse(cell).and_then(|figure| figure.bytes(kind)),
            (None, _) => Figure::parse(cell).and_then(|figure| figure.throughput()),
        };
        bench.numbers.extend(number);
    }

    /// Ends the table. Its last row ends all branches of the tree, unless the program ended early. The
    /// exit code states the same, but a wrapper can hide it.
    fn end_table(&mut self) -> Result<(), BenchOutputError> {
        self.end_bench()?;
        match std::mem::take(&mut self.is_followed).contains(&true) {
            true => Err(BenchOutputError::Incomplete { end: "last row of the table" }),
            false => Ok(()),
        }
    }

    /// Ends the pending benchmark, which has no numbers.
    fn end_bench(&mut self) -> Result<(), BenchOutputError> {
        if std::mem::take(&mut self.is_pending) {
            let name = join_name(&self.path, "::")?;
            self.benches.push(BenchSamples::without_number(name, None));
        }
        Ok(())
    }
}

/// Splits a line into its cells. The first one has the name in front of it.
fn split_cells(line: &str) -> Option<Cells<'_>> {
    let mut cells: Vec<&str> = line.rsplitn(COLUMNS.len(), SEPARATOR).collect();
    cells.reverse();
    cells.try_into().ok()
}

/// Returns the name of the root, with the spaces behind it, if the cells are those of a heading.
fn find_root<'a>(cells: &Cells<'a>) -> Option<&'a str> {
    let is_heading = cells.iter().zip(COLUMNS).skip(1).all(|(cell, column)| cell.trim() == column);
    cells[0].trim_end().strip_suffix(COLUMNS[0]).filter(|_| is_heading)
}

/// A node of the tree: its level below the root, and the text behind its branch.
struct Node<'a> {
    depth: usize,
    /// Whether the branch leads to another node at this level.
    is_followed: bool,
    text: &'a str,
}

fn find_node(line: &str) -> Option<Node<'_>> {
    let mut text = line;
    for depth in 1.. {
        let (end, _) = text.char_indices().nth(LEVEL_WIDTH)?;
        let (level, rest) = text.split_at(end);
        match level {
            "├─ " | "╰─ " => {
                return Some(Node { depth, is_followed: level == "├─ ", text: rest });
            }
            "│  " | "   " => text = rest,
            _ => break,
        }
    }
    None
}

/// Splits a row at the first column. A longer name than that of all others moves the column.
fn split_name(line: &str, name_width: usize) -> (&str, &str) {
    let gap = " ".repeat(NAME_GAP);
    let start = line.char_indices().nth(name_width.saturating_sub(NAME_GAP));
    let start = start.map_or(line.len(), |(index, _)| index);
    match line[start..].find(&gap) {
        Some(gap) => line.split_at(start + gap + NAME_GAP),
        None => (line, ""),
    }
}

/// A value and its unit.
#[derive(Clone, Copy)]
struct Figure<'a> {
    value: f64,
    unit: &'a str,
}

impl<'a> Figure<'a> {
    fn parse(cell: &'a str) -> Option<Self> {
        let (value, unit) = cell.split_once(' ')?;
        Some(Self { value: value.parse().ok()?, unit })
    }

    /// Returns the value in nanoseconds if the unit is one of time.
    fn ns(&self) -> f64 {
        self.value * time_factor(self.unit).unwrap_or(1.0)
    }

    fn time(&self, column: &str) -> NumberSamples {
        let unit = time_factor(self.unit).map_or(self.unit, |_| "ns");
        NumberSamples::new(column, unit, Better::Lower, vec![self.ns()])
    }

    fn throughput(&self) -> Option<NumberSamples> {
        let units =
            [("B/s", "bytes/s"), ("char/s", "chars/s"), ("item/s", "items/s"), ("Hz", "Hz")];
        let (factor, name) =
            units.into_iter().find_map(|(unit, name)| Some((self.factor(unit)?, name)))?;
        Some(NumberSamples::new(name, name, Better::Higher, vec![self.value * factor]))
    }

    fn bytes(&self, kind: &str) -> Option<NumberSamples> {
        let bytes = self.value * self.factor("B")?;
        Some(NumberSamples::new(&format!("{kind}-bytes"), "bytes", Better::Lower, vec![bytes]))
    }

    /// Returns the factor of a prefix of the unit, decimal or binary.
    fn factor(&self, unit: &str) -> Option<f64> {
        let prefix = self.unit.strip_suffix(unit)?;
        let (prefix, base) =
            prefix.strip_suffix('i').map_or((prefix, 1e3_f64), |rest| (rest, 1024.0));
        let exponent = ["", "K", "M", "G", "T", "P"].iter().position(|known| *known == prefix)?;
        Some(base.powi(i32::try_from(exponent).ok()?))
    }
}

/// Returns the nanoseconds of a unit of time.
fn time_factor(unit: &str) -> Option<f64> {
    Some(match unit {
        "ps" => 1e-3,
        "ns" => 1.0,
        "µs" | "μs" | "us" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "m" => 60e9,
        "h" => 3600e9,
        "d" => 86400e9,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers of each benchmark with these names.
    fn numbers(text: &str, names: &[&str]) -> Vec<String> {
        let describe = |number: &NumberSamples| {
            format!("{}={} {}", number.name, number.samples[0], number.unit)
        };
        let mut found = Vec::new();
        for bench in parse(text).unwrap() {
            let numbers = bench.numbers.iter().filter(|number| names.contains(&&*number.name));
            let numbers: Vec<String> = numbers.map(describe).collect();
            found.push(format!("{}: {}", bench.name, numbers.join(", ")).trim_end().to_owned());
        }
        found
    }

    #[test]
    fn output_of_divan_is_read() {
        let text = include_str!("fixtures/divan.txt");
        assert_eq!(
            numbers(text, &["median", "bytes/s"]),
            [
                "suite::fib::1: median=59.65 ns",
                "suite::fib::8: median=91.34 ns",
                "suite::fib::64: median=43.07 ns",
                "suite::odd │ name  x: median=0.002 ns",
                "suite::sum: median=1.572 ns",
                "suite::group::ms: median=1591000 ns",
                "suite::group::silent:",
                "suite::group::th::t=1: median=45.99 ns",
                "suite::group::th::t=2: median=49.36 ns",
                "suite::group::bytes::u8: median=28.41 ns, bytes/s=35190000000 bytes/s",
                "suite::group::bytes::u64: median=95.66 ns, bytes/s=10450000000 bytes/s"
            ]
        );
        let all: Vec<&str> = NUMBERS.to_vec();
        assert_eq!(
            numbers(text, &all).last().unwrap(),
            "suite::group::bytes::u64: fastest=91.91 ns, slowest=945.7 ns, median=95.66 ns, \
             mean=112.8 ns, bytes/s=10450000000 bytes/s, items/s=31360000 items/s, max-alloc=1 , \
             max-alloc-bytes=8000 bytes, alloc=1 , alloc-bytes=8000 bytes"
        );
    }

    const HEADING: &str = "x        fastest │ slowest │ median │ mean │ samples │ iters\n╰─ sum   ";
    const ROW: &str = "1.5 ns  │ 9 ns │ 2.5 ns │ 3 ns │ 100 │ 6400\n";

    #[test]
    fn output_of_benchmarks_is_skipped() {
        let times = ["fastest", "median"];
        for output in ["", "loading\n", "loading\n\n├ x\n1 │ 2\n", "two  words\n"] {
            let text = format!("{HEADING}{output}{ROW}╰─ b     {ROW}");
            let expected =
                ["x::sum: fastest=1.5 ns, median=2.5 ns", "x::b: fastest=1.5 ns, median=2.5 ns"];
            assert_eq!(numbers(&text, &times), expected, "{text}");
        }
        // What precedes the first number makes it unreadable, or too large.
        for output in ["loading", "7"] {
            let text = format!("{HEADING}{output}{ROW}");
            assert_eq!(numbers(&text, &times), ["x::sum: median=2.5 ns"], "{text}");
        }
    }

    #[test]
    fn units_of_cells_are_converted() {
        for (median, expected) in [
            ("3 ps", "x::sum: median=0.003 ns"),
            ("3 µs", "x::sum: median=3000 ns"),
            ("3 ms", "x::sum: median=3000000 ns"),
            ("3 s", "x::sum: median=3000000000 ns"),
            ("3 m", "x::sum: median=180000000000 ns"),
            ("3 weeks", "x::sum: median=3 weeks"),
        ] {
            let text = format!("{HEADING}{}", ROW.replace("2.5 ns", median));
            assert_eq!(numbers(&text, &["median"]), [expected]);
        }
        let details = "│        1 KiB/s │ 1 │ 3 KiB/s │ 1 │         │\n│        2 Mitem/s │ │ 5 Mitem/s │ │ │\n";
        let text = format!("{HEADING}{ROW}{details}");
        assert_eq!(
            numbers(&text, &["bytes/s", "items/s"]),
            ["x::sum: bytes/s=3072 bytes/s, items/s=5000000 items/s"]
        );
        let error = parse(&format!("{HEADING}{}", ROW.replace("2.5 ns", "soon"))).unwrap_err();
        assert_eq!(error.to_string(), "invalid time \"soon\" of x::sum: expected e.g. 1.234 µs");
    }

    #[test]
    fn benches_without_time_are_kept() {
        let text = format!("{HEADING}\n├─ longer name  {ROW}│     ╰─ far  {ROW}╰─ last");
        assert_eq!(
            numbers(&text, &["median"]),
            ["x::sum:", "x::longer name: median=2.5 ns", "x::last:"]
        );
        // Without columns, nothing was measured.
        for text in
            ["", "suite\n├─ fib\n│  ├─ 1\n╰─ sum\n", "├─ sum  1 ns │ 1 ns │ 1 ns │ 1 ns │ 1 │ 1"]
        {
            assert_eq!(parse(text).unwrap(), [], "{text}");
        }
    }
}
