//! The buffer a measuring loop writes into.

use std::num::NonZeroU64;

/// One wake-up as raw counter readings: conversion waits until the round is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawSample {
    /// Index on the grid of the last tick this wake-up reported.
    pub tick: u64,
    /// How many consecutive ticks it reported, ending with `tick`; more than one where expirations
    /// were coalesced.
    pub expirations: u64,
    /// Counter reading taken first thing after the wait returned.
    pub wake_count: u64,
    /// Counter reading taken when the runtime came back from its park; `None` where it did not park
    /// for this tick. One word, so that a sample is half a cache line.
    pub unpark_count: Option<NonZeroU64>,
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
    /// All that there is room for; those from `len` on mean nothing.
    room: Box<[RawSample]>,
    len: usize,
}

impl Recorder {
    /// Room for `capacity` wake-ups, with every page of it touched so that the loop takes no page
    /// fault.
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
        let mut room = Vec::new();
        room.try_reserve_exact(capacity)?;
        // Written once, so that the pages are there before the first tick.
        let touch = RawSample { tick: 1, expirations: 1, wake_count: 1, unpark_count: None };
        room.resize(capacity, touch);
        Ok(Self { room: room.into_boxed_slice(), len: 0 })
    }

    /// Appends a sample; `false` if the buffer is full, and then nothing is stored.
    #[inline]
    pub fn push(&mut self, sample: RawSample) -> bool {
        let Some(slot) = self.room.get_mut(self.len) else { return false };
        *slot = sample;
        self.len += 1;
        true
    }

    /// The samples, in order.
    #[must_use]
    pub fn samples(&self) -> &[RawSample] {
        &self.room[..self.len]
    }

    /// Forgets the samples and keeps the memory.
    pub fn clear(&mut self) {
        self.len = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_takes_what_there_is_room_for_and_keeps_its_memory() {
        let sample = |tick| RawSample {
            tick,
            expirations: 1,
            wake_count: tick,
            unpark_count: NonZeroU64::new(tick),
        };
        let mut recorder = Recorder::with_capacity(3);
        assert!(recorder.samples().is_empty(), "what was written to touch the pages is no sample");
        assert_eq!(
            [0, 1, 2, 3, 4].map(|tick| recorder.push(sample(tick))),
            [true, true, true, false, false]
        );
        assert_eq!(recorder.samples(), [0, 1, 2].map(sample));
        let at = recorder.samples().as_ptr();
        recorder.clear();
        assert!(recorder.samples().is_empty() && recorder.push(sample(7)));
        assert_eq!((recorder.samples(), recorder.samples().as_ptr()), ([sample(7)].as_slice(), at));
        assert!(!Recorder::with_capacity(0).push(sample(0)));
    }

    #[test]
    fn a_sample_is_half_a_cache_line() {
        assert_eq!(size_of::<RawSample>(), 32);
    }
}
