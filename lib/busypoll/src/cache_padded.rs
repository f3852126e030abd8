/// Gives a value its own pair of cache lines, since the CPU prefetches lines in pairs. A thread
/// that writes the value does not slow down a thread that reads a neighboring one.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct CachePadded<T>(pub(crate) T);
