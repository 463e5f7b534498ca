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
#include "device/cuda/driver/session.h"
#include "device/cuda/gpu/grid_params.cuh"

namespace lagoon::cuda {

/// A Progress that launches in flight name, and its counterpart on the GPU, which counts meanwhile.
struct DeviceRecord {
  Progress* progress = nullptr;
  RecordRef ref{};          // on the GPU
  std::uint32_t slot = 0;   // index of the done word
  std::uint32_t first = 0;  // first granule of the claims
  std::uint32_t granules = 0;
  std::uint32_t users = 0;   // number of launches that name it
  std::uint32_t issues = 0;  // number of grids in flight that work on it
  std::uint64_t ends = 0;    // number of grids that worked on it and have ended
  std::uint32_t stream = 0;  // index of the stream of all `issues` grids; ~0: several streams
  bool to_load = false;      // was partly done at Attach(): the GPU's words must be loaded
  bool loading = false;      // the grid that was launched behind the load has not ended
  bool fresh = true;         // no grid has been issued since Attach()
  bool dirty = false;        // the GPU's bitmap may differ from the host's
  bool fetching = false;     // the bitmap is being copied to the host
};

/// The device's records: their memory on the GPU, equal pinned memory on the host for copies in
/// both directions, and the users of each record. Externally locked. Nothing allocates once warm.
///
/// A record on the GPU lives while launches in flight name its Progress. Afterwards the Progress
/// holds the complete state, so that other code (tests, Reset(), deletion) need not know the GPU's
/// record.
class RecordPool {
 public:
  struct Limits {
    std::uint32_t records = 2048;
    std::uint32_t granules = 8192;  // of kGranuleTiles tiles each
  };
  static constexpr std::uint32_t kGranuleTiles = 1024;

  static Result<std::unique_ptr<RecordPool>> Create(
      const std::shared_ptr<const GpuSession>& session, const Limits& limits);

  /// Adds a user to the record of a Progress. Null: no room for a new record.
  DeviceRecord* Attach(Progress& progress);
  /// Removes a user. With the last user the record goes: then the Progress must hold all its state.
  void Detach(DeviceRecord& record);
  /// The record of an attached Progress, found by its done count; else null.
  DeviceRecord* Find(const std::atomic<std::uint32_t>& done_word);

  /// Enqueues the copy of the words that the GPU's record must have before its first block.
  Code Load(DeviceRecord& record, const Driver& driver, Stream stream);
  /// Enqueues the copy of the bitmap to the host. After it has arrived, Store() puts it into the
  /// Progress.
  Code Fetch(const DeviceRecord& record, const Driver& driver, Stream stream);
  void Store(const DeviceRecord& record);

 private:
  static constexpr std::uint32_t kGranuleWords = kGranuleTiles / 32;
  static constexpr std::uint32_t kDoneStride = 8;  // words: each count has its own sector

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
  // By address of the Progress's done count.
  std::pmr::unordered_map<const void*, DeviceRecord> records_;
  // FIFO of free slots, oldest first, because blocks still in flight may read the count of a record
  // that was just detached.
  std::vector<std::uint32_t> free_slots_;
  std::uint32_t first_free_ = 0, free_count_ = 0;
  std::vector<bool> taken_;  // granules
  std::uint32_t next_granule_ = 0;
  // Generation tag: distinguishes successive users of the same device words. It wraps after 2^32
  // attachments; a stale word is misread only if nothing has touched it for exactly that many.
  std::uint32_t tag_ = 0;
};

}  // namespace lagoon::cuda
