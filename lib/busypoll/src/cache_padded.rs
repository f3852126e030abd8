/// Alone in its cache line, or rather in two: lines are prefetched in pairs. So a thread that
/// writes it does not slow down a thread that reads its neighbor.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct CachePadded<T>(pub(crate) T);
