//! Target for the encoding of HdrHistogram. In a file it is behind base64 and zlib, which mutations
//! do not get through.

use cli::exit::{self, Error};
use files::histogram;

use crate::fuzz::step_costs::StepCosts;

pub fn body(bytes: &[u8], costs: &StepCosts) -> exit::Result<()> {
    let read = costs
        .measure("decode", || histogram::decode(bytes))
        .map_err(|e| Error::usage(e.to_string()))?;
    let counted =
        read.iter_recorded().map(|v| (i64::try_from(v.value_iterated_to()), v.count_at_value()));
    let counted = counted.map(|(value, count)| (value.unwrap_or(i64::MAX), count));
    let stored = costs.measure("pack", || histogram::pack_counts(counted));
    let again =
        costs.measure("unpack", || histogram::unpack(&stored)).expect("a histogram of ours");
    assert_eq!(again.len(), read.len(), "values are lost");
    Ok(())
}
