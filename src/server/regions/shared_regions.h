#pragma once

// Triton's extension "system_shared_memory": tensors that lie in shared memory objects of clients
// on the same machine.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "serving/core/request.h"

namespace lagoon {

/// A region as a client registers it: bytes of the shared memory object `key` (shm_open).
struct RegionSpec {
  std::string name;
  std::string key;
  std::uint64_t offset = 0;  // in the object
  std::uint64_t bytes = 0;
};

/// Bytes of a region, as a request names them.
struct RegionPart {
  std::string region;
  std::uint64_t offset = 0;  // in the region
  std::uint64_t bytes = 0;
};

/// The tensors of a request that lie in regions.
struct SharedTensors {
  struct Input {
    std::size_t index;  // in InferRequest::inputs
    RegionPart part;
  };
  struct Output {
    std::string name;
    RegionPart part;
  };
  std::vector<Input> inputs;
  std::vector<Output> outputs;

  bool empty() const { return inputs.empty() && outputs.empty(); }
  std::uint64_t input_bytes() const;
};

/// An open shared memory object. It is read and written with pread() and pwrite(), never mapped: an
/// object that its client shrinks gives an error, where a mapping would end the server with SIGBUS.
/// Lives until its last user has gone, registered or not. Any thread.
class SharedRegion {
 public:
  /// Owns `descriptor`.
  SharedRegion(RegionSpec spec, int descriptor) : spec_(std::move(spec)), descriptor_(descriptor) {}
  ~SharedRegion();
  SharedRegion(const SharedRegion&) = delete;
  SharedRegion& operator=(const SharedRegion&) = delete;

  const RegionSpec& spec() const { return spec_; }
  /// kInvalidArgument unless the part lies in the region.
  Status Check(const RegionPart& part) const;
  // The range lies in the region. kInvalidArgument: the object is smaller than it was.
  Status Read(std::uint64_t offset, std::span<std::byte> to) const;
  Status Write(std::uint64_t offset, std::span<const std::byte> from) const;

 private:
  Status Failed(const char* what, int error) const;
  Status Shrunk() const;

  const RegionSpec spec_;
  const int descriptor_;
};

/// Where outputs of one request go.
class OutputRegions {
 public:
  struct Target {
    std::string output;
    std::shared_ptr<const SharedRegion> region;
    RegionPart part;  // after WriteOutputs(): the bytes that were written
  };

  void Add(Target target) { targets_.push_back(std::move(target)); }
  bool empty() const { return targets_.empty(); }
  /// The number of bytes of `outputs` that Write() would write.
  std::size_t BytesOf(std::span<const OutputTensor> outputs) const;
  /// Writes the outputs that have a region, and frees their data.
  Status Write(std::span<OutputTensor> outputs);
  /// Null: the output is part of the answer.
  const RegionPart* Find(const std::string& output) const;

 private:
  std::vector<Target> targets_;
};

/// The regions that clients have registered. Any thread.
class SharedRegions {
 public:
  // One descriptor each.
  static constexpr std::size_t kMostRegions = 128;
  // The pages that the server is the first to write count as its memory.
  static constexpr std::uint64_t kMostBytes = std::uint64_t{4} << 30;
  static constexpr std::size_t kMostNameBytes = 255;
  // Copies of inputs of all requests in progress.
  static constexpr std::size_t kMostCopied = std::size_t{512} << 20;
  /// Copying more takes more than a fraction of a millisecond.
  static constexpr std::size_t kSmallCopy = std::size_t{1} << 20;

  /// `on` false: no region can be registered.
  explicit SharedRegions(bool on)
      : on_(on), copied_(std::make_shared<std::atomic<std::size_t>>()) {}

  bool on() const { return on_; }
  /// Opens the object. Errors never have the key, which may be another client's secret.
  Status Register(RegionSpec spec);
  /// Requests in progress still use the region.
  void Unregister(const std::string& name);
  void UnregisterAll();
  /// Empty `name`: all, by name. kNotFound: there is no such region.
  Result<std::vector<RegionSpec>> List(const std::string& name = "") const;

  /// Copies the inputs that lie in regions to memory of `request`, and finds the regions of the
  /// outputs. kUnavailable: copies of other requests take all memory for copies.
  Result<OutputRegions> Bind(const SharedTensors& tensors, InferRequest& request) const;

 private:
  Result<std::shared_ptr<const SharedRegion>> Find(const RegionPart& part) const;
  Status CopyInputs(const SharedTensors& tensors, InferRequest& request) const;
  Status CheckRoom(const RegionSpec& spec) const REQUIRES(mutex_);

  const bool on_;
  const std::shared_ptr<std::atomic<std::size_t>> copied_;  // outlives the last request
  mutable Mutex mutex_;
  std::map<std::string, std::shared_ptr<const SharedRegion>> regions_ GUARDED_BY(mutex_);
};

// Memory of GPUs: kNotFound for a region, and kInvalidArgument for its registration.

Error NoCudaRegion(const std::string& name);
Error NoCudaRegister(const std::string& name);

}  // namespace lagoon
