//! Runs one input of the target that has the name of this binary.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| osjitter::fuzz::run(env!("CARGO_BIN_NAME"), bytes));
