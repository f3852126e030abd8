//! The executable files and libraries that this process has loaded: finds the callers on a copy of a
//! stack by their unwinding tables, and the names of functions by their symbols.

use std::collections::HashMap;
use std::fs;
use std::ops::Range;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use addr2line::gimli::{BaseAddresses, EhFrameHdr, NativeEndian};
use addr2line::{Loader, demangle_auto};
use framehop::{ExplicitModuleSectionInfo, FrameAddress, Module, Unwinder as _};
use object::read::elf::{FileHeader as _, ProgramHeader as _};
use object::{NativeEndian as FileEndian, elf};

#[cfg(target_arch = "aarch64")]
use framehop::aarch64::{CacheAarch64 as Cache, UnwindRegsAarch64, UnwinderAarch64 as Unwinder};
#[cfg(target_arch = "x86_64")]
use framehop::x86_64::{CacheX86_64 as Cache, UnwindRegsX86_64, UnwinderX86_64 as Unwinder};

use super::signal::{MAX_STACK_BYTES, Registers, StackCopy, read_memory};
use super::{StackEnd, StackFrame, UnwoundStack};

/// Maximum number of functions on a stack.
const MAX_FRAMES: usize = 256;
/// Maximum size of the unwinding tables of a module.
const MAX_TABLE_BYTES: u64 = 256 << 20;
/// Memory in which the headers of a module are: the smallest page.
const HEADER_BYTES: usize = 4_096;

/// A loaded module.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct LoadedModule {
    path: Arc<str>,
    inode: u64,
    /// Address of the module's headers.
    start: u64,
    code: Vec<Range<u64>>,
}

impl LoadedModule {
    fn contains(&self, address: u64) -> bool {
        self.code.iter().any(|code| code.contains(&address))
    }
}

/// Returns the modules of a file like `/proc/self/maps`.
fn parse_modules(maps: &str) -> Vec<LoadedModule> {
    let mut modules: Vec<LoadedModule> = Vec::new();
    for line in maps.lines() {
        let Some(mapped) = MappedRange::parse(line) else { continue };
        if mapped.offset == 0 {
            modules.push(LoadedModule {
                path: mapped.path.into(),
                inode: mapped.inode,
                start: mapped.addresses.start,
                code: Vec::new(),
            });
        }
        // The parts of a module follow its headers.
        if let Some(module) = modules.last_mut()
            && mapped.is_code
            && (&*module.path, module.inode) == (mapped.path, mapped.inode)
        {
            module.code.push(mapped.addresses);
        }
    }
    modules.retain(|module| !module.code.is_empty());
    modules
}

/// A line of `/proc/self/maps` with a path.
struct MappedRange<'a> {
    addresses: Range<u64>,
    is_code: bool,
    offset: u64,
    inode: u64,
    path: &'a str,
}

impl<'a> MappedRange<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let hex = |text| u64::from_str_radix(text, 16).ok();
        let (addresses, rest) = line.split_once(' ')?;
        let (start, end) = addresses.split_once('-')?;
        let (access, rest) = rest.split_once(' ')?;
        let (offset, rest) = rest.split_once(' ')?;
        let (_device, rest) = rest.split_once(' ')?;
        let (inode, path) = rest.split_once(' ')?;
        let path = path.trim_start();
        Some(Self {
            addresses: hex(start)?..hex(end)?,
            is_code: access.contains('x'),
            offset: hex(offset)?,
            inode: inode.parse().ok()?,
            path: Some(path).filter(|path| !path.is_empty())?,
        })
    }
}

/// The unwinding tables of a module, and where they are, from its memory.
#[derive(Debug)]
struct LoadedTables {
    /// Difference between an address of this process and that in the file.
    bias: u64,
    /// Addresses in the file.
    index_addresses: Range<u64>,
    index: Arc<[u8]>,
    frames_addresses: Range<u64>,
    frames: Arc<[u8]>,
}

