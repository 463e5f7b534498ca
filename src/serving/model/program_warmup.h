#pragma once

#include <string>

#include "base/status.h"
#include "sched/programs/program_host.h"
#include "serving/config/warmup_settings.h"
#include "serving/model/signature.h"

namespace lagoon {

/// Inputs of a warm-up request, in the order of the signature's inputs.
struct WarmupBytes {
  std::string place;  // for messages: "model_warmup 'name'"
  std::uint32_t runs = 0;
  std::vector<std::string> inputs;
};

/// Fits the requests to a job program. `folder`: the model's, whose folder `warmup` has the files.
/// kInvalidArgument names the request, the input and what does not fit: a name, type, dims or size.
Result<std::vector<WarmupBytes>> FitWarmup(const std::vector<WarmupRequest>& requests,
                                           const std::string& folder, const Signature& signature);

/// Runs the requests on the host, one after the other, so that it knows how many operations its
/// jobs have. Blocks. The error of a run names the request.
Status RunWarmup(const std::vector<WarmupBytes>& requests, const Signature& signature,
                 const Device& device, ProgramHost& host);

}  // namespace lagoon
