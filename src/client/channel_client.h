#pragma once

// A client of `lagoon serve --channel PATH`: requests and tensors in memory that it shares with the
// server. Needs C++20, Linux and client/channel_layout.h.

#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "client/channel_layout.h"

namespace lagoon::channel {

/// A tensor of a call: `bytes` at `offset`, from the base of each request on.
struct Tensor {
  std::string name;
  std::string datatype = {};             // "FP32"; of inputs
  std::vector<std::int64_t> shape = {};  // of inputs
  std::uint64_t offset = 0;              // a multiple of kAlignment
  std::uint64_t bytes = 0;               // of an output: at most so many
};

struct Answer {
  std::uint64_t tag = 0;
  std::uint32_t code = 0;  // 0, or an error as in gRPC
  std::string error;
  std::vector<Output> outputs;  // in the order of the call
  std::uint64_t total_ns = 0, compute_ns = 0;
};

/// One channel. One thread at a time. Errors are told by a text in `error`.
class Client {
 public:
  /// `bytes`: of memory for tensors. Null: `error` says why.
  static std::unique_ptr<Client> Open(const std::string& path, std::uint64_t bytes,
                                      std::string& error) {
    std::unique_ptr<Client> client(new Client);
    error.clear();
    return client->Begin(path, bytes, error) ? std::move(client) : nullptr;
  }
  ~Client() {
    if (memory_ != nullptr) ::munmap(memory_, kDataAt + bytes_);
    for (const int descriptor : {socket_, doorbell_}) {
      if (descriptor >= 0) ::close(descriptor);
    }
  }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  /// The memory for tensors. The server writes outputs there while requests are in flight.
  std::span<std::byte> data() const { return {memory_ + kDataAt, bytes_}; }

  /// A request that is sent many times. nullopt: `error` says why.
  std::optional<std::uint32_t> Call(const std::string& model, const std::string& version,
                                    std::span<const Tensor> inputs, std::span<const Tensor> outputs,
                                    std::string& error) {
    const std::string reply = Ask("call " + Json(model, version, inputs, outputs), error);
    unsigned call = 0;
    if (std::sscanf(reply.c_str(), "call %u", &call) == 1) return call;
    if (!reply.empty()) error = reply;
    return std::nullopt;
  }

  struct Request {
    std::uint64_t tag = 0;
    std::uint32_t call = 0;
    std::uint64_t base = 0;
    std::uint64_t timeout_us = 0;
    std::uint32_t priority = 0;
  };
  /// Returns false if kSlots requests are in flight or their answers are not read.
  bool Submit(const Request& request) {
    if (in_flight_ >= kSlots) return false;
    Submission entry{};
    entry.tag = request.tag;
    entry.call = request.call;
    entry.base = request.base;
    entry.timeout_us = request.timeout_us;
    entry.priority = request.priority;
    if (!Push(entry)) return false;
    ++in_flight_;
    return true;
  }
  /// Ends the requests with this tag; they are answered (code 1). False: the ring is full.
  bool Cancel(std::uint64_t tag) {
    Submission entry{};
    entry.tag = tag;
    entry.kind = Kind::kCancel;
    return Push(entry);
  }
  /// Requests whose answers were not read.
  std::uint32_t in_flight() const { return in_flight_; }

  /// The next answer; nullopt: none is there.
  bool TryRead(Answer& answer) {
    Head& head = this->head();
    if (head.completed.load(std::memory_order_acquire) == read_) return false;
    const Completion& entry = completions()[read_ % kSlots];
    answer.tag = entry.tag;
    answer.code = entry.code;
    answer.total_ns = entry.total_ns;
    answer.compute_ns = entry.compute_ns;
    answer.error.clear();
    answer.outputs.clear();
    if (entry.code != 0) {
      answer.error.assign(entry.text, std::min<std::size_t>(entry.text_bytes, sizeof(entry.text)));
    } else {
      const std::size_t outputs = std::min<std::size_t>(entry.outputs, kMostOutputs);
      answer.outputs.assign(entry.output, entry.output + outputs);
    }
    head.read.store(++read_, std::memory_order_release);
    almost_ = head.almost.load(std::memory_order_relaxed);  // it was about this answer
    --in_flight_;
    return true;
  }

