//! The measuring loop, the rounds of a plan, and the report that they make.

pub mod benches;
pub mod child;
mod concurrent_rounds;
pub mod cost;
pub mod diagnosis;
pub mod duet;
mod executor;
pub mod late_tick_log;
pub mod late_watch;
pub mod load;
pub mod long_wait;
pub mod metered_loop;
pub mod metric;
mod observer_cost;
pub mod order;
pub mod pair_turns;
pub mod program;
pub mod program_output;
pub mod record;
pub mod round;
mod runtime_load;
pub mod scratch;
mod subject_settings;
pub mod supervisor;
mod tick_loop;
pub mod trial_commands;
pub mod why;
