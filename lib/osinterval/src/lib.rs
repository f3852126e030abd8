//! Periodic ticks for tokio from the operating system's own timers, tens of microseconds or tens of nanoseconds from the deadline.
