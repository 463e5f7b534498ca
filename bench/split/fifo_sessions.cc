#include "bench/split/fifo_sessions.h"

#include <thread>

#include "bench/client/bound_model.h"
#include "bench/measure/statistics.h"

namespace lagoon::bench {

Result<std::unique_ptr<FifoSessions>> FifoSessions::Open(const std::string& zoo,
                                                         const std::vector<std::string>& names,
                                                         const ComparatorOptions& options) {
  constexpr int kRuns = 20, kWarmup = 3;
  // A session that is done must not spin on a core that the next session needs.
  ComparatorOptions quiet = options;
  quiet.spinning = false;
  auto all = std::make_unique<FifoSessions>();
  for (const std::string& name : names) {
    LAGOON_ASSIGN_OR_RETURN(all->sessions_.emplace_back(),
                            ComparatorProcess::Start(ModelFile(zoo, name), quiet));
    LAGOON_ASSIGN_OR_RETURN(const std::vector<double> us,
                            all->sessions_.back()->Run(kRuns, kWarmup));
    all->alone_ms_.push_back(Median(us) / 1e3);
  }
  return all;
}

Result<SplitAnswers> FifoSessions::Run(std::span<const SplitArrival> arrivals) {
  SplitAnswers answers(sessions_.size());
  const TimePoint begin = Now();
  for (const SplitArrival& arrival : arrivals) {
    std::this_thread::sleep_until(begin + arrival.at);
    LAGOON_ASSIGN_OR_RETURN(const std::vector<double> us, sessions_[arrival.model]->Run(1, 0));
    answers[arrival.model].latencies_ms.push_back(ToMilliseconds(Now() - begin - arrival.at));
  }
  return answers;
}

}  // namespace lagoon::bench