impl LoadedTables {
    /// Reads the tables of a module. They are empty if the module has none; `None` if it is not ELF.
    fn read(start: u64) -> Option<Self> {
        let header = read_range(start..start.checked_add(HEADER_BYTES as u64)?)?;
        let file = elf::FileHeader64::<FileEndian>::parse(&*header).ok()?;
        let segments = file.program_headers(FileEndian, &*header).ok()?;
        let addresses = |segment: &elf::ProgramHeader64<FileEndian>| {
            let first = segment.p_vaddr(FileEndian);
            first..first.saturating_add(segment.p_memsz(FileEndian))
        };
        let loaded = || segments.iter().filter(|s| s.p_type(FileEndian) == elf::PT_LOAD);
        let first = loaded().find(|segment| segment.p_offset(FileEndian) == 0)?;
        let mut tables = Self {
            bias: start.wrapping_sub(first.p_vaddr(FileEndian)),
            index_addresses: 0..0,
            index: Arc::default(),
            frames_addresses: 0..0,
            frames: Arc::default(),
        };
        let index = segments.iter().find(|s| s.p_type(FileEndian) == elf::PT_GNU_EH_FRAME);
        if let Some(index_addresses) = index.map(addresses) {
            let segments = loaded().map(addresses);
            let _ = tables.read_frames(index_addresses, segments);
        }
        Some(tables)
    }

    /// Reads the index and the table that it points to, which ends with its segment at the latest.
    fn read_frames(
        &mut self,
        index_addresses: Range<u64>,
        mut segments: impl Iterator<Item = Range<u64>>,
    ) -> Option<()> {
        let index = self.read_file_range(&index_addresses)?;
        let bases = BaseAddresses::default().set_eh_frame_hdr(index_addresses.start);
        let parsed = EhFrameHdr::new(&index, NativeEndian).parse(&bases, 8).ok()?;
        let start = parsed.eh_frame_ptr().direct().ok()?;
        let segment = segments.find(|segment| segment.contains(&start))?;
        let frames_addresses = start..segment.end;
        self.frames = self.read_file_range(&frames_addresses)?;
        (self.index, self.index_addresses) = (index, index_addresses);
        self.frames_addresses = frames_addresses;
        Some(())
    }

    /// Reads the memory at addresses of the file.
    fn read_file_range(&self, addresses: &Range<u64>) -> Option<Arc<[u8]>> {
        let address = |address: u64| address.wrapping_add(self.bias);
        read_range(address(addresses.start)..address(addresses.end))
    }

    fn unwinding_module(&self, name: &str, code: Range<u64>) -> Module<Arc<[u8]>> {
        let nonempty = |bytes: &Arc<[u8]>| Some(Arc::clone(bytes)).filter(|b| !b.is_empty());
        let sections = ExplicitModuleSectionInfo {
            eh_frame_hdr_svma: Some(self.index_addresses.clone()),
            eh_frame_hdr: nonempty(&self.index),
            eh_frame_svma: Some(self.frames_addresses.clone()),
            eh_frame: nonempty(&self.frames),
            ..ExplicitModuleSectionInfo::default()
        };
        Module::new(name.to_owned(), code, self.bias, sections)
    }
}

/// Reads a range of this process's memory.
fn read_range(addresses: Range<u64>) -> Option<Arc<[u8]>> {
    let length = addresses.end.checked_sub(addresses.start)?;
    let mut bytes = vec![0; usize::try_from(length.min(MAX_TABLE_BYTES + 1)).ok()?];
    let is_whole =
        length <= MAX_TABLE_BYTES && read_memory(addresses.start, &mut bytes) == bytes.len();
    is_whole.then(|| bytes.into())
}

/// The modules of this process whose functions were on a stack.
#[derive(Debug, Default)]
pub(super) struct LoadedModules {
    tables: HashMap<LoadedModule, Option<LoadedTables>>,
}

impl LoadedModules {
    /// Finds the callers on a copy of a stack of this process.
    pub(super) fn unwind(&mut self, copy: &StackCopy) -> UnwoundStack {
        let mut modules = parse_modules(&fs::read_to_string("/proc/self/maps").unwrap_or_default());
        modules.retain(|module| is_on_stack(module, copy));
        // A library that was unloaded may be replaced by another one at the same address.
        self.tables.retain(|module, _| modules.contains(module));
        let mut unwinder = Unwinder::new();
        for module in &modules {
            let read = || LoadedTables::read(module.start);
            if let Some(tables) = self.tables.entry(module.clone()).or_insert_with(read) {
                for code in &module.code {
                    unwinder.add_module(tables.unwinding_module(&module.path, code.clone()));
                }
            }
        }
        self.find_callers(&unwinder, &modules, copy)
    }

