#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bench/client/comparator.h"
#include "bench/split/answers.h"
#include "bench/split/scenario.h"

namespace lagoon::bench {

/// ONNX Runtime with a session for each model, which runs one request at a time in order of
/// arrival. One thread.
class FifoSessions {
 public:
  static Result<std::unique_ptr<FifoSessions>> Open(const std::string& zoo,
                                                    const std::vector<std::string>& names,
                                                    const ComparatorOptions& options);

  const std::vector<double>& alone_ms() const { return alone_ms_; }  // by model

  Result<SplitAnswers> Run(std::span<const SplitArrival> arrivals);

 private:
  std::vector<std::unique_ptr<ComparatorProcess>> sessions_;
  std::vector<double> alone_ms_;
};

}  // namespace lagoon::bench
