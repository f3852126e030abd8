//! The memory of a meter, word by word: `tickmeter/1`.
//!
//! A file is a sequence of 64-bit words in the byte order of the machine. The first 64 are the
//! header; it says where the rest is, and of what size, so a reader needs no constant of this file
//! but the places of the header's own words.
//!
//! ```text
//!  0  the bytes "tickmetr"               11  process id
//!  1  version of this layout: 1          12  registered at, Unix time in ns
//!  2  length of the file, in bytes       13  period in ns
//!  3  B: see the bins                    14  a tick is recorded as late from this many ns on
//!  4  first bin of the lateness          15  error bound of the clock at registration, ns
//!  5  ... and their number               16  length of the name in bytes; 17 to 24 the name, UTF-8
//!  6  first bin of the work              25  length of the program's name; 26 to 31 the program's name
//!  7  ... and their number
//!  8  first word of the recorder         42  ticks with known work: the sum of its bins
//!  9  ... its records                    43  sum of the work, ns
//! 10  ... and words in each              44  maximum of the work, ns
//!                                        45  late ticks whose recording has begun
//! 32  ticks whose booking has begun      46  late ticks whose recording is complete
//! 33  ticks whose booking is complete: the sum of the lateness's bins
//! 34  time of the last tick, ns since registration
//! 35  missed     36  ... of which the work before ran into the deadline
//! 37  coalesced  38  skipped   39  early   40  overruns   41  maximum of the lateness, ns
//! ```
//!
//! **Bins** are log-linear: values below 2^(B+1) ns have a bin each, and every power of two above
//! has 2^B of equal width. So a bin is never wider than 1/2^B of its values. With B = 7 that is 0.8
//! %: the bins of an HdrHistogram of two digits. The last bin also has all that is beyond it. Early
//! ticks are in bin 0.
//!
//! **The recorder** is a ring of late ticks; number n, counted from 1, is in record (n − 1) mod
//! records. Its words: n; time of the tick, ns since registration; lateness; work before it
//! ([`UNKNOWN`] if not known); how far that work ran past the deadline; the rest is zero.
//!
//! **Publication.** There is one writer. It stores the word 32 (and 45), then all that changes,
//! then 46 and 33. A reader copies the header, then everything, then the header again. If 33 of the
//! first equals 32 of the last, nothing changed meanwhile. Otherwise each word is one that it had
//! at some moment in between, the sum of the lateness's bins lies between the two, and the records
//! above 45 of the last minus their number, up to 46 of the first, are whole.

/// First word.
pub(crate) const MAGIC: u64 = u64::from_ne_bytes(*b"tickmetr");
pub(crate) const VERSION: u64 = 1;
pub(crate) const HEADER: usize = 64;
/// No file is larger.
pub(crate) const LONGEST_FILE: u64 = 1 << 20;
pub(crate) const LONGEST_NAME: usize = 64;
pub(crate) const LONGEST_PROGRAM: usize = 48;
/// The work of a record that is not known.
pub(crate) const UNKNOWN: u64 = u64::MAX;
/// Words of a record that are in use.
pub(crate) const RECORD: usize = 5;

/// The words of the header.
pub(crate) mod at {
    pub(crate) const MAGIC: usize = 0;
    pub(crate) const VERSION: usize = 1;
    pub(crate) const BYTES: usize = 2;
    pub(crate) const BIN_BITS: usize = 3;
    pub(crate) const LATENESS: usize = 4;
    pub(crate) const WORK: usize = 6;
    pub(crate) const RECORDER: usize = 8;
    pub(crate) const PID: usize = 11;
    pub(crate) const REGISTERED: usize = 12;
    pub(crate) const PERIOD: usize = 13;
    pub(crate) const LATE_FROM: usize = 14;
    pub(crate) const CLOCK_ERROR: usize = 15;
    pub(crate) const NAME: usize = 16;
    pub(crate) const PROGRAM: usize = 25;
    pub(crate) const BEGUN: usize = 32;
    pub(crate) const DONE: usize = 33;
    pub(crate) const LAST: usize = 34;
    pub(crate) const MISSED: usize = 35;
    pub(crate) const MISSED_OVERRUN: usize = 36;
    pub(crate) const COALESCED: usize = 37;
    pub(crate) const SKIPPED: usize = 38;
    pub(crate) const EARLY: usize = 39;
    pub(crate) const OVERRUNS: usize = 40;
    pub(crate) const MAX_LATENESS: usize = 41;
    pub(crate) const WORKS: usize = 42;
    pub(crate) const WORK_SUM: usize = 43;
    pub(crate) const MAX_WORK: usize = 44;
    pub(crate) const LATE_BEGUN: usize = 45;
    pub(crate) const LATE_DONE: usize = 46;
}

