//! Functions on sampled stacks.
//!
//! `process_image` finds the callers of the sampled instruction on the copy of the stack, by the
//! unwinding tables of the program's files, or by frame pointers where a file has none.
//! `program_file` reads these tables, and names functions by the symbols and the debugging
//! information of a file, including inlined ones. `function_name` makes the names readable, and
//! separates functions of the program from those of its language and runtime.
//!
//! Everything here runs between rounds, or after a tick was late: it allocates and reads files.

mod function_name;
mod process_image;
mod program_file;

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

use files::why::stacks::{Frame, StackSample, StackSampling};

use crate::machine::os::{MappedFile, SAMPLE_INTERVAL_NS, StackRecord};
use crate::stacks::process_image::ProcessImage;
use crate::stacks::program_file::ProgramFile;

/// Maximum number of functions on a stack, and of different stacks that are kept.
const MAX_FRAMES: usize = 256;
const MAX_STACKS: usize = 100_000;

/// Names the functions of stacks. It reads each file once, even if several processes use it.
#[derive(Default)]
pub struct StackNamer {
    files: BTreeMap<PathBuf, Option<Arc<ProgramFile>>>,
    /// Equal stacks are stored once.
    stacks: HashSet<Arc<[Frame]>>,
    hint: Option<String>,
}

impl std::fmt::Debug for StackNamer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StackNamer").field("stacks", &self.stacks.len()).finish_non_exhaustive()
    }
}

/// The files that the processes of a program have mapped, in order of time.
pub struct NamedProcesses<'a> {
    namer: &'a mut StackNamer,
    images: BTreeMap<u32, ProcessImage>,
}

impl StackNamer {
    /// Prepares to name stacks of processes that have mapped files.
    ///
    /// `locate` returns the path under which this process finds a file.
    pub fn processes<'a>(
        &'a mut self,
        mapped_files: &[MappedFile],
        locate: impl Fn(&MappedFile) -> Option<PathBuf>,
    ) -> NamedProcesses<'a> {
        let mut images: BTreeMap<u32, ProcessImage> = BTreeMap::new();
        for mapped in mapped_files {
            let Some(path) = locate(mapped) else { continue };
            let name = mapped.path.rsplit('/').next().unwrap_or_default().to_owned();
            let file = self
                .files
                .entry(path)
                .or_insert_with_key(|path| ProgramFile::open(path, name).map(Arc::new));
            if let Some(file) = file {
                images.entry(mapped.process).or_default().add(mapped, Arc::clone(file));
            }
        }
        NamedProcesses { namer: self, images }
    }

    /// Returns how stacks were sampled, with what the programs lack for complete names.
    pub fn sampling(&self) -> StackSampling {
        StackSampling { interval_ns: SAMPLE_INTERVAL_NS, missing: None, hint: self.hint.clone() }
    }
}

impl NamedProcesses<'_> {
    /// Returns a sample with the names of its functions, at a time on another time line.
    pub fn name(&mut self, record: &StackRecord, at_ns: i64) -> StackSample {
        let mut frames = Vec::new();
        if let Some(image) = self.images.get_mut(&record.process) {
            let callers = image.unwind(record, MAX_FRAMES);
            for address in callers {
                image.add_functions(address, &mut frames);
            }
            self.namer.note_hint(image, &frames);
        }
        StackSample { at_ns, thread: record.thread, frames: self.namer.intern(frames) }
    }
}

impl StackNamer {
    fn intern(&mut self, frames: Vec<Frame>) -> Arc<[Frame]> {
        if let Some(known) = self.stacks.get(frames.as_slice()) {
            return Arc::clone(known);
        }
        let frames: Arc<[Frame]> = frames.into();
        if self.stacks.len() < MAX_STACKS {
            self.stacks.insert(Arc::clone(&frames));
        }
        frames
    }

    /// Keeps the hint for the file whose functions the program ran last, if it lacks something.
    fn note_hint(&mut self, image: &ProcessImage, frames: &[Frame]) {
        if self.hint.is_none() && frames.iter().any(|frame| !frame.is_runtime) {
            self.hint = image.hint();
        }
    }
}

#[cfg(test)]
mod tests;
