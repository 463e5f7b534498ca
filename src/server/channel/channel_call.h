#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "client/channel_layout.h"
#include "server/regions/shared_regions.h"
#include "serving/core/request.h"

namespace lagoon {

/// A request that a client of a channel sends many times. Immutable.
class ChannelCall {
 public:
  /// `json`: the client's words, which the server has copied. `bytes`: of the channel's memory for
  /// tensors, in which all tensors lie. Errors name the model and the tensor: kInvalidArgument, or
  /// kUnimplemented for inputs of BYTES.
  static Result<std::shared_ptr<const ChannelCall>> Parse(std::span<const std::byte> json,
                                                          std::uint64_t bytes);

  /// The request with its tensors from `base` on. Inputs and places lie in `data`, of which
  /// `owner` is the owner. kInvalidArgument: `base` is no multiple of kAlignment, or a tensor would
  /// end beyond `data`.
  Result<InferRequest> RequestAt(std::uint64_t base, std::span<std::byte> data,
                                 std::shared_ptr<const void> owner) const;

  /// Fills `entry` with the answer, and returns how many of its bytes are used. Outputs that do not
  /// lie in place yet are copied there; RequestAt() has taken `base`. kInvalidArgument: an output
  /// is larger than its place. kUnimplemented: it has more than kMostDims dims.
  Result<std::size_t> Write(const InferResponse& response, std::uint64_t base,
                            std::span<std::byte> data, channel::Completion& entry) const;

 private:
  Status TakeParts(const SharedTensors& shared);
  Status TakePart(const RegionPart& part, const std::string& what);
  Status CheckTensors() const;

  InferRequest request_;             // without the data of inputs
  std::vector<RegionPart> inputs_;   // one per input
  std::vector<RegionPart> outputs_;  // one per output
  std::uint64_t bytes_ = 0;
  std::uint64_t extent_ = 0;  // where the last tensor ends
};

/// Fills `entry` with an error, and returns how many bytes of it are used.
std::size_t WriteError(const Error& error, channel::Completion& entry);

}  // namespace lagoon
