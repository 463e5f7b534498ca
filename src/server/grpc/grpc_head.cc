#include "server/grpc/grpc_head.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <iterator>

#include "base/text.h"
#include "serving/core/tenant_statistics.h"

namespace lagoon {
namespace {

// What HTTP/2 counts for a field beside its bytes (RFC 9113, 6.5.2).
constexpr std::size_t kFieldOverhead = 32;
constexpr std::string_view kContentType = "application/grpc";
// A longer time is none that matters, and could not be added to the time of now.
constexpr std::chrono::hours kLongest{24 * 365};

/// nullopt: the server cannot read it.
std::optional<GrpcHeadReader::Coding> CodingOf(std::string_view name) {
  if (name.empty() || name == "identity") return GrpcHeadReader::Coding::kIdentity;
  if (name == "gzip" || name == "deflate") return GrpcHeadReader::Coding::kDeflated;
  return std::nullopt;
}

}  // namespace

void GrpcHeadReader::Count(std::string_view name, std::string_view value) {
  bytes_ += name.size() + value.size() + kFieldOverhead;
}

void GrpcHeadReader::Add(std::string_view name, std::string_view value) {
  Count(name, value);
  if (name == ":path") {
    head_.method = value;
  } else if (name == ":method") {
    is_post_ = value == "POST";
  } else if (name == "content-type") {
    // application/grpc+proto is gRPC, application/grpc-web is not.
    const std::string_view rest = value.substr(std::min(value.size(), kContentType.size()));
    is_grpc_ = value.starts_with(kContentType) &&
               (rest.empty() || rest.front() == '+' || rest.front() == ';');
  } else if (name == "grpc-timeout") {
    timeout_ = value;
  } else if (name == "grpc-encoding") {
    coding_name_ = value;
  } else if (name == kTraceparent) {
    ++traces_;
    traceparent_ = value;
  } else if (name == kTenantField) {
    if (tenants_++ > 0) head_.tenant += ',';
    head_.tenant += value;
  }
}

grpc::Status GrpcHeadReader::End() {
  // Two fields of the name are none: it is not clear which one holds.
  if (traces_ == 1) head_.trace = ParseTraceparent(traceparent_);
  if (!timeout_.empty()) {
    const auto timeout = ParseGrpcTimeout(timeout_);
    if (!timeout) {
      return {grpc::StatusCode::INVALID_ARGUMENT,
              fmt::format("grpc-timeout is {}, which is no time", Quoted(timeout_))};
    }
    head_.deadline = head_.first_byte + *timeout;
  }
  const auto coding = CodingOf(coding_name_);
  if (!coding) {
    return {grpc::StatusCode::UNIMPLEMENTED,
            fmt::format("grpc-encoding is {}; gzip, deflate and identity are served",
                        Quoted(coding_name_))};
  }
  coding_ = *coding;
  return grpc::Status::OK;
}

int GrpcHeadReader::http_status() const {
  if (!is_post_) return 405;
  return is_grpc_ ? 200 : 415;
}

std::optional<Nanoseconds> ParseGrpcTimeout(std::string_view text) {
  constexpr std::size_t kMostDigits = 8;
  if (text.size() < 2 || text.size() > kMostDigits + 1) return std::nullopt;
  std::int64_t count = 0;
  const char* const unit = text.data() + text.size() - 1;
  const auto parsed = std::from_chars(text.data(), unit, count);
  if (parsed.ec != std::errc() || parsed.ptr != unit || count < 0) return std::nullopt;
  const auto of = [count](auto one) { return std::min(count, kLongest / one) * Nanoseconds(one); };
  switch (*unit) {
    case 'H':
      return of(std::chrono::hours(1));
    case 'M':
      return of(std::chrono::minutes(1));
    case 'S':
      return of(std::chrono::seconds(1));
    case 'm':
      return of(std::chrono::milliseconds(1));
    case 'u':
      return of(std::chrono::microseconds(1));
    case 'n':
      return Nanoseconds(count);
    default:
      return std::nullopt;
  }
}

std::string PercentEncoded(std::string_view text) {
  std::string encoded;
  for (const char c : text) {
    if (c >= ' ' && c <= '~' && c != '%') {
      encoded += c;
    } else {
      fmt::format_to(std::back_inserter(encoded), "%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return encoded;
}

}  // namespace lagoon