/// The bin of a value, by B; as many as it takes.
#[inline]
pub(crate) fn bin(bits: u32, ns: u64) -> usize {
    let shift = (ns | ((2 << bits) - 1)).ilog2() - bits;
    ((shift as usize) << bits) + (ns >> shift) as usize
}

/// The least value of a bin; saturates.
pub(crate) fn bin_start(bits: u32, bin: usize) -> u64 {
    let linear = 2_usize << bits;
    if bin < linear {
        return bin as u64;
    }
    let shift = (bin >> bits) as u32 - 1;
    let within = (bin - ((shift as usize) << bits)) as u64;
    if within.leading_zeros() < shift { u64::MAX } else { within << shift }
}

/// Where the parts of a file are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) bin_bits: u32,
    /// First word and number of bins.
    pub(crate) lateness: (usize, usize),
    pub(crate) work: (usize, usize),
    /// First word, number of records, words in each.
    pub(crate) recorder: (usize, usize, usize),
    pub(crate) words: usize,
}

/// What is wrong with a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    NoMeter,
    Newer(u64),
    Malformed(&'static str),
}

impl Layout {
    /// Of the files that this version writes: bins up to 2^37 ns, which are 137 s, and 128 late
    /// ticks.
    pub(crate) const CURRENT: Self = Self::new(7, 3_968, 128);

    pub(crate) const fn new(bin_bits: u32, bins: usize, records: usize) -> Self {
        let (work, recorder) = (HEADER + bins, HEADER + 2 * bins);
        let words = recorder + records * 8;
        Self {
            bin_bits,
            lateness: (HEADER, bins),
            work: (work, bins),
            recorder: (recorder, records, 8),
            words,
        }
    }

    /// Its words of a header.
    pub(crate) fn header(&self) -> [u64; 11] {
        let word = |n: usize| n as u64;
        [
            MAGIC,
            VERSION,
            word(self.words) * 8,
            self.bin_bits.into(),
            word(self.lateness.0),
            word(self.lateness.1),
            word(self.work.0),
            word(self.work.1),
            word(self.recorder.0),
            word(self.recorder.1),
            word(self.recorder.2),
        ]
    }

    /// Reads the header of a file of so many bytes, and trusts nothing in it.
    pub(crate) fn of(header: &[u64; HEADER], bytes: u64) -> Result<Self, Fault> {
        if header[at::MAGIC] != MAGIC {
            return Err(Fault::NoMeter);
        }
        if header[at::VERSION] != VERSION {
            return Err(Fault::Newer(header[at::VERSION]));
        }
        if header[at::BYTES] != bytes || !bytes.is_multiple_of(8) || bytes > LONGEST_FILE {
            return Err(Fault::Malformed("its length is not the one in its header"));
        }
        let words = bytes / 8;
        let number = |at: usize| usize::try_from(header[at]).unwrap_or(usize::MAX);
        let fits = |first: usize, each: usize, n: usize| {
            let end = n.checked_mul(each).and_then(|length| first.checked_add(length));
            first >= HEADER && end.is_some_and(|end| end as u64 <= words)
        };
        let bin_bits =
            u32::try_from(header[at::BIN_BITS]).ok().filter(|bits| (1..=16).contains(bits));
        let bin_bits = bin_bits.ok_or(Fault::Malformed("bins of no width that there is"))?;
        let [lateness, work] = [at::LATENESS, at::WORK].map(|at| (number(at), number(at + 1)));
        let recorder = (number(at::RECORDER), number(at::RECORDER + 1), number(at::RECORDER + 2));
        let bins_fit = [lateness, work].iter().all(|&(first, n)| n > 0 && fits(first, 1, n));
        if !bins_fit
            || recorder.1 == 0
            || recorder.2 < RECORD
            || !fits(recorder.0, recorder.2, recorder.1)
        {
            return Err(Fault::Malformed("a part that does not lie within it"));
        }
        Ok(Self { bin_bits, lateness, work, recorder, words: words as usize })
    }
}

