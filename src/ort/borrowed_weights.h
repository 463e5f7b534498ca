#pragma once

// Constants of a graph in ONNX Runtime's memory.

#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "graph/weight_source.h"
#include "local/memory_file.h"

namespace lagoon::plugin {

/// The memory of the constants is borrowed until Keep() or Forget(). Any thread.
class BorrowedWeights final : public WeightSource {
 public:
  /// Returns the location.
  std::string Add(std::span<const std::byte> bytes);
  std::size_t bytes() const;  // of all
  /// Copies all constants, for plans that are made later. kResourceExhausted: no memory.
  Status Keep();
  /// Later calls of ReadAt() fail: no plan will need the constants.
  void Forget();

  std::optional<std::size_t> SizeOf(std::string_view location) const override;
  Status ReadAt(std::string_view location, std::size_t offset,
                std::span<std::byte> to) const override;

 private:
  struct Place {
    std::span<const std::byte> bytes;  // no bytes: in `kept_`, or forgotten
    std::size_t size = 0;
    std::size_t offset = 0;  // in `kept_`
  };
  const Place* Find(std::string_view location) const REQUIRES(mutex_);

  mutable Mutex mutex_;
  std::vector<Place> places_ GUARDED_BY(mutex_);  // by location, which is a number
  std::optional<MemoryFile> kept_ GUARDED_BY(mutex_);
};

}  // namespace lagoon::plugin
