//! The buffer that a measuring loop writes into.

use std::num::NonZeroU64;

/// A wake-up as raw counter readings, which are converted after the round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawSample {
    /// Index of the last tick that this wake-up reported, on the grid.
    pub tick: u64,
    /// Number of consecutive ticks reported, ending with `tick`; more than one if expirations were
    /// coalesced.
    pub expirations: u64,
    /// Counter reading immediately after the wait returned.
    pub wake_count: u64,
    /// Counter reading when the runtime returned from its park; `None` if it did not park for this
    /// tick. `NonZeroU64` keeps a sample at half a cache line.
    pub unpark_count: Option<NonZeroU64>,
}

/// A preallocated list of [`RawSample`]s. Pushing never allocates.
///
/// ```
/// use jitterstat::recorder::{RawSample, Recorder};
/// let mut recorder = Recorder::with_capacity(1);
/// let sample = RawSample { tick: 0, expirations: 1, wake_count: 7, unpark_count: None };
/// assert!(recorder.push(sample));
/// assert!(!recorder.push(sample), "a full recorder drops the sample");
/// assert_eq!(recorder.samples(), [sample]);
/// ```
#[derive(Debug)]
pub struct Recorder {
    /// The whole capacity; entries from `len` on are unused.
    slots: Box<[RawSample]>,
    len: usize,
}

impl Recorder {
    /// Creates a recorder for `capacity` wake-ups. Every page is touched, so that the loop causes
    /// no page faults.
    ///
    /// # Panics
    /// Panics if there is not enough memory; see [`Recorder::try_with_capacity`].
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        Self::try_with_capacity(capacity).expect("memory for the samples")
    }

    /// Creates a recorder like [`Recorder::with_capacity`], without panicking.
    ///
    /// # Errors
    /// Returns an error if there is not enough memory.
    pub fn try_with_capacity(capacity: usize) -> Result<Self, std::collections::TryReserveError> {
        let mut slots = Vec::new();
        slots.try_reserve_exact(capacity)?;
        // Writing to the pages maps them before the first tick.
        let touch = RawSample { tick: 1, expirations: 1, wake_count: 1, unpark_count: None };
        slots.resize(capacity, touch);
        Ok(Self { slots: slots.into_boxed_slice(), len: 0 })
    }

    /// Appends a sample. Returns `false` and drops the sample if the buffer is full.
    #[inline]
    pub fn push(&mut self, sample: RawSample) -> bool {
        let Some(slot) = self.slots.get_mut(self.len) else { return false };
        *slot = sample;
        self.len += 1;
        true
    }

    /// Returns the samples in order.
    #[must_use]
    pub fn samples(&self) -> &[RawSample] {
        &self.slots[..self.len]
    }

    /// Removes the samples but keeps the memory.
    pub fn clear(&mut self) {
        self.len = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capacity_is_fixed_and_reused() {
        let sample = |tick| RawSample {
            tick,
            expirations: 1,
            wake_count: tick,
            unpark_count: NonZeroU64::new(tick),
        };
        let mut recorder = Recorder::with_capacity(3);
        assert!(recorder.samples().is_empty(), "touching the pages adds no sample");
        assert_eq!(
            [0, 1, 2, 3, 4].map(|tick| recorder.push(sample(tick))),
            [true, true, true, false, false]
        );
        assert_eq!(recorder.samples(), [0, 1, 2].map(sample));
        let memory = recorder.samples().as_ptr();
        recorder.clear();
        assert!(recorder.samples().is_empty() && recorder.push(sample(7)));
        assert_eq!(
            (recorder.samples(), recorder.samples().as_ptr()),
            ([sample(7)].as_slice(), memory)
        );
        assert!(!Recorder::with_capacity(0).push(sample(0)));
    }

    #[test]
    fn samples_fill_half_a_cache_line() {
        assert_eq!(size_of::<RawSample>(), 32);
    }
}
