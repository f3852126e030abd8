//! Benchmarks of divan.
