//! Target for the encodings of HdrHistogram. In a file they are behind base64 and zlib, which
//! mutations do not get through.

use cli::exit::{self, Error};
use files::{hdr_encoding, histogram};
use interop::hlog;

use crate::fuzz::step_costs::StepCosts;

/// Decodes a stored histogram and one of a log, which are the same in V2.
pub fn body(bytes: &[u8], costs: &StepCosts) -> exit::Result<()> {
    let log_count = costs.measure("decode a log's", || hlog::count_encoded(bytes));
    let read = costs.measure("decode", || hdr_encoding::decode_v2(bytes));
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
