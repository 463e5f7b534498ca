#pragma once

#include <memory>
#include <optional>
#include <span>

#include "server/http/http_infer_codec.h"
#include "server/http/http_message.h"
#include "server/http/json_lane.h"
#include "server/route.h"
#include "serving/core/inference.h"

namespace lagoon {

/// POST .../infer over HTTP: parses, submits, renders. Small JSON is parsed and rendered on the
/// connection's strand, large JSON on the lane; shared memory is read and written on the strand, or
/// on IoPool::one_by_one(); requests are submitted and answers sent on the
/// strand.
class InferHandler {
 public:
  /// All are borrowed. `pool`: the one that runs the connections.
  InferHandler(Inference& core, IoPool& pool, JsonLane& lane, const SharedRegions& regions)
      : core_(core), pool_(pool), lane_(lane), regions_(regions) {}

  void Handle(const Route& route, const HttpRequest& request,
              const std::shared_ptr<HttpReply>& reply);

 private:
  // The parts of a request that are needed after HttpHandler::Handle has returned.
  struct Arrived {
    Route route;
    std::span<const std::byte> body;
    std::optional<std::size_t> json_bytes;  // nullopt: all of `body`
    std::shared_ptr<const void> payload;    // keeps `body` alive
    TimePoint first_byte;
    TimePoint received;
    std::shared_ptr<HttpReply> reply;
    HttpCoding coding = HttpCoding::kNone;  // of the answer
    TraceContext trace = {};
    std::string tenant = {};  // InferRequest::tenant_of_header
  };
  struct Pending;

  Result<HttpInfer> Parse(const Arrived& arrived, std::size_t json_bytes) const;
  void ParseOnLane(Arrived arrived, std::size_t json_bytes);
  Result<HttpInfer> Bound(HttpInfer parsed) const;
  void Submit(const Arrived& arrived, Result<HttpInfer> parsed);
  void SubmitBound(const Arrived& arrived, Result<HttpInfer> parsed);
  void PostAnswer(Pending pending, Result<InferResponse> result);
  void Answer(Pending pending, Result<InferResponse> result);
  void AnswerWritten(Pending pending, Result<InferResponse> result);

  Inference& core_;
  IoPool& pool_;
  JsonLane& lane_;
  const SharedRegions& regions_;
};

}  // namespace lagoon
