//! Functions of a library as its benchmarks call them, for `scripts/studies/criterion-gate.py`.

use std::collections::HashMap;
use std::fmt::Write as _;

/// Count of the numbers that [`sum_of_lines`] parses in its benchmark.
pub const LINES: usize = if cfg!(feature = "slowed") { 420 } else { 400 };

/// Returns pseudo-random numbers, the same in each process.
#[must_use]
pub fn numbers(count: usize) -> Vec<u32> {
    let mut state = 1_u64;
    let mut next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u32
    };
    (0..count).map(|_| next()).collect()
}

/// Returns a text with a number of ten digits in each line.
#[must_use]
pub fn lines(count: usize) -> String {
    numbers(count).iter().fold(String::new(), |mut text, number| {
        let _ = writeln!(text, "{number:010}");
        text
    })
}

/// Returns the FNV-1a hash of bytes.
#[must_use]
pub fn hash(bytes: &[u8]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in bytes {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    }
    hash
}

/// Returns the sum of the numbers of a text.
#[must_use]
pub fn sum_of_lines(text: &str) -> u64 {
    text.lines().filter_map(|line| line.parse::<u64>().ok()).sum()
}

/// Counts the numbers by their last three digits.
#[must_use]
pub fn count_groups(numbers: &[u32]) -> HashMap<u32, u32> {
    let mut groups = HashMap::new();
    for number in numbers {
        *groups.entry(number % 1000).or_insert(0) += 1;
    }
    groups
}
