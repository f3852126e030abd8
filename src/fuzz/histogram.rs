//! Target for the encodings of HdrHistogram. In a file they are behind base64 and zlib, which
//! mutations do not get through.

use cli::exit::{self, Error};
use files::{hdr_encoding, histogram};
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use interop::hlog;

use crate::fuzz::step_costs::StepCosts;

/// Number of bytes of a header of V2, and its first word.
const HEADER_BYTES: usize = 40;
const COOKIE: [u8; 4] = [0x1c, 0x84, 0x93, 0x13];

/// Decodes a stored histogram and one of a log, which are the same in V2.
pub fn body(bytes: &[u8], costs: &StepCosts) -> exit::Result<()> {
    let log_count = costs.measure("decode a log's", || hlog::count_encoded(bytes));
    let read = costs.measure("decode", || hdr_encoding::decode_v2(bytes));
    check_other_reader(bytes, read.as_ref().ok());
    let read = match (read, log_count) {
        (Err(_), Ok(_)) => return Ok(()),
        (Err(e), Err(_)) => return Err(Error::usage(e.to_string())),
        (Ok(read), log_count) => {
            let total = read.iter_recorded().map(|v| v.count_at_value());
            let total = total.fold(0, u64::saturating_add);
            // A log has no times above 63 bits, which are centuries.
            if read.max() <= i64::MAX.unsigned_abs() {
                assert_eq!(log_count.ok(), Some(total), "values of a log are lost");
            }
            read
        }
    };
    let counted =
        read.iter_recorded().map(|v| (i64::try_from(v.value_iterated_to()), v.count_at_value()));
    let counted = counted.map(|(value, count)| (value.unwrap_or(i64::MAX), count));
    let stored = costs.measure("pack", || histogram::pack_counts(counted));
    let again =
        costs.measure("unpack", || histogram::unpack(&stored)).expect("a histogram of ours");
    assert_eq!(again.len(), read.len(), "values are lost");
    Ok(())
}

/// Checks that the crate `hdrhistogram` reads the same values, or refuses the bytes as well.
fn check_other_reader(bytes: &[u8], ours: Option<&Histogram<u64>>) {
    let Some((header, counts)) = bytes.split_at_checked(HEADER_BYTES) else { return };
    // It reads all bytes that follow, whatever their stated number is, and negates the least number
    // of 64 bits, which is an overflow.
    let is_complete = header[..4] == COOKIE && header[4..8] == (counts.len() as u32).to_be_bytes();
    if !is_complete || counts.windows(9).any(|number| number == [0xff; 9]) {
        return;
    }
    let theirs = Deserializer::new().deserialize::<u64, _>(&mut &bytes[..]).ok();
    // A log has no times above 63 bits.
    let theirs = theirs.filter(|theirs| theirs.max() <= i64::MAX.unsigned_abs());
    assert_eq!(ours, theirs.as_ref(), "the readers differ");
}
