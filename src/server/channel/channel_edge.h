#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "base/status.h"
#include "base/time.h"
#include "server/channel/channel_session.h"
#include "server/descriptors.h"
#include "server/io_pool.h"
#include "serving/core/inference.h"

namespace lagoon {

/// Clients on the same machine, with requests and tensors in shared memory (client/
/// channel_layout.h). One thread takes the requests of all channels in turn; it sleeps while there
/// are none. Answers are written by the threads that have them.
class ChannelEdge {
 public:
  struct Options {
    std::string path;  // of the socket: only the server's user may connect (mode 0600)
    std::size_t max_channels = 64;
    std::size_t max_channels_of_process = 16;
    std::uint64_t max_bytes = std::uint64_t{4} << 30;  // of all channels
  };

  /// Begins to serve. `core` and `pool` are borrowed. A socket that a dead server has left is
  /// replaced. kAlreadyExists: another server listens there; kInvalidArgument: the path cannot be
  /// used.
  static Result<std::unique_ptr<ChannelEdge>> Start(Inference& core, IoPool& pool,
                                                    const Options& options);
  /// The error that Start() would give now for the path.
  static Status Check(const std::string& path);
  /// Stop(Now()) unless stopped.
  ~ChannelEdge();
  ChannelEdge(const ChannelEdge&) = delete;
  ChannelEdge& operator=(const ChannelEdge&) = delete;

  /// Takes nothing more, waits until `until` for the answers of requests in flight, and cancels the
  /// rest. Returns when all are answered. Call it once.
  void Stop(TimePoint until);

 private:
  ChannelEdge(Inference& core, IoPool& pool, const Options& options, int listener);

  void Run();
  bool ServeAll();
  bool SleepAll();
  void Accept();
  Status CheckRoom(pid_t process) const;
  void OnEvent(std::uint64_t key);
  void Watch(int descriptor, std::uint64_t key, std::uint32_t events) const;
  void Drop(std::uint64_t session);

  const Options options_;
  const ChannelSession::Server server_;
  const int listener_, epoll_, stop_;
  SpareDescriptor spare_;
  // By a number that is never used again. Of the thread.
  std::map<std::uint64_t, std::shared_ptr<ChannelSession>> sessions_;
  std::uint64_t last_session_ = 0;
  bool stopped_ = false;  // of the caller of Stop()
  std::jthread thread_;
};

}  // namespace lagoon
