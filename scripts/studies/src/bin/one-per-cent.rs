//! Functions of about 400 ns for `scripts/studies/one-per-cent.py`, and their comparison in one
//! process.
//!
//! ```text
//! one-per-cent compare TOLERANCE SEED BYTES     hash of 400 bytes against that of BYTES bytes
//! one-per-cent copies WORK TOLERANCE SEED       the first of eight copies of a function against each
//! one-per-cent process BYTES MILLISECONDS       the time of a call as a metric of this process
//! ```

use std::error::Error;
use std::fs::File;
use std::hint::black_box;
use std::time::{Duration, Instant};

use jitterstat::gate::calls::{CallComparison, CallPairs};
use jitterstat::gate::in_turn::JudgedInTurn;
use jitterstat::series;
use serde_json::{Value, json};

/// Number of bytes of the base.
const BYTES: usize = 400;

/// Defines copies of two functions. Their constants differ, so that they are not merged.
macro_rules! copies {
    ($($copy:ident $constant:literal)*) => {
        $(mod $copy {
            /// A chain of multiplications: each step waits for the one before. All lengths of
            /// the study are multiples of four, by which compilers unroll the loop.
            #[inline(never)]
            pub fn hash(bytes: &[u8]) -> u64 {
                bytes.iter().fold($constant, |hash: u64, byte| {
                    (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(5)
                })
            }

            /// A scanner with a branch for each byte.
            #[inline(never)]
            pub fn scan(bytes: &[u8]) -> u64 {
                let (mut words, mut digits, mut in_word) = ($constant, 0, false);
                for byte in bytes {
                    match byte {
                        b' ' | b',' => in_word = false,
                        b'0'..=b'9' => digits += u64::from(*byte - b'0'),
                        _ if !in_word => {
                            words += 1;
                            in_word = true;
                        }
                        _ => {}
                    }
                }
                words ^ digits
            }
        })*
        const HASHES: &[fn(&[u8]) -> u64] = &[$($copy::hash),*];
        const SCANS: &[fn(&[u8]) -> u64] = &[$($copy::scan),*];
    };
}

copies! {
    copy_0 0xcbf2_9ce4_8422_2325
    copy_1 0xcbf2_9ce4_8422_2327
    copy_2 0xcbf2_9ce4_8422_2329
    copy_3 0xcbf2_9ce4_8422_232b
    copy_4 0xcbf2_9ce4_8422_232d
    copy_5 0xcbf2_9ce4_8422_232f
    copy_6 0xcbf2_9ce4_8422_2331
    copy_7 0xcbf2_9ce4_8422_2333
}

/// A function of bytes that is called through a pointer, so that every use of it is the same code.
struct Work<'a> {
    function: fn(&[u8]) -> u64,
    bytes: &'a [u8],
}

impl Work<'_> {
    fn call(&self) -> u64 {
        (self.function)(black_box(self.bytes))
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let usage = "usage: one-per-cent compare|copies|process ...";
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let text: Vec<u8> = b"field 12, value 3.75, and 6 words more; ".repeat(20);
    match arguments[..] {
        ["compare", tolerance, seed, bytes] => {
            let bytes = &text[..bytes.parse()?];
            let works = [&text[..BYTES], bytes].map(|bytes| Work { function: HASHES[0], bytes });
            println!("{}", compare(&works, tolerance.parse()?, seed.parse()?));
        }
        ["copies", work, tolerance, seed] => {
            let functions = if work == "hash" { HASHES } else { SCANS };
            for function in functions {
                let bytes = &text[..BYTES];
                let works = [functions[0], *function].map(|function| Work { function, bytes });
                println!("{}", compare(&works, tolerance.parse()?, seed.parse()?));
            }
        }
        ["process", bytes, milliseconds] => {
            let work = Work { function: HASHES[0], bytes: &text[..bytes.parse()?] };
            report_call_time(&work, Duration::from_millis(milliseconds.parse()?))?;
        }
        _ => return Err(usage.into()),
    }
    Ok(())
}

fn compare(works: &[Work<'_>; 2], tolerance: f64, seed: u64) -> Value {
    let started = Instant::now();
    let comparison = CallComparison::new(tolerance).seed(seed);
    // One closure type, so that unchanged sides are the same code.
    let [a, b] = works.each_ref().map(|work| || work.call());
    let judged = comparison.run(|| started.elapsed(), a, b);
    describe(&judged, started.elapsed())
}

fn describe(judged: &JudgedInTurn, duration: Duration) -> Value {
    json!({
        "outcome": judged.outcome.to_string(),
        "ratio": judged.ratio,
        "interval": judged.ratio_interval.map(<[f64; 2]>::from),
        "found_ratio": judged.found_ratio,
        "pairs": judged.pairs,
        "base_ns": judged.sides.base,
        "seconds": duration.as_secs_f64(),
    })
}

/// Writes the median time of a call to the file that the gate requests.
fn report_call_time(work: &Work<'_>, duration: Duration) -> Result<(), Box<dyn Error>> {
    let started = Instant::now();
    let mut pairs = CallPairs::new(1, || started.elapsed(), || work.call(), || work.call());
    let ns = pairs.measure(duration).base;
    let text = format!("osjitter.series/1\nmetric call ns lower\ncall {ns}\n");
    match std::env::var_os(series::ENV_OUT) {
        Some(path) => std::io::Write::write_all(&mut File::create(path)?, text.as_bytes())?,
        None => print!("{text}"),
    }
    Ok(())
}
