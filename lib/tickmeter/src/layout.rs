//! The memory of a meter, word by word: `tickmeter/1`.
//!
//! A file is a sequence of 64-bit words in the byte order of the machine. The first 64 words are
//! the header. It contains the position and size of every other part, so a reader needs no constant
//! of this module except the positions of the header's own words.
//!
//! ```text
//!  0  the bytes "tickmetr"               11  process id
//!  1  version of this layout: 1          12  registered at, Unix time in ns
//!  2  length of the file, in bytes       13  period in ns
//!  3  B: see the bins                    14  a tick is recorded as late from this many ns on
//!  4  first bin of the lateness          15  error bound of the clock so far, ns
//!  5  ... and their number               16  length of the name in bytes; 17 to 24 the name, UTF-8
//!  6  first bin of the work              25  length of the program's name; 26 to 31 the name
//!  7  ... and their number
//!  8  first word of the recorder         42  ticks with known work: the sum of its bins
//!  9  ... its records                    43  sum of the work, ns
//! 10  ... and words in each              44  maximum of the work, ns
//!                                        45  late ticks whose recording has begun
//!                                        46  late ticks whose recording is complete
//! 32  ticks whose recording has begun    47  stacks taken while a tick was overdue
//! 33  ticks whose recording is complete: the sum of the lateness's bins
//! 34  time of the last tick, ns since registration
//! 35  missed     36  ... because of work: the overrun is at least half of the lateness
//! 37  coalesced  38  skipped   39  early   40  overruns   41  maximum of the lateness, ns
//! 48  registered at, by the monotonic clock of Linux, ns; zero if unknown
//! ```
//!
//! **Bins** are log-linear: values below 2^(B+1) ns have a bin each, and every power of two above
//! has 2^B of equal width. So a bin is never wider than 1/2^B of its values. With B = 7 that is
//! 0.8 %: the bins of an HdrHistogram of two digits. The last bin also contains all larger values.
//! Early ticks are in bin 0.
//!
//! **The recorder** is a ring of late ticks. Tick number n, counted from 1, is in record (n − 1)
//! mod records. The words of a record: n; time of the tick, ns since registration; lateness; the
//! work before it ([`UNKNOWN_WORK`] if not known); the overrun, which is the part of the lateness
//! that is due to work. The remaining words are zero.
//!
//! **Publication.** There is one writer. It stores the word 32 (and 45), then everything that
//! changes, then 46 and 33. A reader copies the header, then everything, then the header again. If
//! word 33 of the first header equals word 32 of the last, nothing changed during the copy.
//! Otherwise each word has a value that it had at some moment during the copy, the sum of the
//! lateness's bins is between the two, and the records from (45 of the last − records) + 1 to 46 of
//! the first are complete.

/// First word of a file.
pub(crate) const MAGIC: u64 = u64::from_ne_bytes(*b"tickmetr");
pub(crate) const VERSION: u64 = 1;
/// Words of the header.
pub(crate) const HEADER_WORDS: usize = 64;
/// Words at the start of the header that describe the layout.
pub(crate) const LAYOUT_WORDS: usize = 11;
/// Size limit of a file.
pub(crate) const MAX_FILE_BYTES: u64 = 1 << 20;
/// The largest number of bits of a value that a bin keeps.
pub(crate) const MAX_BIN_BITS: u32 = 16;
pub(crate) const MAX_NAME_BYTES: usize = 64;
pub(crate) const MAX_PROGRAM_BYTES: usize = 48;
/// Value of a record's work if that is not known.
pub(crate) const UNKNOWN_WORK: u64 = u64::MAX;
/// Words of a record that are in use.
pub(crate) const RECORD_WORDS: usize = 5;

/// Positions of the header's words.
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
    pub(crate) const STACKS: usize = 47;
    pub(crate) const REGISTERED_MONOTONIC: usize = 48;
}

/// Returns the index of the bin that contains a value, for B = `bits`. The number of bins is not
/// limited here.
#[inline]
pub(crate) fn bin_index(bits: u32, ns: u64) -> usize {
    let shift = (ns | ((2 << bits) - 1)).ilog2() - bits;
    ((shift as usize) << bits) + (ns >> shift) as usize
}