/// A text as its length and its bytes in words.
pub(crate) fn put_text(words: &mut [u64], text: &str) {
    words[0] = text.len() as u64;
    for (word, bytes) in words[1..].iter_mut().zip(text.as_bytes().chunks(8)) {
        let mut whole = [0; 8];
        whole[..bytes.len()].copy_from_slice(bytes);
        *word = u64::from_ne_bytes(whole);
    }
}

/// The inverse of [`put_text`]; at most `longest` bytes.
pub(crate) fn text(words: &[u64], longest: usize) -> Result<String, Fault> {
    let length = usize::try_from(words[0])
        .ok()
        .filter(|&length| length <= longest && length <= (words.len() - 1) * 8);
    let length = length.ok_or(Fault::Malformed("a name that is too long"))?;
    let mut bytes: Vec<u8> = words[1..].iter().flat_map(|word| word.to_ne_bytes()).collect();
    bytes.truncate(length);
    String::from_utf8(bytes).map_err(|_| Fault::Malformed("a name that is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_bins_are_those_of_two_digits() {
        assert_eq!([0, 1, 255].map(|ns| bin(7, ns)), [0, 1, 255]);
        assert_eq!([256, 257, 258, 511, 512].map(|ns| bin(7, ns)), [256, 256, 257, 383, 384]);
        assert_eq!(bin(7, (1 << 37) - 1), Layout::CURRENT.lateness.1 - 1);
        assert_eq!(Layout::CURRENT.words * 8, 72_192);
    }

    proptest! {
        #[test]
        fn a_bin_has_its_values_and_is_narrow(ns in any::<u64>(), shift in 0_u32..64, bits in 1_u32..=16) {
            let ns = ns >> shift;
            let bin = bin(bits, ns);
            let (start, next) = (bin_start(bits, bin), bin_start(bits, bin + 1));
            prop_assert!(start <= ns && (ns < next || next == u64::MAX), "{start} {ns} {next}");
            prop_assert!(next == u64::MAX || next - start <= 1.max(start >> bits));
        }

        #[test]
        fn a_text_reads_back(name in "\\PC{0,16}") {
            let mut words = [0; 9];
            put_text(&mut words, &name);
            prop_assert_eq!(text(&words, LONGEST_NAME), Ok(name));
        }

        #[test]
        fn no_header_is_too_strange(mut header in prop::collection::vec(prop_oneof![any::<u64>(), 0_u64..9_100], HEADER), bytes in any::<u64>()) {
            header[0] = MAGIC;
            header[1] = VERSION;
            header[2] = 72_192;
            let header: [u64; HEADER] = header.try_into().unwrap();
            let _ = Layout::of(&header, bytes);
            if let Ok(layout) = Layout::of(&header, 72_192) {
                prop_assert!(layout.lateness.0 + layout.lateness.1 <= layout.words);
            }
        }
    }

    #[test]
    fn its_own_header_reads_back() {
        let mut header = [0; HEADER];
        header[..11].copy_from_slice(&Layout::CURRENT.header());
        assert_eq!(Layout::of(&header, 72_192), Ok(Layout::CURRENT));
        header[at::VERSION] = 2;
        assert_eq!(Layout::of(&header, 72_192), Err(Fault::Newer(2)));
    }
}
