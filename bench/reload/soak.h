#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/random.h"
#include "bench/client/server_process.h"
#include "bench/reload/exchange.h"

namespace lagoon::bench {

/// What became of the requests of a load.
struct SoakCounts {
  std::array<std::uint64_t, kFates> fates{};
  std::vector<double> refusal_ms;  // from the request to the refusal
  std::vector<double> answer_ms;   // of right answers
  double most_error = 0;
  std::vector<std::string> problems;  // the first ones

  std::uint64_t Of(Fate fate) const { return fates[static_cast<std::size_t>(fate)]; }
  std::uint64_t Sent() const;
  void Add(const Exchanged& exchanged, double ms);
  void Join(const SoakCounts& other);
};

/// Mixed requests: the models of reload/models.h; HTTP with binary tensors and with JSON, and gRPC;
/// one row and several; deadlines, lowered priorities, clients that leave. Which ones follow each
/// other depends on the seed only.
class Soak {
 public:
  /// Learns from the idle server what it answers to each sample.
  static Result<std::unique_ptr<Soak>> Make(const ServerProcess& server, std::uint32_t seed);

  /// Sends for so long: `rate_per_s` requests, evenly spaced, by as many clients as that takes (at
  /// most `clients`); 0: each client sends its next request when it has its answer. `watch` is
  /// called about once per second with the part of the time that has passed; if `watch`
  /// returns an error, the load ends.
  Result<SoakCounts> Run(int clients, double rate_per_s, Nanoseconds time,
                         const std::function<Status(double)>& watch);

 private:
  struct Schedule;
  Soak(int http_port, int grpc_port, std::uint32_t seed)
      : http_port_(http_port), grpc_port_(grpc_port), seed_(seed) {}
  Status Learn();
  RequestWords Draw(const SoakSample& sample, Random& random) const;
  void RunClient(int client, Schedule& schedule);

  const int http_port_, grpc_port_;
  const std::uint32_t seed_;
  std::vector<SoakSample> samples_;
  std::atomic<std::uint64_t> last_id_{0};
};

}  // namespace lagoon::bench
