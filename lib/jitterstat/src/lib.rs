//! Samples, statistics, report model, comparison and gate for timer lateness: pure, no clock, no I/O.
