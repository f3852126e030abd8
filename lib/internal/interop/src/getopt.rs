//! Reads one option from the command line of another program by the rules of `getopt_long`.

/// The options of a program.
pub(super) struct Options {
    /// Short options in the syntax of getopt: a colon follows an option that needs a value, two
    /// colons one whose value can only be attached.
    pub short: &'static str,
    /// Long options that need a value.
    pub long_with_value: &'static [&'static str],
}

/// An option on a command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// The option has this value.
    Value(String),
    /// The option is not given.
    Absent,
    /// The command line has options that are not known, and one of them may hide this one.
    Unclear,
}

impl Options {
    /// Finds the value of an option that needs one, by its short and its long name. The last one
    /// counts.
    pub fn find(&self, command_line: &str, short: char, long: &str) -> Found {
        let Some(words) = shlex::split(command_line).filter(|words| !words.is_empty()) else {
            return Found::Unclear;
        };
        let mut found = Found::Absent;
        let mut words = words.into_iter().skip(1);
        while let Some(word) = words.next() {
            if word == "--" {
                break;
            }
            let option = match (word.strip_prefix("--"), word.strip_prefix('-')) {
                (Some(name), _) => self.parse_long(name, long),
                (None, Some(letters)) => self.parse_short(letters, short),
                (None, None) => Parsed::Other,
            };
            found = match option {
                Parsed::Other => found,
                Parsed::OtherWithValueNext => {
                    words.next();
                    found
                }
                Parsed::Wanted(value) => Found::Value(value),
                Parsed::WantedNext => words.next().map_or(Found::Unclear, Found::Value),
                Parsed::Unclear => Found::Unclear,
            };
        }
        found
    }

    fn parse_long(&self, option: &str, wanted: &str) -> Parsed {
        let (name, value) = option.split_once('=').map_or((option, None), |(n, v)| (n, Some(v)));
        // An unambiguous beginning of a name is enough.
        let mut candidates = self.long_with_value.iter().filter(|long| long.starts_with(name));
        let long = match (candidates.next(), candidates.next()) {
            (Some(&long), None) => Some(long),
            _ => self.long_with_value.iter().copied().find(|long| *long == name),
        };
        match (long, value) {
            (Some(long), Some(value)) if long == wanted => Parsed::Wanted(value.to_owned()),
            (Some(long), None) if long == wanted => Parsed::WantedNext,
            (Some(_), None) => Parsed::OtherWithValueNext,
            _ => Parsed::Other,
        }
    }

    /// Parses a word of short options, of which the last may have a value.
    fn parse_short(&self, letters: &str, wanted: char) -> Parsed {
        for (at, letter) in letters.char_indices() {
            let rest = &letters[at + letter.len_utf8()..];
            let Some((_, syntax)) = self.short.split_once(letter).filter(|_| letter != ':') else {
                return if rest.contains(wanted) || letter == wanted {
                    Parsed::Unclear
                } else {
                    Parsed::Other
                };
            };
            let needs_value = syntax.starts_with(':');
            let is_attached_only = syntax.starts_with("::");
            return match (needs_value, rest.is_empty()) {
                (false, _) => continue,
                (true, false) if letter == wanted => Parsed::Wanted(rest.to_owned()),
                (true, true) if letter == wanted => Parsed::WantedNext,
                (true, true) if !is_attached_only => Parsed::OtherWithValueNext,
                (true, _) => Parsed::Other,
            };
        }
        Parsed::Other
    }
}

/// A word of a command line.
enum Parsed {
    /// Other options, or no option.
    Other,
    /// Another option whose value is the next word.
    OtherWithValueNext,
    Wanted(String),
    /// The wanted option, whose value is the next word.
    WantedNext,
    Unclear,
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPTIONS: Options =
        Options { short: "a::D:h:i:mqt::", long_with_value: &["interval", "duration", "distance"] };

    fn find(line: &str) -> Found {
        OPTIONS.find(line, 'i', "interval")
    }

    #[test]
    fn all_spellings_are_found() {
        for line in [
            "c -i 500", "c -i500", "c -qD1 -mi500", "c -qmi 500", "c --interval=500",
            "c --interval 500", "c --int 500 --d 7", "c -i 9 -D -i -i 500", "/a\\ b/c -a -i 500",
            "dir/c with words -i 500", "c -t4 -i 500 -- -i 7",
        ] {
            assert_eq!(find(line), Found::Value("500".to_owned()), "{line}");
        }
    }

    #[test]
    fn values_of_others_are_skipped() {
        for line in
            ["c", "c -q", "c -D -i500", "c --duration -i", "c -h -i", "c -mD1i5", "c -- -i 5"]
        {
            assert_eq!(find(line), Found::Absent, "{line}");
        }
    }

    #[test]
    fn unknown_options_may_hide_it() {
        for line in ["", "c -Zi500", "c -i", "c 'unbalanced"] {
            assert_eq!(find(line), Found::Unclear, "{line}");
        }
        assert_eq!(find("c -Z -i 500"), Found::Value("500".to_owned()));
        assert_eq!(find("c -Z"), Found::Absent);
    }
}
