#pragma once

// What a client on the same machine and the server share: the words on the socket and the memory of
// a channel. Needs C++20 and Linux, and nothing else of Lagoon. docs/guide/clients.md describes it.
//
// On the socket (SOCK_SEQPACKET, one message each):
//   "open BYTES"         -> "open SLOTS BYTES", with two descriptors: the memory and an eventfd
//   "call JSON"          -> "call NUMBER": a request that will be sent many times. JSON is that of
//                           an inference over HTTP, with "model" and "version" beside the inputs;
//                           every input and named output has "shared_memory_region": "channel".
//   anything that fails  -> "error CODE TEXT", CODE as in gRPC
// The end of the connection ends the channel and cancels what is in flight.

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace lagoon::channel {

inline constexpr std::uint32_t kSlots = 64;  // of each ring, and requests in flight
inline constexpr std::uint64_t kAlignment = 64;
inline constexpr std::size_t kMostMessageBytes = std::size_t{64} << 10;
inline constexpr std::size_t kMostOutputs = 24;
inline constexpr std::size_t kMostDims = 8;

/// One writer each. Numbers of entries wrap; the slot of entry N is N % kSlots.
struct Head {
  alignas(kAlignment) std::atomic<std::uint32_t> submitted;  // by the client
  alignas(kAlignment) std::atomic<std::uint32_t> read;       // completions, by the client
  /// The client sets it before it sleeps on `bell`, and then looks for answers once more.
  alignas(kAlignment) std::atomic<std::uint32_t> client_sleeps;
  alignas(kAlignment) std::atomic<std::uint32_t> taken;      // submissions, by the server
  alignas(kAlignment) std::atomic<std::uint32_t> completed;  // by the server
  /// The server sets it before it sleeps on the eventfd, and then looks at `submitted` once more.
  alignas(kAlignment) std::atomic<std::uint32_t> server_sleeps;
  /// A futex. The server changes it after `completed` or `almost`, and wakes the client if
  /// `client_sleeps`.
  alignas(kAlignment) std::atomic<std::uint32_t> bell;
  std::atomic<std::uint32_t> almost;  // requests that were almost finished, by the server
};

enum class Kind : std::uint32_t { kInfer = 0, kCancel = 1 };

struct Submission {
  std::uint64_t tag;  // the client's; in the completion again. kCancel: which request
  Kind kind;
  std::uint32_t call;        // of "call NUMBER"
  std::uint64_t base;        // added to each offset of the call; a multiple of kAlignment
  std::uint64_t timeout_us;  // from now on; 0: as the call says
  std::uint32_t priority;    // 0: as the call says
  std::uint32_t unused[7];
};
static_assert(sizeof(Submission) == 64);

struct Output {
  std::uint64_t bytes;
  std::uint32_t rank;
  std::uint32_t unused;
  std::int64_t dims[kMostDims];
};

struct Completion {
  std::uint64_t tag;
  std::uint32_t code;        // 0, or an error as in gRPC
  std::uint32_t outputs;     // without an error; in the order of the call
  std::uint32_t text_bytes;  // with an error
  std::uint32_t unused;
  std::uint64_t total_ns;    // from the submission, as the server saw it
  std::uint64_t compute_ns;  // the kernels' part
  std::uint64_t unused_too[3];
  union {
    Output output[kMostOutputs];
    char text[1984];
  };
};
static_assert(sizeof(Completion) == 2048);

inline constexpr std::size_t kSubmissionsAt = 4096;
inline constexpr std::size_t kCompletionsAt = kSubmissionsAt + kSlots * sizeof(Submission);
/// Where the memory for tensors begins.
inline constexpr std::size_t kDataAt = kCompletionsAt + kSlots * sizeof(Completion);
static_assert(sizeof(Head) <= kSubmissionsAt && kDataAt % 4096 == 0);

}  // namespace lagoon::channel
