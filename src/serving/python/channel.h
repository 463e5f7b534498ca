#pragma once

// Messages between the server and a Python program, over a pair of sockets. A message is a JSON
// object, and the bytes of tensors. Few bytes lie behind the object; more lie in an anonymous file
// (memfd) that goes with the message, so that they are copied once on each side. The server never
// maps such a file: a program that shrinks the file gets an error, where a mapping would end the
// server with SIGBUS.
//
// On the wire: the length of the object's text (4 bytes), 1 if a file comes with it or 0 (4 bytes),
// the number of the tensors' bytes (8 bytes), all little-endian; the text; the bytes, unless they
// are in the file. python/lagoon/backend/worker.py is the other side.

#include <cstddef>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "base/time.h"
#include "serving/python/owned_descriptor.h"

namespace lagoon {

inline constexpr std::size_t kMostInlineBytes = std::size_t{32} << 10;
inline constexpr std::size_t kMostObjectBytes = std::size_t{8} << 20;
inline constexpr std::size_t kMostMessageBytes = std::size_t{4} << 30;

/// A message that has come.
class ProgramMessage {
 public:
  ProgramMessage(nlohmann::json object_in, std::size_t bytes, std::string text,
                 OwnedDescriptor file)
      : object(std::move(object_in)),
        bytes_(bytes),
        text_(std::move(text)),
        file_(std::move(file)) {}

  /// Bytes of its tensors.
  std::size_t bytes() const { return bytes_; }
  /// Copies bytes of the tensors from `offset` on; they must be inside. kInternal: the file is
  /// shorter than the message says.
  Status Read(std::size_t offset, std::span<std::byte> to) const;

  nlohmann::json object;

 private:
  std::size_t bytes_ = 0;
  std::string text_;  // the bytes, unless there is a file
  OwnedDescriptor file_;
};

/// The server's end. One thread at a time.
class ProgramChannel {
 public:
  /// `ended`: is readable once the process at the other end has ended (ProgramProcess::ended());
  /// -1: the channel sees the end of the socket only.
  explicit ProgramChannel(OwnedDescriptor socket, int ended = -1)
      : socket_(std::move(socket)), ended_(ended) {}

  /// A pair of connected sockets: the server's, which does not block, and the program's.
  static Result<std::pair<OwnedDescriptor, OwnedDescriptor>> Pair();

  /// Sends the object and the bytes of `parts`, one behind the other. kUnavailable: the other end
  /// is closed. kDeadlineExceeded: it has not read everything at `until`, and the channel is of no
  /// use any more.
  /// kResourceExhausted: there is no memory for the bytes, or they are too many; nothing was sent.
  Status Send(const nlohmann::json& object, std::span<const std::span<const std::byte>> parts,
              TimePoint until);
  /// The next message. Nothing: `until` has passed, or `wake` (an eventfd, which is read) is ready.
  /// kUnavailable: the other end is closed, or its process has ended. kInvalidArgument: what came
  /// is no message.
  Result<std::optional<ProgramMessage>> Receive(TimePoint until, int wake);

 private:
  Status SendAll(std::span<const std::byte> bytes, int file, TimePoint until);
  Result<std::optional<ProgramMessage>> TakeMessage();
  Status ReadMore();
  bool HasEnded() const;

  OwnedDescriptor socket_;
  int ended_;
  std::string come_;                   // not yet taken
  std::deque<OwnedDescriptor> files_;  // the same
};

/// Waits until one of the descriptors is readable (`socket` and `ended` may be -1), or `until`.
/// Reads `wake`. True: `socket` is readable or closed, or `ended` is readable.
bool AwaitNews(int socket, int ended, int wake, TimePoint until);

}  // namespace lagoon
