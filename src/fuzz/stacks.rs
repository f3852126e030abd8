//! Target for sampled stacks: the list of mapped files of a process, the records of a ring, and the
//! executable file whose functions they name.

use std::cell::RefCell;
use std::path::PathBuf;

use cli::exit::{self, usage};
use engine::machine::os::{MappedFile, StackRecords};
use engine::stacks::StackNamer;

use crate::fuzz::step_costs::StepCosts;

/// End of the list of mapped files.
const END_OF_MAPS: &[u8] = b"\n\n";
/// Maximum number of samples that are named.
const MAX_SAMPLES: usize = 8;

thread_local! {
    /// The executable file; it holds one input after the other.
    static FILE: RefCell<tempfile::NamedTempFile> = RefCell::new(tempfile::NamedTempFile::new().expect("a temporary file"));
}

/// Names the functions of all samples. The input is the list of mapped files, an empty line, the
/// length of the ring in two bytes, the ring, and the executable file.
pub fn body(bytes: &[u8], costs: &StepCosts) -> exit::Result<()> {
    let at = bytes.windows(END_OF_MAPS.len()).position(|end| end == END_OF_MAPS);
    let Some(at) = at else { return Err(usage!("expected an empty line after the mapped files")) };
    let (maps, rest) = (String::from_utf8_lossy(&bytes[..at]), &bytes[at + END_OF_MAPS.len()..]);
    let Some((length, rest)) = rest.split_first_chunk::<2>() else {
        return Err(usage!("expected the length of the ring"));
    };
    let length = usize::from(u16::from_le_bytes(*length));
    let (ring, program) = rest.split_at(length.min(rest.len()));
    let records = costs.measure("records", || StackRecords::parse(ring));
    let copied: usize = records.samples.iter().map(|sample| sample.stack.len()).sum();
    assert!(copied <= ring.len(), "more of a stack than the ring contains");
    let process = records.samples.first().map_or(0, |sample| sample.process);
    let mapped = costs.measure("maps", || MappedFile::parse_maps(process, &maps));
    if mapped.is_empty() || records.samples.is_empty() {
        return Err(usage!("no mapped file or no sample"));
    }
    FILE.with_borrow(|file| {
        std::fs::write(file.path(), program).expect("a temporary file");
        let locate = |_: &MappedFile| Some(PathBuf::from(file.path()));
        let mut namer = StackNamer::default();
        let mut processes = costs.measure("open", || namer.processes(&mapped, locate));
        for record in records.samples.iter().take(MAX_SAMPLES) {
            let sample = costs.measure("name", || processes.name(record, 0));
            assert!(sample.frames.iter().all(|frame| !frame.name.is_empty()), "{sample:?}");
        }
    });
    Ok(())
}
