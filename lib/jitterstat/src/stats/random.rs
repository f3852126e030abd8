//! A small random number generator for orders, phases and resampling. It gives the same numbers on
//! every machine, so that a run can be repeated and a report verified from the seed.

/// `SplitMix64` (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA
/// 2014).
///
/// The numbers of a seed never change: they depend neither on the version nor on the pointer width.
///
/// ```
/// use jitterstat::stats::random::SplitMix64;
///
/// let mut order = ["a", "b", "c"];
/// SplitMix64::new(1).shuffle(&mut order);
/// let mut again = ["a", "b", "c"];
/// SplitMix64::new(1).shuffle(&mut again);
/// assert_eq!(order, again);
/// ```
#[derive(Clone, Debug)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// Creates a generator. All seeds are equally good.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns 64 uniform bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Returns a uniform number in `0..n`, without bias (Lemire, "Fast random integer generation in
    /// an interval", 2019); 0 if `n` is 0.
    pub fn below(&mut self, n: u64) -> u64 {
        loop {
            let product = u128::from(self.next_u64()) * u128::from(n);
            let low = product as u64;
            // The first 2^64 mod n of the 2^64 possible draws would favour some results.
            if low >= n || low >= n.wrapping_neg() % n.max(1) {
                return (product >> 64) as u64;
            }
        }
    }

    /// Returns a uniform index into a slice of this length; 0 if it is empty.
    pub fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// Returns a uniform number in `[0, 1)`, in steps of 2^-53.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Returns true or false with equal probability.
    pub fn coin(&mut self) -> bool {
        self.next_u64() >> 63 == 1
    }

    /// Shuffles a slice uniformly (Fisher and Yates).
    pub fn shuffle<T>(&mut self, slice: &mut [T]) {
        for i in (1..slice.len()).rev() {
            slice.swap(i, self.index(i + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_match_reference() {
        let first = |seed| {
            let mut random = SplitMix64::new(seed);
            [(); 3].map(|()| random.next_u64())
        };
        assert_eq!(first(0), [0xE220_A839_7B1D_CDAF, 0x6E78_9E6A_A1B9_65F4, 0x06C4_5D18_8009_454F]);
        assert_eq!(
            first(1_234_567),
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }

    #[test]
    fn draws_are_portable() {
        let mut order: Vec<u32> = (0..10).collect();
        SplitMix64::new(1).shuffle(&mut order);
        assert_eq!(order, [9, 0, 1, 4, 8, 2, 3, 7, 6, 5]);
        let mut random = SplitMix64::new(1);
        assert_eq!([(); 4].map(|()| random.index(1_000)), [566, 745, 971, 444]);
        assert_eq!([(); 4].map(|()| random.coin()), [false, true, true, true]);
        assert_eq!(random.unit(), 0.28550868439696664);
    }

    #[test]
    fn draws_cover_the_range() {
        let mut random = SplitMix64::new(1);
        let mut seen = [0_u32; 7];
        for _ in 0..7_000 {
            seen[random.index(7)] += 1;
        }
        assert!(seen.iter().all(|&n| (800..1_200).contains(&n)), "{seen:?}");
        assert!((0..1_000).map(|_| random.unit()).all(|u| (0.0..1.0).contains(&u)));
        assert_eq!([random.below(0), random.below(1)], [0, 0]);
        // At this bound one draw in four is rejected and repeated.
        let n = 3 << 62;
        assert!((0..1_000).all(|_| random.below(n) < n));
    }
}
