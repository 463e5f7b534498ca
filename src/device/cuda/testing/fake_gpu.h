#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "device/cuda/testing/device_memory.h"
#include "device/cuda/testing/fake_cuda.h"

namespace lagoon::cuda::fake {

/// The streams of a fake GPU and the thread that runs what they hold.
class Gpu {
 public:
  /// `run`: executed on the GPU's thread. `kernel`: an operation that ends later.
  struct Operation {
    std::function<void()> run = {};
    std::optional<KernelLaunch> kernel = {};
    std::vector<unsigned char> parameter = {};
    int delay = 0;            // so many steps of kernels go by before it runs
    std::uint64_t order = 0;  // of submission, in all streams; set by Push()
  };

  /// `make_runner` is called on the thread that uses the runner. `memory` is borrowed.
  /// `connections`: if there are more streams, some share a connection, and what is in these
  /// streams runs in the order of submission.
  Gpu(std::function<std::unique_ptr<Runner>()> make_runner, DeviceMemory& memory,
      std::size_t connections);
  ~Gpu();

  std::uint64_t CreateStream(int priority);
  bool DestroyStream(std::uint64_t stream);
  bool Push(std::uint64_t stream, Operation operation);
  /// From now on the stream's operations are kept instead of run, until EndCapture() returns them.
  bool BeginCapture(std::uint64_t stream);
  std::optional<std::vector<Operation>> EndCapture(std::uint64_t stream);
  bool Idle(std::uint64_t stream);
  /// Waits until all streams are idle or the context is lost.
  void Synchronize();
  /// Waits until what is left in the streams is behind kernels, or the context is lost.
  void AwaitWords();
  void Lose(int code, const std::string& fault);
  void Hang() { hung_.store(true); }
  int lost() const { return lost_.load(); }
  std::string fault();
  std::size_t streams();
  /// The largest number of streams that share a connection.
  std::size_t MostPerConnection();

 private:
  struct Stream {
    int priority = 0;
    std::deque<Operation> operations;
    bool busy = false;     // its first operation is a kernel that runs
    bool blocked = false;  // its first operation waits for another stream of its connection
    bool destroyed = false;
    std::size_t connection = 0;
    std::optional<std::vector<Operation>> captured;
  };

  void Run();
  void Advance();
  bool Begin(Stream& stream);
  bool IsBlocked(const Stream& stream) const;
  std::vector<std::size_t> StreamsByConnection() const;
  bool Step();

  const std::function<std::unique_ptr<Runner>()> make_runner_;
  DeviceMemory& memory_;
  const std::size_t connections_;
  std::unique_ptr<Runner> runner_;  // used by thread_ only
  int running_ = 0;                 // the same; number of kernels
  bool open_ = false;               // the same; kernels may use the memory
  bool delayed_ = false;            // the same; an operation waits for its delay
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::uint64_t, Stream> streams_;
  std::uint64_t next_stream_ = 1;
  std::uint64_t next_operation_ = 1;
  std::string fault_;
  std::atomic<int> lost_{0};
  std::atomic<bool> hung_{false};
  std::atomic<bool> news_{false};
  std::atomic<bool> stepping_{false};
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace lagoon::cuda::fake
