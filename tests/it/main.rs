//! Tests of the binary: its outputs, files and exit codes.
//!
//! After an intended change of a snapshot, run `INSTA_UPDATE=always cargo test --test it` and
//! review the difference.
#![allow(unreachable_pub, reason = "a test binary has no public interface")]

mod architecture;
mod bench;
mod bins;
mod book;
mod calibrate;
mod ci;
mod claims;
mod compare;
mod completions;
mod control;
mod docs;
mod doctor;
mod each_cpu;
mod endings;
mod export;
mod faults;
mod find;
mod fixtures;
mod formats;
mod gate;
mod history;
mod hostile;
mod import;
mod interrupt;
mod killed;
mod language;
mod late;
mod list;
mod live;
mod load;
mod long;
mod merge;
mod monitor;
mod monitor_flights;
mod old_files;
mod osjitter;
mod output_files;
mod packaging;
mod perfetto;
mod pictures;
mod plans;
mod process_ids;
mod program;
mod program_cost;
mod program_rounds;
mod pseudo_terminal;
mod readme;
mod report;
mod run;
mod schema;
mod service;
mod settings;
mod snapshots;
mod stalls;
mod table;
mod terminal;
mod top;
mod trace;
mod user_settings;
mod why;
mod workspace;
