#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "device/block.h"
#include "device/cuda/launch_table.cuh"
#include "device/cuda/session.h"

namespace lagoon::cuda {

/// A Progress that launches in flight name, and its counterpart on the GPU, which counts meanwhile.
struct DeviceRecord {
  Progress* progress = nullptr;
  RecordRef ref{};          // on the GPU
  std::uint32_t slot = 0;   // of the done word
  std::uint32_t first = 0;  // granule of the claims
  std::uint32_t granules = 0;
  std::uint32_t users = 0;   // launches that name it
  std::uint32_t issues = 0;  // grids in flight that work on it
  std::uint64_t ends = 0;    // grids that have ended
  std::uint32_t stream = 0;  // index of the one that all of them are in; ~0: of several
  bool to_load = false;      // partly done on the host before: the GPU must learn of it
  bool loading = false;      // the first grid that finds it so has not ended
  bool dirty = false;        // the GPU's bitmap may differ from the host's
  bool fetching = false;     // the bitmap is on its way to the host
};

/// The device's records: memory on the GPU, the same again pinned on the host for what goes back
/// and forth, and who is attached. Externally locked. Nothing allocates once warm.
///
/// A record on the GPU lives as long as launches name its Progress. Then the Progress has all of
/// it, so that nobody else has to know of the GPU's: tests, Reset() and deletion stay as they are.
class RecordPool {
 public:
  struct Limits {
    std::uint32_t records = 2048;
    std::uint32_t granules = 8192;  // of kGranuleTiles tiles
  };
  static constexpr std::uint32_t kGranuleTiles = 1024;

  static Result<std::unique_ptr<RecordPool>> Create(
      const std::shared_ptr<const GpuSession>& session, const Limits& limits);

  /// The record of a Progress for one more user, or null: no room.
  DeviceRecord* Attach(Progress& progress);
  /// By one user. The record must have nothing that the Progress lacks.
  void Detach(DeviceRecord& record);
  /// Of a Progress that is attached, by its count; else null.
  DeviceRecord* Find(const std::atomic<std::uint32_t>& done_word);

  /// Enqueues what the GPU's record must have before its first block.
  Code Load(DeviceRecord& record, const Driver& driver, Stream stream);
  /// Enqueues the way back of its bitmap; after it has arrived, Store() puts it into the Progress.
  Code Fetch(const DeviceRecord& record, const Driver& driver, Stream stream);
  void Store(const DeviceRecord& record);

 private:
  static constexpr std::uint32_t kGranuleWords = kGranuleTiles / 32;
  static constexpr std::uint32_t kDoneStride = 8;  // words: a sector of its own for every count

  explicit RecordPool(const Limits& limits);
  std::optional<std::uint32_t> TakeGranules(std::uint32_t count);
  u64* Shadow(std::uint32_t word) const;
  std::uint32_t ClaimsAt(const DeviceRecord& record) const;
  static std::uint32_t ClaimWords(const DeviceRecord& record) {
    return (record.ref.blocks + 31) / 32;
  }

  const Limits limits_;
  OwnMemory words_, shadow_;  // done words, then claims
  std::pmr::unsynchronized_pool_resource nodes_;
  std::pmr::unordered_map<const void*, DeviceRecord> records_;  // by address of the host's count
  // A ring, the longest free first: blocks in flight may still look at the count of a record that
  // is gone.
  std::vector<std::uint32_t> free_slots_;
  std::uint32_t first_free_ = 0, free_count_ = 0;
  std::vector<bool> taken_;  // granules
  std::uint32_t next_granule_ = 0;
  // Tells uses of the same words apart. It comes back after 2^32 of them; a word is taken for
  // another's only if nobody has touched it in exactly as many.
  std::uint32_t tag_ = 0;
};

}  // namespace lagoon::cuda
