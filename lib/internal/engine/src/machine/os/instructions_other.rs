//! Count of the instructions of a program, which is supported on Linux only.

use crate::machine::os::types::NotAvailable;

#[derive(Debug)]
pub enum Instructions {}

impl Instructions {
    pub fn for_next_program() -> Result<Self, NotAvailable> {
        Err(NotAvailable { what: "a count of instructions", error: String::new(), needs: "Linux" })
    }

    pub fn count(&self) -> std::io::Result<u64> {
        match *self {}
    }
}
