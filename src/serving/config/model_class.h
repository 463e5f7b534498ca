#pragma once

#include "sched/job.h"
#include "serving/config/model_config.pb.h"

namespace lagoon {

/// The class that a model's configuration gives it (optimization.priority).
inline JobClass ClassOf(const inference::ModelConfig& config) {
  return config.optimization().priority() == inference::ModelOptimizationPolicy::PRIORITY_MAX
             ? JobClass::kRealTime
             : JobClass::kBestEffort;
}

}  // namespace lagoon