  enum class Got { kAnswer, kTimeout, kServerGone };
  /// Waits for the next answer: asleep until the server says that one is there or almost, and then
  /// awake for at most kSpin.
  Got Read(Answer& answer, std::chrono::nanoseconds timeout) {
    const auto until = std::chrono::steady_clock::now() + timeout;
    for (;;) {
      if (TryRead(answer)) return Got::kAnswer;
      if (const std::uint32_t almost = head().almost.load(std::memory_order_acquire);
          almost != almost_) {
        almost_ = almost;
        if (Spin(answer)) return Got::kAnswer;
      }
      const auto now = std::chrono::steady_clock::now();
      if (now >= until) return Got::kTimeout;
      if (ServerGone()) return TryRead(answer) ? Got::kAnswer : Got::kServerGone;
      Sleep(std::min<std::chrono::nanoseconds>(until - now, kGlance));
    }
  }

  static constexpr std::chrono::microseconds kSpin{200};
  /// How often a client that sleeps looks whether the server is there.
  static constexpr std::chrono::milliseconds kGlance{100};

 private:
  Client() = default;

  Head& head() const { return *reinterpret_cast<Head*>(memory_); }
  Completion* completions() const {
    return reinterpret_cast<Completion*>(memory_ + kCompletionsAt);
  }

  bool Begin(const std::string& path, std::uint64_t bytes, std::string& error) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof(address.sun_path)) {
      error = "the path of the channel is too long: " + path;
      return false;
    }
    std::memcpy(address.sun_path, path.c_str(), path.size());
    socket_ = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (socket_ < 0 ||
        ::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
      error = path + ": " + std::system_category().message(errno);
      return false;
    }
    int memory = -1;
    const std::string reply = Ask("open " + std::to_string(bytes), error, &memory);
    unsigned slots = 0;
    unsigned long long given = 0;
    const bool right = std::sscanf(reply.c_str(), "open %u %llu", &slots, &given) == 2 &&
                       slots == kSlots && memory >= 0 && doorbell_ >= 0;
    if (right) {
      bytes_ = given;
      void* const at =
          ::mmap(nullptr, kDataAt + bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
      if (at != MAP_FAILED) memory_ = static_cast<std::byte*>(at);
    }
    if (memory >= 0) ::close(memory);
    if (memory_ == nullptr && error.empty()) error = reply.empty() ? "no memory" : reply;
    return memory_ != nullptr;
  }

  // One message and its reply. Empty: `error` says why. `memory`: takes the first descriptor.
  std::string Ask(const std::string& message, std::string& error, int* memory = nullptr) {
    // A server that has refused this client does not listen any more, but has said why.
    if (::send(socket_, message.data(), message.size(), MSG_NOSIGNAL) < 0 && errno != EPIPE) {
      error = "the server does not listen: " + std::system_category().message(errno);
      return {};
    }
    std::string reply(4096, '\0');
    iovec part{reply.data(), reply.size()};
    alignas(cmsghdr) char control[CMSG_SPACE(2 * sizeof(int))] = {};
    msghdr received{};
    received.msg_iov = &part;
    received.msg_iovlen = 1;
    received.msg_control = control;
    received.msg_controllen = sizeof(control);
    ssize_t got = -1;
    // The first call may tell that the server has closed without reading (ECONNRESET); the refusal
    // comes behind.
    for (int resets = 0; got < 0 && resets < 2;) {
      got = ::recvmsg(socket_, &received, MSG_CMSG_CLOEXEC);
      if (got < 0 && errno != EINTR) ++resets;
    }
    if (got <= 0) {
      error = "the server has closed the channel";
      return {};
    }
    reply.resize(static_cast<std::size_t>(got));
    const cmsghdr* const head = CMSG_FIRSTHDR(&received);
    if (memory != nullptr && head != nullptr && head->cmsg_len == CMSG_LEN(2 * sizeof(int))) {
      int descriptors[2];
      std::memcpy(descriptors, CMSG_DATA(head), sizeof(descriptors));
      *memory = descriptors[0];
      doorbell_ = descriptors[1];
    }
    return reply;
  }

