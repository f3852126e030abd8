//! Count of the instructions of a program, which is supported on Linux only.

use crate::machine::os::not_available::NotAvailable;

#[derive(Debug)]
pub enum Instructions {}

impl Instructions {
    pub fn for_next_program() -> Result<Self, NotAvailable> {
        Err(NotAvailable { what: "a count of instructions", obstacle: None, needs: "Linux" })
    }

    pub fn count(&self) -> std::io::Result<u64> {
        match *self {}
    }
}
