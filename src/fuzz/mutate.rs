//! Mutations of inputs. The same seed gives the same mutations.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use jitterstat::stats::random::SplitMix64;

/// Maximum length of an input. Many short inputs find more than a few long ones.
const MAX_INPUT_BYTES: usize = 128 << 10;

/// Numbers that are often handled wrongly.
const NUMBERS: [&str; 38] = [
    "0",
    "-0",
    "1",
    "-1",
    "2",
    "0.0",
    "-0.0",
    "0.5",
    "1e-400",
    "1e400",
    "-1e400",
    "1e308",
    "1e19",
    "1e-308",
    "NaN",
    "inf",
    "-inf",
    "127",
    "128",
    "255",
    "256",
    "65535",
    "65536",
    "2147483647",
    "2147483648",
    "-2147483648",
    "4294967295",
    "4294967296",
    "9007199254740993",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "9999",
    "1969",
    "1000000000000000000",
    "340282366920938463463374607431768211456",
];

/// Texts that are often handled wrongly.
const TEXTS: [&str; 34] = [
    "null",
    "true",
    "false",
    "\"\"",
    "[]",
    "{}",
    "[[[[[[[[[[[[[[[[",
    "{\"\":{\"\":{\"\":{\"\":",
    "\u{feff}",
    "\r\n",
    "\r",
    "\n\n",
    "\0",
    "\u{1b}[2J",
    "\u{202e}",
    "\u{9b}",
    "\\u0000",
    "\\ud800",
    "\\u001b",
    "</script><script>",
    "]]>",
    "&#0;",
    "<!--",
    "::error::",
    "|",
    "9999-12-31T23:59:59Z",
    "Fri, 31 Dec 9999 23:59:59 -0100",
    "=1+1",
    "%s%n",
    "..",
    "**********",
    "????",
    "'",
    "\\",
];

/// Words of binary files that are often handled wrongly.
const WORDS: [u64; 12] = [
    0,
    1,
    2,
    7,
    8,
    64,
    0x7fff_ffff,
    0xffff_ffff,
    0x1_0000_0000,
    i64::MAX as u64,
    u64::MAX - 1,
    u64::MAX,
];

/// Applies one or more changes to an input; parts are copied from `other`.
pub fn mutate(input: &[u8], other: &[u8], random: &mut SplitMix64) -> Vec<u8> {
    let mut bytes = input.to_vec();
    for _ in 0..1 << random.index(4) {
        mutate_once(&mut bytes, other, random);
        bytes.truncate(MAX_INPUT_BYTES);
    }
    bytes
}

fn mutate_once(bytes: &mut Vec<u8>, other: &[u8], random: &mut SplitMix64) {
    match random.index(16) {
        0 => change_byte(bytes, random, |byte, random| *byte ^= 1 << random.index(8)),
        1 => change_byte(bytes, random, |byte, random| *byte = random.next_u64() as u8),
        2 => {
            let span = span(bytes.len(), random);
            bytes.drain(span);
        }
        3 => {
            let copied = bytes[span(bytes.len(), random)].to_vec();
            let times = 1 + random.index(4);
            insert(bytes, &copied.repeat(times), random);
        }
        4 => {
            let from = other[span(other.len(), random)].to_vec();
            insert(bytes, &from, random);
        }
        5 => {
            let (to, from) = (span(bytes.len(), random), span(other.len(), random));
            bytes.splice(to, other[from].iter().copied());
        }
        6 | 7 => replace(bytes, random, is_number, |random, _| {
            NUMBERS[random.index(NUMBERS.len())].into()
        }),
        8 => replace(bytes, random, is_number, similar_number),
        9 => insert(bytes, TEXTS[random.index(TEXTS.len())].as_bytes(), random),
        10 => mutate_lines(bytes, random),
        11 => mutate_bracket(bytes, other, random),
        12 => replace_string(bytes, random),
        13 => overwrite_word(bytes, random),
        14 => mutate_base64(bytes, other, random),
        _ => bytes.truncate(random.index(bytes.len() + 1)),
    }
}

fn change_byte(
    bytes: &mut [u8],
    random: &mut SplitMix64,
    change: impl FnOnce(&mut u8, &mut SplitMix64),
) {
    if !bytes.is_empty() {
        let i = random.index(bytes.len());
        change(&mut bytes[i], random);
    }
}

/// Returns a random range of a sequence: mostly short, sometimes of any length.
fn span(len: usize, random: &mut SplitMix64) -> std::ops::Range<usize> {
    let start = random.index(len + 1);
    let max = if random.index(4) == 0 { len - start } else { (len - start).min(16) };
    start..start + random.index(max + 1)
}

fn insert(bytes: &mut Vec<u8>, inserted: &[u8], random: &mut SplitMix64) {
    let i = random.index(bytes.len() + 1);
    bytes.splice(i..i, inserted.iter().copied());
}

fn is_number(byte: u8) -> bool {
    byte.is_ascii_digit() || matches!(byte, b'.' | b'-' | b'+')
}

/// Returns a run of matching bytes around or after a random position.
fn token(
    bytes: &[u8],
    random: &mut SplitMix64,
    matches: fn(u8) -> bool,
) -> Option<std::ops::Range<usize>> {
    let from = random.index(bytes.len() + 1);
    let hit = from + bytes[from..].iter().position(|&b| matches(b))?;
    let start = bytes[..hit].iter().rposition(|&b| !matches(b)).map_or(0, |i| i + 1);
    let end = hit + bytes[hit..].iter().position(|&b| !matches(b)).unwrap_or(bytes.len() - hit);
    Some(start..end)
}

