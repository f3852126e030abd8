//! Names of the files and directories of a log.

use std::io;
use std::path::Path;

use cli::file_io;

/// Endings of an interval's files, in the order in which the files appear. The first file exists
/// for every interval and claims its name; the last one completes it.
pub const ENDINGS: [&str; 3] = ["intervals.csv", "breaches.json", "bins.csv"];
/// Length of a date such as `2026-11-22`.
pub const DAY_LEN: usize = 10;
/// First part of the ending of a flight record.
pub const FLIGHT_PREFIX: &str = "flight-";

/// Returns a host name as part of a file's name. Other hosts have other names. The file is not hidden.
pub fn plain_name(host: &str) -> String {
    let mut plain = String::new();
    for (at, byte) in host.bytes().enumerate() {
        let is_plain = byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
        if is_plain || (byte == b'.' && at > 0) {
            plain.push(char::from(byte));
        } else {
            plain.push_str(&format!("%{byte:02X}"));
        }
    }
    plain
}

/// Checks that the longest name of a file is not too long, and neither is its path.
pub fn check_lengths(directory: &Path, host: &str) -> io::Result<()> {
    let name = format!("{host}.20001231T235959Z-{}.{}", u16::MAX, ENDINGS[0]);
    file_io::check_length(&directory.join(&name))?;
    file_io::check_length(&directory.join("2000-12-31").join(name))
}

pub fn is_day(name: &str) -> bool {
    name.len() == DAY_LEN && name.chars().all(|c| c.is_ascii_digit() || c == '-')
}

fn is_flight_ending(ending: &str) -> bool {
    let number = ending.strip_prefix(FLIGHT_PREFIX).and_then(|ending| ending.strip_suffix(".json"));
    number.is_some_and(|number| number.parse::<u32>().is_ok())
}

/// Returns the name of a flight record without its ending.
pub fn flight_stem(name: &str) -> Option<&str> {
    let (dot, _) = name.rmatch_indices('.').nth(1)?;
    is_flight_ending(&name[dot + 1..]).then(|| &name[..dot])
}

/// The place of an interval among those of a host: its date, and its number among those of one date.
pub type Place<'n> = (&'n str, u32);

/// Returns the place of an interval, if a file has its name.
pub fn place(name: &str) -> Option<Place<'_>> {
    let stem = stem_of(name).or_else(|| flight_stem(name))?;
    let (_, time) = stem.rsplit_once('.')?;
    let (date, number) = match time.split_once('-') {
        Some((date, number)) => (date, number.parse().ok()?),
        None => (time, 1),
    };
    let is_canonical = match number {
        0 => false,
        1 => time == date,
        _ => time == format!("{date}-{number}"),
    };
    let (day, second) = date.strip_suffix('Z')?.split_once('T')?;
    let is_number =
        |text: &str, len| text.len() == len && text.bytes().all(|byte| byte.is_ascii_digit());
    (is_canonical && is_number(day, 8) && is_number(second, 6)).then_some((date, number))
}

/// Returns the name of an interval's file without its ending.
pub fn stem_of(name: &str) -> Option<&str> {
    ENDINGS.iter().find_map(|ending| name.strip_suffix(ending)?.strip_suffix('.'))
}
