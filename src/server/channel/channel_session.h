#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "server/channel/channel_call.h"
#include "server/channel/channel_region.h"
#include "server/io_pool.h"
#include "serving/core/inference.h"

namespace lagoon {

/// What all channels of a server have in progress. Any thread.
class ChannelUse {
 public:
  /// Counts a request until the result is released.
  static std::shared_ptr<void> Hold(const std::shared_ptr<ChannelUse>& use);
  /// Returns false if requests are left at `until`.
  bool WaitIdle(TimePoint until);

  std::atomic<std::uint64_t> bytes{0};  // of all regions, as long as requests use them

 private:
  Mutex mutex_;
  CondVar idle_;
  std::size_t requests_ GUARDED_BY(mutex_) = 0;
};

/// One client of the channel, from its connection to the answer of its last request. On the thread
/// of the edge, unless a method says otherwise.
class ChannelSession final : public NearEnd, public std::enable_shared_from_this<ChannelSession> {
 public:
  static constexpr std::size_t kMostCalls = 256;

  struct Server {
    Inference& core;
    IoPool& pool;
    std::shared_ptr<ChannelUse> use;
    std::uint64_t most_bytes = 0;  // of all regions
  };
  /// Owns `socket`. `server` is borrowed until End().
  ChannelSession(const Server& server, int socket, pid_t process);
  ~ChannelSession() override;

  int socket() const { return socket_; }
  pid_t process() const { return process_; }
  /// Null: the client has not opened its channel.
  ChannelRegion* region() const { return region_.get(); }

  /// Reads one message and answers. False: the client has gone, or breaks the protocol.
  bool OnMessage();
  enum class Served : std::uint8_t { kNothing, kSome, kLie };
  /// Submits what the client has asked for, at most kMostAtOnce requests.
  Served Serve();
  /// Cancels what is in flight. Nothing is taken any more.
  void End();

  void AlmostFinished() override { region_->TellAlmostFinished(); }  // any thread

 private:
  static constexpr int kMostAtOnce = 8;

  /// A request in flight: its place in flights_.
  struct Flight {
    std::atomic<bool> busy{false};
    std::uint64_t tag = 0;
    RequestHandle handle{};
  };
  struct Asked {
    std::size_t flight;
    std::uint64_t tag, base;
    std::shared_ptr<const ChannelCall> call;
    TimePoint arrival;
  };

  Status Open(std::string_view words);
  bool Say(const std::string& text, bool with_descriptors = false) const;
  bool Refuse(const Error& error) const;
  void Submit(const channel::Submission& entry);
  void Cancel(std::uint64_t tag);
  Result<InferRequest> RequestOf(const channel::Submission& entry, TimePoint arrival);
  void Answer(const Asked& asked, Result<InferResponse> result);
  void Complete(const Asked& asked, Result<InferResponse> result);

  const Server server_;
  const int socket_;
  const pid_t process_;
  bool ended_ = false;
  std::unique_ptr<ChannelRegion> region_;
  std::vector<std::shared_ptr<const ChannelCall>> calls_;
  std::array<Flight, channel::kSlots> flights_;
};

}  // namespace lagoon
