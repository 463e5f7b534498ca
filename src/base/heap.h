#pragma once

namespace lagoon {

/// Gives freed memory back to the operating system. The C library keeps it for later allocations,
/// also in the middle of its heap; a server that has loaded a model has better use for it. Costs
/// about a millisecond. Any thread.
void ReturnFreedMemory();

}  // namespace lagoon
