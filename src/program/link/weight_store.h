#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "device/device.h"
#include "graph/constant.h"
#include "plan/plan.h"
#include "program/lower/builder.h"

namespace lagoon {

/// Where the constants of one program lie.
struct PackedWeights {
  /// By BufferId: offset in Region::kWeights. Undefined for buffers that no op of the program reads
  /// as a constant.
  std::vector<std::size_t> offsets;
  std::vector<std::shared_ptr<const WeightChunk>> chunks;  // that hold them, ascending
  std::size_t bytes = 0;                                   // of the constants that the ops read
};

/// The constants of a model on a device, or of several models with equal weights, packed as kernels
/// read them. Programs for several input shapes share what they need alike; what the first programs
/// packed, later ones find here. A chunk lives as long as a plan uses it. Much that a request has
/// made (LoweredBuffer::from_request) has a chunk of its own, which no later program shares: else a
/// small part of it would keep all of it. Any thread may use a store. Two threads that pack the
/// same constants at the same time each keep a copy of them.
class WeightStore {
 public:
  /// `device` outlives the store and the chunks.
  explicit WeightStore(DeviceControl& device) : device_(device) {}

  /// Packs the constants of `program` that are not here yet, and runs the load ops that compute
  /// them. Destroys each buffer's `fill` (and the weights that it holds) as soon as the buffer is
  /// packed. If the host cannot write device memory, packs into host memory and uploads everything
  /// at once. kResourceExhausted: no memory.
  Result<PackedWeights> Pack(LoweredProgram& program);

  /// Bytes that were packed so far, of all chunks, also of those that are gone.
  std::size_t packed_bytes() const {
    const MutexLock lock(mutex_);
    return end_;
  }

 private:
  struct Place {
    std::weak_ptr<const WeightChunk> chunk;
    std::size_t offset = 0;
  };
  class Packing;

  void DropFreed() REQUIRES(mutex_);
  /// Returns where the new chunks begin that together have so many bytes.
  std::size_t TakeRange(std::size_t bytes);

  DeviceControl& device_;
  mutable Mutex mutex_;  // held for microseconds, not while constants are packed
  std::map<Identity, Place> places_ GUARDED_BY(mutex_);  // by contents
  std::size_t end_ GUARDED_BY(mutex_) = 0;  // of all chunks so far, in Region::kWeights
};

/// The weight stores of the models on one device. Models with equal weights share a store, so that
/// the weights are in memory once. Any thread.
class WeightStores {
 public:
  /// `device` outlives the stores.
  explicit WeightStores(DeviceControl& device) : device_(device) {}
  /// Returns the store for `key`. Two models must have the same key only if their weights have the
  /// same contents and are packed in the same way. A store lives as long as a model holds it.
  std::shared_ptr<WeightStore> For(const std::string& key);

 private:
  DeviceControl& device_;
  Mutex mutex_;
  std::map<std::string, std::weak_ptr<WeightStore>> stores_ GUARDED_BY(mutex_);  // by key
};

}  // namespace lagoon
