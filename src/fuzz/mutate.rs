//! Inputs from other inputs, by one generator: the same seed makes the same ones.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use jitterstat::stats::random::SplitMix64;

/// No input becomes longer: there are more of them instead.
const MAX_INPUT_BYTES: usize = 128 << 10;

/// What numbers are often wrong about.
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

/// What texts are often wrong about.
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

/// Words of binary files.
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

/// One or more changes to an input; `other` is where parts are taken from.
pub fn mutated(input: &[u8], other: &[u8], random: &mut SplitMix64) -> Vec<u8> {
    let mut bytes = input.to_vec();
    for _ in 0..1 << random.index(4) {
        once(&mut bytes, other, random);
        bytes.truncate(MAX_INPUT_BYTES);
    }
    bytes
}

fn once(bytes: &mut Vec<u8>, other: &[u8], random: &mut SplitMix64) {
    match random.index(16) {
        0 => at(bytes, random, |byte, random| *byte ^= 1 << random.index(8)),
        1 => at(bytes, random, |byte, random| *byte = random.next_u64() as u8),
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
        8 => replace(bytes, random, is_number, near),
        9 => insert(bytes, TEXTS[random.index(TEXTS.len())].as_bytes(), random),
        10 => lines(bytes, random),
        11 => brackets(bytes, other, random),
        12 => strings(bytes, random),
        13 => word(bytes, random),
        14 => encoded(bytes, other, random),
        _ => bytes.truncate(random.index(bytes.len() + 1)),
    }
}

fn at(bytes: &mut [u8], random: &mut SplitMix64, change: impl FnOnce(&mut u8, &mut SplitMix64)) {
    if !bytes.is_empty() {
        let i = random.index(bytes.len());
        change(&mut bytes[i], random);
    }
}

/// A part of something so long: mostly short, sometimes anything.
fn span(len: usize, random: &mut SplitMix64) -> std::ops::Range<usize> {
    let start = random.index(len + 1);
    let most = if random.index(4) == 0 { len - start } else { (len - start).min(16) };
    start..start + random.index(most + 1)
}

fn insert(bytes: &mut Vec<u8>, what: &[u8], random: &mut SplitMix64) {
    let i = random.index(bytes.len() + 1);
    bytes.splice(i..i, what.iter().copied());
}

fn is_number(byte: u8) -> bool {
    byte.is_ascii_digit() || matches!(byte, b'.' | b'-' | b'+')
}

/// The run of such bytes around a random place, or behind it.
fn token(
    bytes: &[u8],
    random: &mut SplitMix64,
    is: fn(u8) -> bool,
) -> Option<std::ops::Range<usize>> {
    let from = random.index(bytes.len() + 1);
    let hit = from + bytes[from..].iter().position(|&b| is(b))?;
    let start = bytes[..hit].iter().rposition(|&b| !is(b)).map_or(0, |i| i + 1);
    let end = hit + bytes[hit..].iter().position(|&b| !is(b)).unwrap_or(bytes.len() - hit);
    Some(start..end)
}

fn replace(
    bytes: &mut Vec<u8>,
    random: &mut SplitMix64,
    is: fn(u8) -> bool,
    by: impl FnOnce(&mut SplitMix64, &str) -> String,
) {
    if let Some(token) = token(bytes, random, is) {
        let new = by(random, &String::from_utf8_lossy(&bytes[token.clone()]));
        bytes.splice(token, new.into_bytes());
    }
}

/// A number like that one.
fn near(random: &mut SplitMix64, text: &str) -> String {
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

/// Lines twice, gone, exchanged, or with the other line end.
fn lines(bytes: &mut Vec<u8>, random: &mut SplitMix64) {
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

/// The end of the bracket that opens there.
fn closes(bytes: &[u8], open: usize) -> Option<usize> {
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

fn value(bytes: &[u8], random: &mut SplitMix64) -> Option<std::ops::Range<usize>> {
    let from = random.index(bytes.len() + 1);
    let open = from + bytes[from..].iter().position(|b| matches!(b, b'{' | b'['))?;
    Some(open..closes(bytes, open)?)
}

/// A whole object or list: gone, twice, empty, or another one in its place.
fn brackets(bytes: &mut Vec<u8>, other: &[u8], random: &mut SplitMix64) {
    let Some(of) = value(bytes, random) else { return };
    let whole = bytes[of.clone()].to_vec();
    let new = match random.index(6) {
        0 => b"null".to_vec(),
        1 => vec![whole[0], whole[whole.len() - 1]],
        2 => [&whole[..], b",", &whole[..]].concat(),
        3 => value(bytes, random).map_or(whole, |other| bytes[other].to_vec()),
        4 => value(other, random).map_or(whole, |of| other[of].to_vec()),
        _ => whole[1..whole.len() - 1].to_vec(),
    };
    bytes.splice(of, new);
}

/// The text of one string in the place of another, changed or as it is.
fn strings(bytes: &mut Vec<u8>, random: &mut SplitMix64) {
    let is = |byte: u8| byte != b'"';
    let (Some(to), Some(from)) = (token(bytes, random, is), token(bytes, random, is)) else {
        return;
    };
    let mut new = bytes[from].to_vec();
    if random.coin() {
        new = TEXTS[random.index(TEXTS.len())].into();
    }
    bytes.splice(to, new);
}

/// A word of eight or four bytes, in either order.
fn word(bytes: &mut [u8], random: &mut SplitMix64) {
    let value = WORDS[random.index(WORDS.len())];
    let big = random.coin();
    let width = if random.coin() { 8 } else { 4 };
    if bytes.len() < width {
        return;
    }
    let i = random.index(bytes.len() - width + 1) / 4 * 4;
    let of = if big {
        value.to_be_bytes()[8 - width..].to_vec()
    } else {
        value.to_le_bytes()[..width].to_vec()
    };
    if let Some(place) = bytes.get_mut(i..i + width) {
        place.copy_from_slice(&of);
    }
}

/// What is encoded in a text, changed and encoded again: else base64 hides it.
fn encoded(bytes: &mut Vec<u8>, other: &[u8], random: &mut SplitMix64) {
    const MIN_ENCODED_BYTES: usize = 24;
    let is = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=');
    for _ in 0..8 {
        let Some(of) = token(bytes, random, is).filter(|of| of.len() >= MIN_ENCODED_BYTES) else {
            continue;
        };
        let Ok(mut inside) = BASE64.decode(&bytes[of.clone()]) else { continue };
        match random.index(4) {
            0 => at(&mut inside, random, |byte, random| *byte = random.next_u64() as u8),
            1 => word(&mut inside, random),
            2 => at(&mut inside, random, |byte, random| *byte ^= 1 << random.index(8)),
            _ => insert(&mut inside, &other[span(other.len(), random)], random),
        }
        bytes.splice(of, BASE64.encode(inside).into_bytes());
        return;
    }
}
