//! The buffer a measuring loop writes into.

/// One wake-up as raw counter readings: conversion waits until the round is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawSample {
    /// Index on the grid of the last tick this wake-up reported.
    pub tick: u64,
    /// How many consecutive ticks it reported, ending with `tick`; more than one where expirations were coalesced.
    pub expirations: u64,
    /// Counter reading taken first thing after the wait returned.
    pub wake_count: u64,
    /// Counter reading taken when the runtime came back from its park; `None` where it did not park for this tick.
    pub unpark_count: Option<u64>,
}

/// A preallocated list of [`RawSample`]s: pushing never allocates.
///
/// ```
/// use jitterstat::recorder::{RawSample, Recorder};
/// let mut recorder = Recorder::with_capacity(1);
/// let sample = RawSample { tick: 0, expirations: 1, wake_count: 7, unpark_count: None };
/// assert!(recorder.push(sample));
/// assert!(!recorder.push(sample), "full: the sample is refused, nothing is reallocated");
/// assert_eq!(recorder.samples(), [sample]);
/// ```
#[derive(Debug)]
pub struct Recorder {
    samples: Vec<RawSample>,
    capacity: usize,
}

impl Recorder {
    /// Room for `capacity` wake-ups, with every page of it touched so that the loop takes no page fault.
    ///
    /// # Panics
    /// Without enough memory; see [`Recorder::try_with_capacity`].
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        Self::try_with_capacity(capacity).expect("memory for the samples")
    }

    /// As [`Recorder::with_capacity`].
    ///
    /// # Errors
    /// Not enough memory.
    pub fn try_with_capacity(capacity: usize) -> Result<Self, std::collections::TryReserveError> {
        let mut samples = Vec::new();
        samples.try_reserve_exact(capacity)?;
        // Written once, so that the pages are there before the first tick.
        let touch = RawSample { tick: 1, expirations: 1, wake_count: 1, unpark_count: Some(1) };
        samples.resize(capacity, touch);
        samples.clear();
        Ok(Self { samples, capacity })
    }

    /// Appends a sample; `false` if the buffer is full, and then nothing is stored.
    #[inline]
    pub fn push(&mut self, sample: RawSample) -> bool {
        let room = self.samples.len() < self.capacity;
        if room {
            self.samples.push(sample);
        }
        room
    }

    /// The samples, in order.
    #[must_use]
    pub fn samples(&self) -> &[RawSample] {
        &self.samples
    }

    /// Forgets the samples and keeps the memory.
    pub fn clear(&mut self) {
        self.samples.clear();
    }
}
