#pragma once

namespace lagoon {

/// Gives freed memory back to the operating system. Otherwise the C library keeps the memory for
/// later allocations, even in the middle of its heap. Call it after large transient allocations,
/// such as those of loading a model. Takes about a millisecond. Any thread.
void ReturnFreedMemory();

}  // namespace lagoon
