//! An executable file or library: its unwinding tables, and the names of its functions.

use std::collections::HashMap;
use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use addr2line::Loader;
use files::why::stacks::Frame;
use framehop::{ExplicitModuleSectionInfo, Module};
use object::read::ReadCache;
use object::{
    CompressionFormat, Object as _, ObjectSection as _, ObjectSegment as _, SegmentFlags, elf,
};

use crate::stacks::function_name::{SourceFunction, is_runtime_library, symbol_frame};

/// Maximum size of a file that is read.
const MAX_FILE_BYTES: u64 = 2 << 30;
/// Maximum size to which the compressed sections of a file are unpacked in memory: a multiple of the
/// size of the file, plus a constant. Compilers reduce debugging information to a third.
const MAX_UNPACKED_BYTES_PER_BYTE: u64 = 32;
const MIN_MAX_UNPACKED_BYTES: u64 = 16 << 20;
/// Size of a page, as executable files are linked for.
const PAGE_BYTES: u64 = 4_096;

/// The contents of a section.
pub type SectionData = Arc<[u8]>;

/// An executable file or library.
pub struct ProgramFile {
    /// Its name without the directory.
    name: String,
    segments: Vec<Segment>,
    tables: ExplicitModuleSectionInfo<SectionData>,
    symbols: Mutex<Symbols>,
    is_runtime: bool,
    has_symbols: bool,
    has_debug_info: bool,
}

/// An executable part of the file.
struct Segment {
    /// Position in the file.
    offset: u64,
    bytes: u64,
    address: u64,
}

struct Symbols {
    loader: Option<Loader>,
    /// Functions at addresses that were looked up before.
    known: HashMap<u64, Arc<[Frame]>>,
}

impl ProgramFile {
    /// Reads a file with this name. Returns `None` if it is not an executable file or library, or if it
    /// states an implausible size of its debugging information.
    pub fn open(path: &Path, name: String) -> Option<Self> {
        let file = File::open(path).ok()?;
        let metadata = file.metadata().ok()?;
        if !metadata.is_file() || metadata.len() > MAX_FILE_BYTES {
            return None;
        }
        let cache = ReadCache::new(file);
        let object = object::File::parse(&cache).ok()?;
        let max_bytes = MIN_MAX_UNPACKED_BYTES + MAX_UNPACKED_BYTES_PER_BYTE * metadata.len();
        if unpacked_bytes(&object) > max_bytes {
            return None;
        }
        let mut segments = Vec::new();
        for segment in object.segments() {
            let SegmentFlags::Elf { p_flags } = segment.flags() else { continue };
            if p_flags & elf::PF_X != 0 {
                let (offset, bytes) = segment.file_range();
                segments.push(Segment { offset, bytes, address: segment.address() });
            }
        }
        Some(Self {
            segments,
            tables: read_tables(&object),
            // Malformed debugging information leaves the file without names.
            symbols: Mutex::new(Symbols { loader: Loader::new(path).ok(), known: HashMap::new() }),
            is_runtime: is_runtime_library(&name),
            has_symbols: object.symbol_table().is_some(),
            has_debug_info: object.has_debug_symbols(),
            name,
        })
    }
}

impl ProgramFile {
    /// Returns the difference between the addresses of a process and those in the file, if the
    /// process has mapped the file at `start` from the position `offset` on.
    pub fn bias(&self, start: u64, offset: u64) -> Option<u64> {
        let contains = |segment: &&Segment| {
            let first_page = segment.offset / PAGE_BYTES * PAGE_BYTES;
            (first_page..segment.offset.saturating_add(segment.bytes)).contains(&offset)
        };
        let segment = self.segments.iter().find(contains)?;
        let mapped = segment.address.wrapping_add(offset).wrapping_sub(segment.offset);
        Some(start.wrapping_sub(mapped))
    }

    /// Returns the tables for unwinding, for the addresses at which the file is mapped.
    pub fn unwinding_module(&self, addresses: Range<u64>, bias: u64) -> Module<SectionData> {
        Module::new(self.name.clone(), addresses, bias, self.tables.clone())
    }

    /// Returns the functions at an address of the file, from the innermost inlined one on.
    pub fn functions(&self, address: u64) -> Arc<[Frame]> {
        let mut symbols = self.symbols.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = symbols.known.get(&address) {
            return Arc::clone(known);
        }
        let mut frames = match &symbols.loader {
            Some(loader) => self.find_functions(loader, address),
            None => Vec::new(),
        };
        if frames.is_empty() {
            let name = format!("{}+{address:#x}", self.name);
            frames.push(Frame { name: name.into(), is_runtime: self.is_runtime });
        }
        let frames: Arc<[Frame]> = frames.into();
        symbols.known.insert(address, Arc::clone(&frames));
        frames
    }

    fn find_functions(&self, loader: &Loader, address: u64) -> Vec<Frame> {
        let mut frames = Vec::new();
        if let Ok(mut found) = loader.find_frames(address) {
            while let Ok(Some(frame)) = found.next() {
                let source = frame.location.as_ref().and_then(|location| location.file);
                let name = frame.function.as_ref().and_then(|name| name.raw_name().ok());
                let Some(name) = name else { continue };
                frames.extend(SourceFunction { name: &name, source }.frame());
            }
        }
        // The symbol is the function into which the others are inlined. It has the whole path, which
        // brief debugging information has not.
        if let Some(symbol) = loader.find_symbol(address) {
            frames.pop();
            frames.push(symbol_frame(symbol));
        }
        if self.is_runtime {
            frames.iter_mut().for_each(|frame| frame.is_runtime = true);
        }
        frames
    }

    /// Returns what the file lacks for complete names, with the remedy, unless it is a library of
    /// the system.
    pub fn hint(&self) -> Option<String> {
        let name = &self.name;
        if self.is_runtime || self.has_debug_info {
            None
        } else if self.has_symbols {
            Some(format!(
                "{name} has no debugging information: inlined functions are counted as their callers; \
                 debug = \"line-tables-only\" in its cargo profile, or -g1 of a C compiler, adds them"
            ))
        } else {
            Some(format!(
                "{name} has no symbols, so its functions have no names: set strip = false and \
                 debug = \"line-tables-only\" in its cargo profile, or build C code without -s"
            ))
        }
    }
}

/// Returns the size that the compressed sections state for their contents, which is reserved before
/// they are unpacked.
fn unpacked_bytes<'a>(object: &impl object::Object<'a>) -> u64 {
    let ranges = object.sections().filter_map(|section| section.compressed_file_range().ok());
    let compressed = ranges.filter(|range| range.format != CompressionFormat::None);
    compressed.fold(0, |total: u64, range| total.saturating_add(range.uncompressed_size))
}

/// Reads the sections from which callers are found.
fn read_tables<'a>(object: &impl object::Object<'a>) -> ExplicitModuleSectionInfo<SectionData> {
    let range = |name| {
        let section = object.section_by_name(name)?;
        Some(section.address()..section.address().checked_add(section.size())?)
    };
    let data = |name| {
        let data = object.section_by_name(name)?.uncompressed_data().ok()?;
        (!data.is_empty()).then(|| SectionData::from(&*data))
    };
    ExplicitModuleSectionInfo {
        text_svma: range(".text"),
        got_svma: range(".got"),
        eh_frame_svma: range(".eh_frame"),
        eh_frame: data(".eh_frame"),
        eh_frame_hdr_svma: range(".eh_frame_hdr"),
        eh_frame_hdr: data(".eh_frame_hdr"),
        debug_frame: data(".debug_frame"),
        ..ExplicitModuleSectionInfo::default()
    }
}
