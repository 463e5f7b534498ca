#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "device/cuda/driver/session.h"
#include "device/cuda/gpu/grid_params.cuh"

namespace lagoon::cuda {

struct NoteSeen {
  Note kind{};
  std::uint32_t issue = 0;  // the lower 24 bits
  std::uint32_t value = 0;
};

/// The host's end of the notification ring. Before a grid is issued, the caller reserves room for
/// all notes that the grid may post, and releases the room when the grid's last note has been
/// taken. So the GPU cannot overrun the ring. Externally locked.
class NoteRing {
 public:
  static Result<std::unique_ptr<NoteRing>> Create(const std::shared_ptr<const GpuSession>& session,
                                                  std::uint32_t capacity) {
    auto ring = std::make_unique<NoteRing>();
    LAGOON_ASSIGN_OR_RETURN(ring->entries_, OwnMemory::Create(session, capacity * sizeof(u64),
                                                              OwnMemory::Where::kPinned));
    LAGOON_ASSIGN_OR_RETURN(ring->head_,
                            OwnMemory::Create(session, sizeof(u64), OwnMemory::Where::kDevice));
    ring->capacity_ = ring->free_ = capacity;
    return ring;
  }

  RingRef ref() const {
    return {reinterpret_cast<u64*>(entries_.device()), reinterpret_cast<u64*>(head_.device()),
            capacity_, 0};
  }

  bool Reserve(std::uint32_t notes) {
    if (notes > free_) return false;
    free_ -= notes;
    return true;
  }
  void Release(std::uint32_t notes) { free_ += notes; }

  /// True if a next note seems to be there. Needs no lock. Any thread.
  bool Waiting() const { return IsNew(Next()); }

  /// The next note, in order of posting.
  std::optional<NoteSeen> Take() {
    const u64 seen = Next();
    if (!IsNew(seen)) return std::nullopt;
    taken_.fetch_add(1, std::memory_order_relaxed);
    return NoteSeen{static_cast<Note>(seen >> 60 & 7),
                    static_cast<std::uint32_t>(seen >> 32 & 0xffffff),
                    static_cast<std::uint32_t>(seen)};
  }

 private:
  u64 Next() const {
    const u64 taken = taken_.load(std::memory_order_relaxed);
    const auto* const entries = reinterpret_cast<const u64*>(entries_.host());
    // acquire: reads after this see what the GPU wrote before the note.
    return __atomic_load_n(entries + (taken & (capacity_ - 1)), __ATOMIC_ACQUIRE);
  }
  bool IsNew(u64 entry) const {
    const u64 lap = taken_.load(std::memory_order_relaxed) / capacity_;
    return entry >> 63 == PhaseOfLap(lap) >> 63;
  }

  OwnMemory entries_, head_;
  std::uint32_t capacity_ = 0;
  std::uint32_t free_ = 0;
  std::atomic<u64> taken_{0};  // changed under the lock
};

}  // namespace lagoon::cuda
