//! HdrHistogram's encoding by itself: behind base64 and zlib, no mutation of a file reaches it.

use cli::exit::{self, Error};
use files::histogram;

use crate::fuzz::stage::Stages;

pub fn body(bytes: &[u8], stages: &Stages) -> exit::Result<()> {
    let read = stages
        .of("decode", || histogram::decode(bytes))
        .map_err(|e| Error::usage(e.to_string()))?;
    let counted =
        read.iter_recorded().map(|v| (i64::try_from(v.value_iterated_to()), v.count_at_value()));
    let counted = counted.map(|(value, count)| (value.unwrap_or(i64::MAX), count));
    let stored = stages.of("pack", || histogram::pack_counts(counted));
    let again = stages.of("unpack", || histogram::unpack(&stored)).expect("a histogram of ours");
    assert_eq!(again.len(), read.len(), "values are lost");
    Ok(())
}
