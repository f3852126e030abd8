//! `osjitter merge`: several reports joined into one, without loss, and what stands out among them.

use jitterstat::merge;

use crate::cli::MergeArgs;
use crate::exit::{ExitStatus, Failure};
use crate::view::scale::time;
use crate::{export, import, output};

/// From this ratio to the others' median a report is named on standard error.
const OUTLIER: f64 = 1.5;
/// At most so many are named.
const NAMED: usize = 10;

/// Reads, joins, ranks, writes.
pub fn run(args: &MergeArgs) -> Result<ExitStatus, Failure> {
    let read = args.files.iter().map(|file| import::read(file)).collect::<Result<Vec<_>, _>>();
    let reports = read.map_err(|e| Failure::Usage(e.to_string()))?;
    let merged = merge::merge(&reports, args.force).map_err(Failure::Usage)?;
    for standing in merge::ranking(&reports).iter().take(NAMED) {
        if standing.ratio.max(1.0 / standing.ratio) >= OUTLIER {
            let (file, id, p50) = (args.files[standing.source].display(), &standing.id, time(standing.p50_ns));
            output::note(
                false,
                &format!("stands out: {file}: {id}: median {p50}, {:.2} times the others'", standing.ratio),
            );
        }
    }
    let text = merged.to_json();
    export::deliver(text.as_bytes(), args.out.as_deref())?;
    Ok(ExitStatus::Done)
}
