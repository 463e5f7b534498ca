#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "device/device.h"

namespace lagoon {

/// The kernels that a device has loaded, by handle. A handle lives as long as its device, so a
/// kernel that is loaded again must get the handle that it has: models come and go, and shapes are
/// compiled again, but the bodies are the same. `Key` says which kernels are the same. Addresses of
/// kernels do not change. The device's lock protects every method.
template <typename Key, typename Kernel = Key>
class KernelTable {
 public:
  static constexpr std::uint32_t kMost = 1 << 16;

  /// The handle of `key`; a new one for `kernel` if there is none. kResourceExhausted, beginning
  /// with `where`: the table is full.
  Result<KernelHandle> FindOrAdd(const Key& key, Kernel kernel, const std::string& where) {
    const auto next = static_cast<std::uint32_t>(kernels_.size());
    const auto found = handles_.find(key);
    if (found != handles_.end()) return found->second;
    if (next == kMost) {
      return Fail(ErrorCode::kResourceExhausted,
                  where + ": " + std::to_string(kMost) + " different kernels are loaded");
    }
    kernels_.push_back(std::move(kernel));
    handles_.emplace(key, KernelHandle{next});
    return KernelHandle{next};
  }

  bool Has(KernelHandle kernel) const { return Raw(kernel) < kernels_.size(); }
  const Kernel& operator[](KernelHandle kernel) const {
    LAGOON_CHECK(Has(kernel));
    return kernels_[Raw(kernel)];
  }
  std::uint32_t size() const { return static_cast<std::uint32_t>(kernels_.size()); }

 private:
  std::deque<Kernel> kernels_;
  std::map<Key, KernelHandle> handles_;
};

}  // namespace lagoon
