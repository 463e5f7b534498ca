#pragma once

#include <cstddef>

namespace lagoon {

/// Gives freed memory back to the operating system. Otherwise the C library keeps the memory for
/// later allocations, even in the middle of its heap. Call it after large transient allocations,
/// such as those of loading a model. Takes about a millisecond. Any thread.
void ReturnFreedMemory();

/// Bytes that are freed and not given back: what ReturnFreedMemory() may return. Any thread.
std::size_t FreedMemory();

/// From now on the C library keeps freed blocks of up to 32 MiB for later allocations, and up to
/// 64 MiB of them at the end of each of its heaps, so that the next large message does not take
/// fresh pages. These are the bounds that the library comes to by itself after the first free of a
/// block of 32 MiB. ReturnFreedMemory() gives back as before. For programs that serve.
void KeepFreedMemory();

/// Memory that is set aside so that a program can end when all other memory is taken: ending
/// allocates, even destructors of libraries do, and those end the process where they cannot. One at
/// a time in a process. Costs address space, and no memory as long as it is not given up.
class MemoryReserve {
 public:
  /// Sets `bytes` aside. The first allocation (operator new) that fails takes them, in any thread.
  /// Throws std::bad_alloc where the system has not that much.
  explicit MemoryReserve(std::size_t bytes);
  /// GiveUp().
  ~MemoryReserve();
  MemoryReserve(const MemoryReserve&) = delete;
  MemoryReserve& operator=(const MemoryReserve&) = delete;

  /// From now on allocations that fail leave the reserve alone. False: one has taken it already.
  bool Keep();
  /// Any allocation may have the memory. Any thread.
  void GiveUp();
};

}  // namespace lagoon