/// Returns the smallest value of a bin, or `u64::MAX` if that does not fit.
pub(crate) fn bin_start(bits: u32, bin: usize) -> u64 {
    let linear = 2_usize << bits;
    if bin < linear {
        return bin as u64;
    }
    let shift = (bin >> bits) as u32 - 1;
    let mantissa = (bin - ((shift as usize) << bits)) as u64;
    if mantissa.leading_zeros() < shift { u64::MAX } else { mantissa << shift }
}

/// Position of a histogram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BinsLayout {
    /// Index of the first bin's word.
    pub(crate) first: usize,
    /// Number of bins, a word each.
    pub(crate) bins: usize,
}

/// Position of the recorder: a ring of late ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RingLayout {
    /// Index of the first record's first word.
    pub(crate) first: usize,
    /// Number of records.
    pub(crate) records: usize,
    /// Words in each record.
    pub(crate) words: usize,
}

impl RingLayout {
    /// Returns the index of the first word of late tick `number`, counted from 1.
    #[inline]
    pub(crate) fn record_start(&self, number: u64) -> usize {
        self.first + (number.wrapping_sub(1) % self.records as u64) as usize * self.words
    }
}

/// Positions and sizes of the parts of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) bin_bits: u32,
    pub(crate) lateness: BinsLayout,
    pub(crate) work: BinsLayout,
    pub(crate) recorder: RingLayout,
    /// Length of the file.
    pub(crate) words: usize,
}

/// Reasons for which a file is not a valid meter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FormatError {
    NotAMeter,
    Newer(u64),
    Malformed(&'static str),
}

impl Layout {
    /// Layout of the files that this version writes: bins up to 2^37 ns, which are 137 s, and 128
    /// late ticks.
    pub(crate) const CURRENT: Self = Self::new(7, 3_968, 128);

    pub(crate) const fn new(bin_bits: u32, bins: usize, records: usize) -> Self {
        let lateness = BinsLayout { first: HEADER_WORDS, bins };
        let work = BinsLayout { first: HEADER_WORDS + bins, bins };
        let recorder = RingLayout { first: HEADER_WORDS + 2 * bins, records, words: 8 };
        let words = recorder.first + records * recorder.words;
        Self { bin_bits, lateness, work, recorder, words }
    }

    /// Returns the words of the header that describe this layout.
    pub(crate) fn header_words(&self) -> [u64; LAYOUT_WORDS] {
        let word = |n: usize| n as u64;
        [
            MAGIC,
            VERSION,
            word(self.words) * 8,
            self.bin_bits.into(),
            word(self.lateness.first),
            word(self.lateness.bins),
            word(self.work.first),
            word(self.work.bins),
            word(self.recorder.first),
            word(self.recorder.records),
            word(self.recorder.words),
        ]
    }

    /// Parses the header of a file that is `file_bytes` long. Checks every number in it.
    ///
    /// # Errors
    /// Returns an error if the header is not that of a meter, is of another version, or contradicts
    /// the length of the file.
    pub(crate) fn parse(
        header: &[u64; HEADER_WORDS],
        file_bytes: u64,
    ) -> Result<Self, FormatError> {
        if header[at::MAGIC] != MAGIC {
            return Err(FormatError::NotAMeter);
        }
        if header[at::VERSION] != VERSION {
            return Err(FormatError::Newer(header[at::VERSION]));
        }
        let is_valid_length = header[at::BYTES] == file_bytes
            && file_bytes.is_multiple_of(8)
            && file_bytes <= MAX_FILE_BYTES;
        if !is_valid_length {
            return Err(FormatError::Malformed("its length is not the one in its header"));
        }
        let bin_bits = u32::try_from(header[at::BIN_BITS])
            .ok()
            .filter(|bits| (1..=MAX_BIN_BITS).contains(bits))
            .ok_or(FormatError::Malformed("invalid width of the bins"))?;
        let number = |at: usize| usize::try_from(header[at]).unwrap_or(usize::MAX);
        let histogram = |at: usize| BinsLayout { first: number(at), bins: number(at + 1) };
        let layout = Self {
            bin_bits,
            lateness: histogram(at::LATENESS),
            work: histogram(at::WORK),
            recorder: RingLayout {
                first: number(at::RECORDER),
                records: number(at::RECORDER + 1),
                words: number(at::RECORDER + 2),
            },
            words: (file_bytes / 8) as usize,
        };
        if layout.has_parts_within_file() {
            Ok(layout)
        } else {
            Err(FormatError::Malformed("a part is outside of the file"))
        }
    }

