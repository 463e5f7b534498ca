#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "serving/core/inference.h"
#include "serving/core/request.h"

namespace lagoon::bench {

/// Time of one request: in total as the client sees it, and by the server's stages.
struct Timing {
  double total_us = 0;
  std::map<std::string, double> stages_us;
};

/// A client of one model over one connection, with one request at a time. One thread.
class InferClient {
 public:
  virtual ~InferClient() = default;
  /// Builds and serialises the request that Infer() sends. This is the client's work and not timed.
  /// Copies the inputs.
  virtual Status Prepare(std::span<const InputTensor> inputs) = 0;
  virtual Result<Timing> Infer() = 0;
};

struct ClientTarget {
  std::string address;
  int port = 0;
  std::string model;
  std::vector<std::string> outputs = {};  // empty: all
  /// Over gRPC only: inputs lie in a region of shared memory, and each of `outputs` is written
  /// there (64 KiB each at most).
  bool shared_memory = false;
};

Result<std::unique_ptr<InferClient>> ConnectHttp(const ClientTarget& target);
Result<std::unique_ptr<InferClient>> ConnectGrpc(const ClientTarget& target);
/// Over the channel at the path `address`; Prepare() opens it.
std::unique_ptr<InferClient> ConnectChannel(const ClientTarget& target);
/// Without an edge. `core` is borrowed.
std::unique_ptr<InferClient> ConnectCore(Inference& core, const ClientTarget& target);

}  // namespace lagoon::bench
