//! Clocks from the CPU counter: one instruction to read, trustworthy or replaced by the OS clock, no calibration stall.