    /// Returns whether all parts are between the header and the end of the file, and none is empty.
    fn has_parts_within_file(&self) -> bool {
        let RingLayout { first, records, words } = self.recorder;
        self.has_room(self.lateness.first, self.lateness.bins, 1)
            && self.has_room(self.work.first, self.work.bins, 1)
            && words >= RECORD_WORDS
            && self.has_room(first, records, words)
    }

    /// Returns whether a part of `items` of `item_words` each is not empty, and is between the header
    /// and the end of the file.
    fn has_room(&self, first: usize, items: usize, item_words: usize) -> bool {
        let length = items.checked_mul(item_words);
        let end = length.and_then(|length| first.checked_add(length));
        items > 0 && first >= HEADER_WORDS && end.is_some_and(|end| end <= self.words)
    }
}

/// Stores a text as its length and its bytes.
pub(crate) fn write_text(words: &mut [u64], text: &str) {
    words[0] = text.len() as u64;
    for (word, bytes) in words[1..].iter_mut().zip(text.as_bytes().chunks(8)) {
        let mut padded = [0; 8];
        padded[..bytes.len()].copy_from_slice(bytes);
        *word = u64::from_ne_bytes(padded);
    }
}

/// Reads a text of at most `max_bytes` bytes that [`write_text`] stored.
pub(crate) fn read_text(words: &[u64], max_bytes: usize) -> Result<String, FormatError> {
    let length = usize::try_from(words[0])
        .ok()
        .filter(|&length| length <= max_bytes && length <= (words.len() - 1) * 8)
        .ok_or(FormatError::Malformed("a name is too long"))?;
    let mut bytes: Vec<u8> = words[1..].iter().flat_map(|word| word.to_ne_bytes()).collect();
    bytes.truncate(length);
    String::from_utf8(bytes).map_err(|_| FormatError::Malformed("a name is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bins_have_two_digits() {
        assert_eq!([0, 1, 255].map(|ns| bin_index(7, ns)), [0, 1, 255]);
        assert_eq!([256, 257, 258, 511, 512].map(|ns| bin_index(7, ns)), [256, 256, 257, 383, 384]);
        assert_eq!(bin_index(7, (1 << 37) - 1), Layout::CURRENT.lateness.bins - 1);
        assert_eq!(Layout::CURRENT.words * 8, 72_192);
    }

    fn header_words() -> impl Strategy<Value = Vec<u64>> {
        prop::collection::vec(prop_oneof![any::<u64>(), 0_u64..9_100], HEADER_WORDS)
    }

    proptest! {
        #[test]
        fn bins_are_narrow(ns in any::<u64>(), shift in 0_u32..64, bits in 1_u32..=16) {
            let ns = ns >> shift;
            let bin = bin_index(bits, ns);
            let (start, next) = (bin_start(bits, bin), bin_start(bits, bin + 1));
            prop_assert!(start <= ns && (ns < next || next == u64::MAX), "{start} {ns} {next}");
            prop_assert!(next == u64::MAX || next - start <= 1.max(start >> bits));
        }

        #[test]
        fn text_round_trips(name in "\\PC{0,16}") {
            let mut words = [0; 9];
            write_text(&mut words, &name);
            prop_assert_eq!(read_text(&words, MAX_NAME_BYTES), Ok(name));
        }

        #[test]
        fn arbitrary_headers_are_handled(mut header in header_words(), bytes in any::<u64>()) {
            header[0] = MAGIC;
            header[1] = VERSION;
            header[2] = 72_192;
            let header: [u64; HEADER_WORDS] = header.try_into().unwrap();
            let _ = Layout::parse(&header, bytes);
            if let Ok(layout) = Layout::parse(&header, 72_192) {
                prop_assert!(layout.lateness.first + layout.lateness.bins <= layout.words);
            }
        }
    }

    #[test]
    fn current_layout_round_trips() {
        let mut header = [0; HEADER_WORDS];
        header[..LAYOUT_WORDS].copy_from_slice(&Layout::CURRENT.header_words());
        assert_eq!(Layout::parse(&header, 72_192), Ok(Layout::CURRENT));
        header[at::VERSION] = 2;
        assert_eq!(Layout::parse(&header, 72_192), Err(FormatError::Newer(2)));
    }
}
