#pragma once

#include <grpcpp/support/status.h>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "server/grpc/grpc_call.h"

namespace lagoon {

/// Reads the header of a call, field by field.
class GrpcHeadReader {
 public:
  enum class Coding { kIdentity, kDeflated };  // gzip or zlib data

  explicit GrpcHeadReader(TimePoint first_byte) { head_.first_byte = first_byte; }

  void Add(std::string_view name, std::string_view value);
  /// Counts a field and does not keep it.
  void Count(std::string_view name, std::string_view value);
  /// Once, when the header is complete. An error is the answer to the call; unknown codings and
  /// times that are none are errors.
  grpc::Status End();

  /// The sizes of the fields as HTTP/2 counts them.
  std::size_t bytes() const { return bytes_; }
  /// The status of HTTP for a request that is no call of gRPC; 200: it is one.
  int http_status() const;
  Coding coding() const { return coding_; }
  const GrpcHead& head() const { return head_; }

 private:
  GrpcHead head_;
  std::size_t bytes_ = 0;
  bool is_post_ = false, is_grpc_ = false;
  int traces_ = 0, tenants_ = 0;
  std::string traceparent_, timeout_, coding_name_;
  Coding coding_ = Coding::kIdentity;
};

/// The time of a `grpc-timeout`: at most eight digits and a unit. nullopt: it is none.
std::optional<Nanoseconds> ParseGrpcTimeout(std::string_view text);

/// The message of a status in a trailer: bytes that are not printable ASCII, and '%', as %XX.
std::string PercentEncoded(std::string_view text);

}  // namespace lagoon
