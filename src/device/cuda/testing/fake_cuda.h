#pragma once

// A driver library without a GPU, as strict as the documentation of the real one: addresses of
// device memory fault on the host, writes of a stream become visible late, and resources of a split
// cannot be split again. Streams run their operations in order on a thread of the library, and
// kernels run on the Runner that the test provides. Tests find the control object in the library by
// the name kFakeCudaSymbol.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace lagoon::cuda::fake {

struct KernelLaunch {
  std::string entry;
  unsigned grid = 0, threads = 0;
  std::size_t shared_bytes = 0;
  const void* parameter = nullptr;  // the kernel's only parameter; lives until `done`
  int priority = 0;                 // of the stream; higher goes first
  /// Called once, inside of Runner::Step(). `fault`: what the kernel did wrong; then the context is
  /// lost. Empty: nothing.
  std::function<void(const std::string& fault)> done;
};

/// Runs the blocks of kernels. All calls come from the fake's thread.
class Runner {
 public:
  virtual ~Runner() = default;
  virtual void Submit(KernelLaunch launch) = 0;
  /// Runs a part of a block. False: nothing to do.
  virtual bool Step() = 0;
};

struct Settings {
  int driver_version = 13000;
  std::vector<int> multiprocessors = {2};  // one entry per GPU
  std::size_t memory_bytes = std::size_t{1} << 30;
  std::size_t shared_bytes = std::size_t{227} << 10;
  std::size_t parameter_bytes = 0;        // size of every kernel's parameter
  int occupancy = 1;                      // blocks of any kernel per multiprocessor
  unsigned unsplit = 0;                   // multiprocessors that no granule has
  std::vector<std::string> missing = {};  // calls that the driver does not have
  /// Makes the runner of a GPU.
  std::function<std::unique_ptr<Runner>(int multiprocessors)> runner;
};

struct Call {
  std::string name;
  std::uint64_t stream = 0;                   // number in order of creation, from 1; 0: none
  std::uint64_t value = 0;                    // word written, bytes, grid, or priority
  std::uint64_t to = 0;                       // address
  std::string entry = {};                     // launch: name of the entry kernel
  std::vector<unsigned char> parameter = {};  // launch: bytes of the parameter
};

class FakeCuda {
 public:
  virtual ~FakeCuda() = default;
  /// Starts anew. All devices must be destroyed.
  virtual void Reset(const Settings& settings) = 0;

  /// The `nth` call of `name` from now on (from 1) returns `code`. Empty `name`: the `nth` of all
  /// calls.
  virtual void FailCall(std::uint64_t nth, int code, const std::string& name = {}) = 0;
  /// From now on every call of `name` returns `code`. Empty: none does.
  virtual void RefuseCall(const std::string& name, int code) = 0;
  /// The name of the call that FailCall() made fail. Empty: none has yet.
  virtual std::string failed() const = 0;
  /// From now on every call returns `code`, and nothing runs: an asynchronous fault. If
  /// NeedsNewProcess(code), the next context fails as well, until Reset(), which is a new process.
  virtual void LoseContext(int code) = 0;
  /// From now on kernels neither run on nor end, which is no error for the driver.
  virtual void HangKernels() = 0;
  /// Takes the calls so far that hand work to the GPU, in order.
  virtual std::vector<Call> TakeLog() = 0;
  /// Why the context was lost, if a kernel did it.
  virtual std::string fault() const = 0;
  /// Waits until the words that streams write have landed, apart from those behind a kernel.
  virtual void AwaitWords() = 0;
  /// Where the bytes of an address lie for tests that play the GPU's part.
  virtual std::byte* OnHost(std::uint64_t address) const = 0;
  /// The largest number of streams that share a connection to the GPU. As many connections as
  /// $CUDA_DEVICE_MAX_CONNECTIONS says at the first cuInit(): 8 if it says nothing, 32 at most.
  virtual std::size_t MostPerConnection() const = 0;
  /// Number of allocations, streams and modules that were not given back.
  virtual std::size_t leaks() const = 0;
};

/// CUDA_ERROR_UNKNOWN: a fault after which the process may open the GPU again.
inline constexpr int kPassingFault = 999;

inline constexpr const char* kFakeCudaSymbol = "lagoon_fake_cuda";
using FakeCudaCall = FakeCuda* (*)();

}  // namespace lagoon::cuda::fake
