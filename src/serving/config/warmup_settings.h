#pragma once

// model_warmup of a job program: requests that the program gets before its first client.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "plan/tensor.h"
#include "serving/config/model_config.pb.h"

namespace lagoon {

/// Runs of a request that gives no `count`: three, as Paella profiles a job (6).
inline constexpr std::uint32_t kWarmupRuns = 3;
inline constexpr std::uint32_t kMostWarmupRuns = 1000;  // of all requests of a program

struct WarmupInput {
  inference::DataType type = inference::TYPE_INVALID;
  Dims dims;
  std::string file;  // in the model's folder `warmup`; empty: zeros
};

struct WarmupRequest {
  std::string name;  // for messages
  std::uint32_t runs = kWarmupRuns;
  std::map<std::string, WarmupInput> inputs;
};

/// kInvalidArgument and kUnimplemented name the field and the value.
Result<std::vector<WarmupRequest>> ReadWarmup(const inference::ModelConfig& config);

}  // namespace lagoon