fn replace(
    bytes: &mut Vec<u8>,
    random: &mut SplitMix64,
    matches: fn(u8) -> bool,
    by: impl FnOnce(&mut SplitMix64, &str) -> String,
) {
    if let Some(token) = token(bytes, random, matches) {
        let new = by(random, &String::from_utf8_lossy(&bytes[token.clone()]));
        bytes.splice(token, new.into_bytes());
    }
}

/// Returns a number similar to another.
fn similar_number(random: &mut SplitMix64, text: &str) -> String {
    let Ok(number) = text.parse::<i128>() else { return format!("{text}9") };
    let changed = match random.index(6) {
        0 => number.saturating_add(1),
        1 => number.saturating_sub(1),
        2 => number.saturating_neg(),
        3 => number.saturating_mul(1_000),
        4 => number / 2,
        _ => number.saturating_mul(2),
    };
    changed.to_string()
}

/// Duplicates, removes or exchanges lines, or changes the line ends.
fn mutate_lines(bytes: &mut Vec<u8>, random: &mut SplitMix64) {
    let mut lines: Vec<&[u8]> = bytes.split_inclusive(|&b| b == b'\n').collect();
    if lines.is_empty() {
        return;
    }
    let (i, j) = (random.index(lines.len()), random.index(lines.len()));
    match random.index(4) {
        0 => drop(lines.remove(i)),
        1 => lines.insert(j, lines[i]),
        2 => lines.swap(i, j),
        _ => {
            let ended = lines.join(&b"\r"[..]);
            *bytes = ended;
            return;
        }
    }
    *bytes = lines.concat();
}

/// Returns the end of the bracket that opens at `open`.
fn bracket_end(bytes: &[u8], open: usize) -> Option<usize> {
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    for (i, &byte) in bytes.iter().enumerate().skip(open) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.checked_sub(1)?,
            _ => {}
        }
        if depth == 0 {
            return Some(i + 1);
        }
    }
    None
}

fn bracket(bytes: &[u8], random: &mut SplitMix64) -> Option<std::ops::Range<usize>> {
    let from = random.index(bytes.len() + 1);
    let open = from + bytes[from..].iter().position(|b| matches!(b, b'{' | b'['))?;
    Some(open..bracket_end(bytes, open)?)
}

/// Removes, duplicates, empties or replaces a whole object or list.
fn mutate_bracket(bytes: &mut Vec<u8>, other: &[u8], random: &mut SplitMix64) {
    let Some(range) = bracket(bytes, random) else { return };
    let whole = bytes[range.clone()].to_vec();
    let new = match random.index(6) {
        0 => b"null".to_vec(),
        1 => vec![whole[0], whole[whole.len() - 1]],
        2 => [&whole[..], b",", &whole[..]].concat(),
        3 => bracket(bytes, random).map_or(whole, |other| bytes[other].to_vec()),
        4 => bracket(other, random).map_or(whole, |range| other[range].to_vec()),
        _ => whole[1..whole.len() - 1].to_vec(),
    };
    bytes.splice(range, new);
}

/// Replaces a string by another string of the input or a constant.
fn replace_string(bytes: &mut Vec<u8>, random: &mut SplitMix64) {
    let is_inside = |byte: u8| byte != b'"';
    let (Some(to), Some(from)) = (token(bytes, random, is_inside), token(bytes, random, is_inside))
    else {
        return;
    };
    let mut new = bytes[from].to_vec();
    if random.coin() {
        new = TEXTS[random.index(TEXTS.len())].into();
    }
    bytes.splice(to, new);
}

/// Overwrites a word of four or eight bytes, in either byte order.
fn overwrite_word(bytes: &mut [u8], random: &mut SplitMix64) {
    let value = WORDS[random.index(WORDS.len())];
    let is_big_endian = random.coin();
    let width = if random.coin() { 8 } else { 4 };
    if bytes.len() < width {
        return;
    }
    let i = random.index(bytes.len() - width + 1) / 4 * 4;
    let word = if is_big_endian {
        value.to_be_bytes()[8 - width..].to_vec()
    } else {
        value.to_le_bytes()[..width].to_vec()
    };
    if let Some(target) = bytes.get_mut(i..i + width) {
        target.copy_from_slice(&word);
    }
}

/// Decodes base64 in a text, changes the content and encodes it again.
fn mutate_base64(bytes: &mut Vec<u8>, other: &[u8], random: &mut SplitMix64) {
    const MIN_ENCODED_BYTES: usize = 24;
    let is_base64 = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=');
    for _ in 0..8 {
        let found = token(bytes, random, is_base64);
        let Some(range) = found.filter(|range| range.len() >= MIN_ENCODED_BYTES) else {
            continue;
        };
        let Ok(mut inside) = BASE64.decode(&bytes[range.clone()]) else { continue };
        match random.index(4) {
            0 => change_byte(&mut inside, random, |byte, random| *byte = random.next_u64() as u8),
            1 => overwrite_word(&mut inside, random),
            2 => change_byte(&mut inside, random, |byte, random| *byte ^= 1 << random.index(8)),
            _ => insert(&mut inside, &other[span(other.len(), random)], random),
        }
        bytes.splice(range, BASE64.encode(inside).into_bytes());
        return;
    }
}