    fn find_callers(
        &self,
        unwinder: &Unwinder<Arc<[u8]>>,
        modules: &[LoadedModule],
        copy: &StackCopy,
    ) -> UnwoundStack {
        let mut is_beyond_copy = false;
        let mut read_word = |address: u64| {
            let word = read_word(copy, address);
            is_beyond_copy |= word.is_none() && address >= copy.registers.stack;
            word.ok_or(())
        };
        let mut cache = Cache::new();
        let registers = unwinding_registers(copy.registers);
        let pc = copy.registers.instruction;
        let mut callers = unwinder.iter_frames(pc, registers, &mut cache, &mut read_word);
        let mut frames = Vec::new();
        let end = loop {
            match callers.next() {
                Ok(Some(caller)) => {
                    let frame = self.frame(modules, caller);
                    // Without tables, an unwinder that follows frame pointers may find anything.
                    if frame.module.is_none() && !frames.is_empty() {
                        break StackEnd::NoTables;
                    }
                    frames.push(frame);
                }
                Ok(None) => break StackEnd::Complete,
                Err(_) => break StackEnd::NoTables,
            }
            if frames.len() == MAX_FRAMES {
                break StackEnd::TooDeep;
            }
        };
        let is_cut = is_beyond_copy && copy.bytes.len() == MAX_STACK_BYTES;
        let end = if end == StackEnd::NoTables && is_cut { StackEnd::TooDeep } else { end };
        UnwoundStack { frames, end }
    }

    fn frame(&self, modules: &[LoadedModule], caller: FrameAddress) -> StackFrame {
        let address = caller.address_for_lookup();
        let module = modules.iter().find(|module| module.contains(address));
        let tables = module.and_then(|module| self.tables.get(module)?.as_ref());
        let bias = tables.map_or(0, |tables| tables.bias);
        StackFrame {
            address,
            module: module.map(|module| module.path.to_string()),
            offset: address.wrapping_sub(bias),
            inode: module.map_or(0, |module| module.inode),
        }
    }
}

fn read_word(copy: &StackCopy, address: u64) -> Option<u64> {
    let at = usize::try_from(address.checked_sub(copy.registers.stack)?).ok()?;
    let bytes = copy.bytes.get(at..at.checked_add(8)?)?;
    Some(u64::from_ne_bytes(bytes.try_into().ok()?))
}

/// Returns whether the interrupted instruction, or a word that may be a return address, is in a
/// module.
fn is_on_stack(module: &LoadedModule, copy: &StackCopy) -> bool {
    let mut words = copy.bytes.chunks_exact(8).map(|word| word.try_into().unwrap_or_default());
    module.contains(copy.registers.instruction)
        || module.contains(copy.registers.link)
        || words.any(|word| module.contains(u64::from_ne_bytes(word)))
}

#[cfg(target_arch = "x86_64")]
fn unwinding_registers(registers: Registers) -> UnwindRegsX86_64 {
    UnwindRegsX86_64::new(registers.instruction, registers.stack, registers.frame)
}

#[cfg(target_arch = "aarch64")]
fn unwinding_registers(registers: Registers) -> UnwindRegsAarch64 {
    UnwindRegsAarch64::new(registers.link, registers.stack, registers.frame)
}

/// The symbols of the files of this process. Each file is read once.
#[derive(Default)]
pub(super) struct Symbols(Mutex<HashMap<SymbolFile, Option<Loader>>>);

/// A file with symbols. Its inode is that of the loaded file, so that a file that has replaced it since
/// gives no wrong names.
#[derive(Debug, PartialEq, Eq, Hash)]
struct SymbolFile {
    path: String,
    inode: u64,
}

impl Symbols {
    /// Returns the functions at an address, from the innermost inlined one on; none if the file has
    /// no symbols.
    pub(super) fn functions(&self, frame: &StackFrame) -> Vec<String> {
        let Some(path) = frame.module.clone() else { return Vec::new() };
        let file = SymbolFile { path, inode: frame.inode };
        let mut files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let loader = files.entry(file).or_insert_with_key(SymbolFile::open);
        loader.as_ref().map_or_else(Vec::new, |loader| find_functions(loader, frame.offset))
    }
}

impl SymbolFile {
    fn open(&self) -> Option<Loader> {
        // The program may have been replaced since it was started.
        let program = PathBuf::from("/proc/self/exe");
        let is_program = fs::read_link(&program).is_ok_and(|path| path.as_os_str() == &*self.path);
        let path = if is_program { program } else { self.path.clone().into() };
        let is_loaded_file = fs::metadata(&path).is_ok_and(|file| file.ino() == self.inode);
        is_loaded_file.then(|| Loader::new(path).ok()).flatten()
    }
}

