//! Text in front of each line, such as a time and a level, the name of a container, or the mark of a
//! comment or a quotation.
//!
//! Prefixes of one writer differ in their letters and digits, and have the same marks and blanks.

use crate::detect::{detect_line, head};
use crate::file_format::Detection;

/// Maximum number of words of a prefix.
const MAX_WORDS: usize = 8;
/// Number of lines after the typical one that are searched for the same prefix.
const MAX_REPEATS: usize = 8;

/// Recognizes the format of a text behind a prefix that most lines share, and returns the text
/// without it. Lines without the prefix are kept as they are.
pub(super) fn detect_behind(text: &str) -> Option<(Detection, String)> {
    let (detection, prefix) = find(text)?;
    let mut stripped = String::with_capacity(text.len());
    for line in text.lines() {
        stripped += prefix.strip(line).unwrap_or(line);
        stripped.push('\n');
    }
    // The end of a text shows whether its last line is complete.
    if !text.ends_with('\n') {
        stripped.pop();
    }
    Some((detection, stripped))
}

fn find(text: &str) -> Option<(Detection, Prefix)> {
    let lines: Vec<&str> = head(text).lines().collect();
    lines.iter().enumerate().find_map(|(index, line)| {
        let next: Vec<&str> = lines[index + 1..]
            .iter()
            .copied()
            .filter(|line| !line.trim().is_empty())
            .take(MAX_REPEATS)
            .collect();
        word_ends(line).take(MAX_WORDS).find_map(|end| {
            let prefix = Prefix::new(&line[..end]);
            let first_next = next.first().map_or("", |next| prefix.strip(next).unwrap_or(next));
            let detection = detect_line(index + 1, &line[end..], first_next)?;
            // Prose without a mark has the shape of any other prose.
            let begin = if prefix.has_mark() { "" } else { &line[..end] };
            let is_repeat = |next: &&&str| next.starts_with(begin) && prefix.strip(next).is_some();
            let repeats = next.iter().filter(is_repeat).count();
            (2 * repeats >= next.len()).then_some((detection, prefix))
        })
    })
}

/// Returns the end of each word of a line that another word follows.
fn word_ends(line: &str) -> impl Iterator<Item = usize> + '_ {
    let ends = line.match_indices(char::is_whitespace).map(|(at, _)| at);
    ends.filter(|&at| at > 0 && !line[..at].ends_with(char::is_whitespace))
}

/// A run of characters in a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Run {
    /// Letters and digits.
    Word,
    Blank,
    Mark(char),
}

/// The shape of a prefix, without the blanks at its end.
#[derive(Debug)]
struct Prefix(Vec<Run>);

impl Prefix {
    fn new(text: &str) -> Self {
        let mut runs: Vec<Run> = Vec::new();
        for c in text.chars() {
            let run = Run::from_char(c);
            if matches!(run, Run::Mark(_)) || runs.last() != Some(&run) {
                runs.push(run);
            }
        }
        Self(runs)
    }

    fn has_mark(&self) -> bool {
        self.0.iter().any(|run| matches!(run, Run::Mark(_)))
    }

    /// Returns the rest of a line that begins with a prefix of this shape.
    fn strip<'a>(&self, line: &'a str) -> Option<&'a str> {
        let mut rest = line;
        for &run in &self.0 {
            rest = match run {
                Run::Mark(mark) => rest.strip_prefix(mark)?,
                run => {
                    let end = rest.find(|c| Run::from_char(c) != run).unwrap_or(rest.len());
                    rest.get(end..).filter(|_| end > 0)?
                }
            };
        }
        (rest.is_empty() || rest.starts_with(char::is_whitespace)).then_some(rest)
    }
}

impl Run {
    fn from_char(c: char) -> Self {
        match c {
            _ if c.is_alphanumeric() => Self::Word,
            _ if c.is_whitespace() => Self::Blank,
            _ => Self::Mark(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file_format::FileFormat;

    const TABLE: &str = "       Value     Percentile TotalCount 1/(1-Percentile)\n\n       1.000 0.000000000000          1           1.00\n       9.000 1.000000000000       1000\n#[Max     =        9.000, Total count    =         1000]\n";

    fn prefixed(prefix: impl Fn(usize) -> String) -> String {
        let lines = TABLE.lines().enumerate();
        lines.map(|(n, line)| format!("{}{line}\n", prefix(n))).collect()
    }

    #[test]
    fn prefixes_of_loggers_are_removed() {
        for text in [
            prefixed(|n| format!("2026-11-27 10:00:{n:02}.5 [{}] ", ["INFO", "warning"][n % 2])),
            prefixed(|n| format!("[{}.{n}] pid {}: ", n * 7, 98 + n)),
            prefixed(|_| "app_1  | ".to_owned()),
            prefixed(|_| "INFO ".to_owned()),
            prefixed(|n| format!("10:00:{n:02},123 INFO  [main] Latency - ")),
            prefixed(|_| "> ".to_owned()),
            prefixed(|_| "# ".to_owned()),
            prefixed(|_| "// ".to_owned()),
        ] {
            let (detection, stripped) = detect_behind(&text).unwrap_or_else(|| panic!("{text}"));
            assert_eq!(detection.format, FileFormat::Hgrm);
            // A bar alone is part of the table.
            let trim = |line: &str| line.trim_matches([' ', '|']).to_owned();
            let trimmed = |text: &str| text.lines().map(trim).collect::<Vec<_>>().join("\n");
            assert_eq!(trimmed(&stripped), trimmed(TABLE), "{text}");
        }
    }

    #[test]
    fn other_lines_are_kept() {
        let text = "start\n[Info] # RTLA timerlat histogram\n[Info] # Duration: 0\nIndex\n[Warn]\n[Info] 7";
        let (_, stripped) = detect_behind(text).unwrap();
        assert_eq!(stripped, "start\n # RTLA timerlat histogram\n # Duration: 0\nIndex\n\n 7");
    }

    #[test]
    fn prefix_must_repeat() {
        let text = "the tool prints # RTLA timerlat histogram\nand so on\nmore text\n";
        assert!(detect_behind(text).is_none());
        for text in ["", "\n", "x", "a b c d e f g h i # RTLA x"] {
            assert!(detect_behind(text).is_none(), "{text}");
        }
    }
}
