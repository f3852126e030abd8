//! `osjitter-counts`, the helper program of `osjitter bench timeout`.

use osjitter::counts::{self, CountingAllocator};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

fn main() -> std::io::Result<()> {
    counts::main()
}
