#pragma once

#include <cstddef>
#include <memory>

#include "server/http/http_message.h"
#include "server/io_pool.h"
#include "server/route.h"
#include "serving/core/inference.h"

namespace lagoon {

/// Triton's generate extension over HTTP: POST .../generate has one answer, POST
/// .../generate_stream any number of them, each an event (SSE). An error before the first event has
/// a status, a later one is an event.
class GenerateHandler {
 public:
  /// A body is parsed on the connection's strand.
  static constexpr std::size_t kMaxBodyBytes = std::size_t{64} << 10;

  /// Both are borrowed. `pool`: the one that runs the connections.
  GenerateHandler(Inference& core, IoPool& pool) : core_(core), pool_(pool) {}

  void Handle(const Route& route, const HttpRequest& request,
              const std::shared_ptr<HttpReply>& reply);

 private:
  Inference& core_;
  IoPool& pool_;
};

}  // namespace lagoon
