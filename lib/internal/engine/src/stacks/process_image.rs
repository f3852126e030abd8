//! The files that a process has mapped, and the callers on its stacks.

use std::ops::Range;
use std::sync::Arc;

use files::why::stacks::Frame;
use framehop::{FrameAddress, Unwinder as _};

#[cfg(target_arch = "aarch64")]
use framehop::aarch64::{CacheAarch64 as Cache, UnwindRegsAarch64, UnwinderAarch64 as Unwinder};
#[cfg(not(target_arch = "aarch64"))]
use framehop::x86_64::{CacheX86_64 as Cache, UnwindRegsX86_64, UnwinderX86_64 as Unwinder};

use crate::machine::os::{MappedFile, StackRecord, StackRegisters};
use crate::stacks::program_file::{ProgramFile, SectionData};

/// A process with the files that it has mapped for execution.
#[derive(Default)]
pub struct ProcessImage {
    mapped: Vec<MappedRange>,
    unwinder: Unwinder<SectionData>,
    cache: Cache,
}

/// A mapped part of a file.
struct MappedRange {
    addresses: Range<u64>,
    /// Difference between an address of the process and that in the file.
    bias: u64,
    file: Arc<ProgramFile>,
}

impl ProcessImage {
    /// Adds a file, which replaces what was mapped at the same addresses.
    pub fn add(&mut self, mapped: &MappedFile, file: Arc<ProgramFile>) {
        let addresses = mapped.start..mapped.end;
        let Some(bias) = file.bias(mapped.start, mapped.offset) else { return };
        let unwinder = &mut self.unwinder;
        self.mapped.retain(|old| {
            let overlaps =
                old.addresses.start < addresses.end && addresses.start < old.addresses.end;
            if overlaps {
                unwinder.remove_module(old.addresses.start);
            }
            !overlaps
        });
        unwinder.add_module(file.unwinding_module(addresses.clone(), bias));
        self.mapped.push(MappedRange { addresses, bias, file });
    }

    /// Returns the sampled instruction and the return addresses of its callers, as far as the copy
    /// of the stack contains them.
    pub fn unwind(&mut self, record: &StackRecord, max_frames: usize) -> Vec<FrameAddress> {
        let stack_start = record.registers.stack;
        let mut read_stack = |address: u64| {
            let at = address.checked_sub(stack_start).and_then(|at| usize::try_from(at).ok());
            let word = at.and_then(|at| record.stack.get(at..at.checked_add(8)?));
            word.and_then(|word| word.try_into().ok()).map(u64::from_ne_bytes).ok_or(())
        };
        let registers = unwinding_registers(record.registers);
        let pc = record.registers.instruction;
        let mut frames = self.unwinder.iter_frames(pc, registers, &mut self.cache, &mut read_stack);
        let mut callers = Vec::new();
        // An error ends the stack: its outer functions are not in the copy, or have no tables.
        while let Ok(Some(frame)) = frames.next() {
            callers.push(frame);
            if callers.len() == max_frames {
                break;
            }
        }
        callers
    }

    /// Adds the functions at an address, from the innermost inlined one on.
    pub fn add_functions(&self, address: FrameAddress, frames: &mut Vec<Frame>) {
        let address = address.address_for_lookup();
        if let Some(mapped) = self.mapped.iter().find(|m| m.addresses.contains(&address)) {
            frames.extend(mapped.file.functions(address.wrapping_sub(mapped.bias)).iter().cloned());
        }
    }

    /// Returns what the first file of the program lacks for complete names.
    pub fn hint(&self) -> Option<String> {
        self.mapped.iter().find_map(|mapped| mapped.file.hint())
    }
}

#[cfg(not(target_arch = "aarch64"))]
fn unwinding_registers(registers: StackRegisters) -> UnwindRegsX86_64 {
    UnwindRegsX86_64::new(registers.instruction, registers.stack, registers.frame)
}

#[cfg(target_arch = "aarch64")]
fn unwinding_registers(registers: StackRegisters) -> UnwindRegsAarch64 {
    UnwindRegsAarch64::new(registers.link, registers.stack, registers.frame)
}