  static std::string Quoted(const std::string& text) {
    std::string quoted = "\"";
    for (const char c : text) {
      if (static_cast<unsigned char>(c) < 0x20) {
        char escaped[8];
        std::snprintf(escaped, sizeof(escaped), "\\u%04x", static_cast<unsigned>(c));
        quoted += escaped;
        continue;
      }
      if (c == '"' || c == '\\') quoted += '\\';
      quoted += c;
    }
    return quoted + '"';
  }

  static std::string Place(const Tensor& tensor) {
    return "\"parameters\":{\"shared_memory_region\":\"channel\",\"shared_memory_byte_size\":" +
           std::to_string(tensor.bytes) +
           ",\"shared_memory_offset\":" + std::to_string(tensor.offset) + "}";
  }

  static std::string Json(const std::string& model, const std::string& version,
                          std::span<const Tensor> inputs, std::span<const Tensor> outputs) {
    std::string text =
        "{\"model\":" + Quoted(model) + ",\"version\":" + Quoted(version) + ",\"inputs\":[";
    const char* before = "";
    for (const Tensor& input : inputs) {
      text += before + ("{\"name\":" + Quoted(input.name) +
                        ",\"datatype\":" + Quoted(input.datatype) + ",\"shape\":[");
      const char* comma = "";
      for (const std::int64_t dim : input.shape) {
        text += comma + std::to_string(dim);
        comma = ",";
      }
      text += "]," + Place(input) + "}";
      before = ",";
    }
    text += "],\"outputs\":[";
    before = "";
    for (const Tensor& output : outputs) {
      text += before + ("{\"name\":" + Quoted(output.name) + "," + Place(output) + "}");
      before = ",";
    }
    return text + "]}";
  }

  bool Push(const Submission& entry) {
    Head& head = this->head();
    if (submitted_ - head.taken.load(std::memory_order_acquire) >= kSlots) return false;
    auto* const entries = reinterpret_cast<Submission*>(memory_ + kSubmissionsAt);
    std::memcpy(&entries[submitted_ % kSlots], &entry, sizeof(entry));
    head.submitted.store(++submitted_, std::memory_order_release);
    // With the fence of the server: it sees the entry, or this thread that it sleeps.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (head.server_sleeps.load(std::memory_order_relaxed) == 0) return true;
    const std::uint64_t one = 1;
    while (::write(doorbell_, &one, sizeof(one)) < 0 && errno == EINTR) {
    }
    return true;
  }

  bool Spin(Answer& answer) {
    const auto until = std::chrono::steady_clock::now() + kSpin;
    do {
      if (TryRead(answer)) return true;
      std::this_thread::yield();
    } while (std::chrono::steady_clock::now() < until);
    return false;
  }

  void Sleep(std::chrono::nanoseconds time) {
    Head& head = this->head();
    head.client_sleeps.store(1, std::memory_order_relaxed);
    // With the fence of the server: it sees that this thread sleeps, or this thread its news.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    const std::uint32_t bell = head.bell.load(std::memory_order_acquire);
    if (head.completed.load(std::memory_order_acquire) == read_ &&
        head.almost.load(std::memory_order_acquire) == almost_) {
      const timespec most{time.count() / 1'000'000'000, time.count() % 1'000'000'000};
      ::syscall(SYS_futex, &head.bell, FUTEX_WAIT, bell, &most, nullptr, 0);
    }
    head.client_sleeps.store(0, std::memory_order_relaxed);
  }

  bool ServerGone() const {
    pollfd look{socket_, 0, 0};
    return ::poll(&look, 1, 0) > 0 && (look.revents & (POLLHUP | POLLERR)) != 0;
  }

  int socket_ = -1, doorbell_ = -1;
  std::byte* memory_ = nullptr;
  std::uint64_t bytes_ = 0;
  std::uint32_t submitted_ = 0, read_ = 0, almost_ = 0, in_flight_ = 0;
};

}  // namespace lagoon::channel
