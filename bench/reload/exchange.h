#pragma once

// One request of `lagoon bench reload`, and what became of it.

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/client/http_connection.h"
#include "plan/tensor.h"
#include "server/grpc/grpc_service.grpc.pb.h"

namespace lagoon::bench {

/// An input of a model, and what the idle server answers to it.
struct SoakSample {
  std::string model;
  Dims dims;
  std::vector<float> input;
  std::vector<float> expected;  // empty: not known yet
};

enum class Protocol : std::uint8_t { kHttpBinary, kHttpJson, kGrpc };

struct RequestWords {
  Protocol protocol = Protocol::kHttpBinary;
  std::string id;
  std::uint64_t timeout_us = 0;  // deadline; 0: none
  std::uint64_t priority = 0;
  /// The client leaves when this has passed without an answer.
  std::optional<Nanoseconds> leaves_after = std::nullopt;
};

enum class Fate : std::uint8_t {
  kRight,
  kWrong,      // another value, or an error that is no refusal
  kRefused,    // 503, UNAVAILABLE
  kExpired,    // 504, DEADLINE_EXCEEDED, of a request with a deadline
  kCancelled,  // the client has left
  kLost,       // no answer within kAnswerLimit, or the connection has ended before
  kDoubled,    // the answer to another request
};
inline constexpr std::size_t kFates = 7;
inline constexpr std::array<const char*, kFates> kFateNames = {
    "right", "wrong", "refused", "expired", "cancelled", "lost", "doubled"};

struct Exchanged {
  Fate fate = Fate::kLost;
  std::string problem;        // of a request that is wrong, lost or doubled
  std::vector<float> answer;  // of a right one
  double error = 0;           // relative to the largest expected value
};

inline constexpr std::chrono::seconds kAnswerLimit{60};
/// Answers may differ from those of the idle server by so much, relative to the largest value: the
/// rows of a batch are added up in another order.
inline constexpr double kMostError = 1e-4;

/// A client with a connection of each kind and one request at a time. One thread.
class ExchangeClient {
 public:
  ExchangeClient(int http_port, int grpc_port);
  /// Sends a request and judges its answer.
  Exchanged Ask(const SoakSample& sample, const RequestWords& words);
  /// Posts without a body, as loads and unloads of models are. The status; 0: no answer.
  int Post(const std::string& path);
  /// The requests that the server has not answered, of all models together.
  Result<double> Pending();
  /// Whether an answer without a request has come.
  bool HasMore() { return http_ && http_->HasMore(); }

 private:
  Exchanged AskHttp(const SoakSample& sample, const RequestWords& words);
  Exchanged AskGrpc(const SoakSample& sample, const RequestWords& words);
  Result<HttpAnswer> Exchange(const std::string& request, Nanoseconds limit);

  const int http_port_;
  std::optional<HttpConnection> http_;
  std::unique_ptr<inference::GRPCInferenceService::Stub> grpc_;
};

}  // namespace lagoon::bench