fn find_functions(loader: &Loader, address: u64) -> Vec<String> {
    let mut functions = Vec::new();
    if let Ok(mut found) = loader.find_frames(address) {
        while let Ok(Some(frame)) = found.next() {
            let name = frame.function.as_ref().and_then(|name| name.demangle().ok());
            functions.push(name.and_then(|name| inlined_name(&name)));
        }
    }
    // The symbol is the function into which the others are inlined. It has the whole path, which brief
    // debugging information has not.
    if let Some(symbol) = loader.find_symbol(address) {
        functions.pop();
        functions.push(Some(demangle_auto(symbol.into(), None).into_owned()));
    }
    functions.into_iter().flatten().collect()
}

/// Returns the name of an inlined function without type arguments; `None` if it identifies nothing, as
/// `{closure#0}`.
fn inlined_name(name: &str) -> Option<String> {
    if name.starts_with('{') {
        return None;
    }
    let path = name.find('<').map_or(name, |at| name[..at].trim_end_matches("::"));
    Some(if path.is_empty() { name } else { path }.to_owned())
}

impl std::fmt::Debug for Symbols {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Symbols").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "\
5560a0000000-5560a0010000 r--p 00000000 fe:00 42                         /srv/my service
5560a0010000-5560a0090000 r-xp 00010000 fe:00 42                         /srv/my service
5560a0090000-5560a0091000 rw-p 00090000 fe:00 42                         /srv/my service
5560a1000000-5560a1100000 rw-p 00000000 00:00 0                          [heap]
7f0000000000-7f0000100000 r--p 00000000 fe:00 42                         /srv/my service
7f0000100000-7f0000200000 r-xp 00000000 00:00 0 
7f0000200000-7f0000300000 r-xp 00000000 fe:00 43                         /lib/libold.so (deleted)
7f0000300000-7f0000310000 r-xp 00110000 fe:00 43                         /lib/libold.so (deleted)
7f0000400000-7f0000402000 r-xp 00000000 00:00 0                          [vdso]
not a line of this file
";

    fn module(path: &str, inode: u64, start: u64, code: &[Range<u64>]) -> LoadedModule {
        LoadedModule { path: path.into(), inode, start, code: code.to_vec() }
    }

    #[test]
    #[allow(clippy::single_range_in_vec_init, reason = "a module with one range of code")]
    fn modules_begin_with_their_headers() {
        let expected = [
            // The second mapping of the file contains no code: something reads its symbols.
            module("/srv/my service", 42, 0x5560_a000_0000, &[0x5560_a001_0000..0x5560_a009_0000]),
            module(
                "/lib/libold.so (deleted)",
                43,
                0x7f00_0020_0000,
                &[0x7f00_0020_0000..0x7f00_0030_0000, 0x7f00_0030_0000..0x7f00_0031_0000],
            ),
            module("[vdso]", 0, 0x7f00_0040_0000, &[0x7f00_0040_0000..0x7f00_0040_2000]),
        ];
        assert_eq!(parse_modules(MAPS), expected);
    }

    #[test]
    fn inlined_names_have_no_arguments() {
        let names =
            ["a::fold::<core::str::Split<char>, u64>", "{closure#0}<u8>", "parse", "<T>::y"];
        let shortened = names.map(inlined_name);
        let shortened = shortened.each_ref().map(Option::as_deref);
        assert_eq!(shortened, [Some("a::fold"), None, Some("parse"), Some("<T>::y")]);
    }

    #[test]
    #[cfg_attr(miri, ignore = "reads its own memory by a system call")]
    fn tables_are_those_of_the_file() {
        let modules = parse_modules(&fs::read_to_string("/proc/self/maps").unwrap());
        let address = tables_are_those_of_the_file as *const () as u64;
        let program = modules.iter().find(|module| module.contains(address)).unwrap();
        let tables = LoadedTables::read(program.start).unwrap();
        let loader = Loader::new(&*program.path).unwrap();
        let section = |name: &[u8]| loader.get_section_range(name).unwrap();
        let index = section(b".eh_frame_hdr");
        assert_eq!(tables.index_addresses, index.begin..index.end);
        let frames = section(b".eh_frame");
        assert_eq!(tables.frames_addresses.start, frames.begin);
        assert!(tables.frames_addresses.end >= frames.end);
        let symbol = loader.find_symbol(address.wrapping_sub(tables.bias)).unwrap();
        assert!(symbol.contains("tables_are_those_of_the_file"), "{symbol}");
        assert!(LoadedTables::read(8).is_none());
    }
}
