#include "bench/client/onnxruntime_beside.h"

#include <algorithm>
#include <iterator>
#include <thread>

#include "bench/client/schedule_class.h"

namespace lagoon::bench {

bool IsOsSetting(const std::string& word) {
  return std::find(std::begin(kOsSettings), std::end(kOsSettings), word) != std::end(kOsSettings);
}

Status Permitted(const std::string& setting) {
  if (setting == "fifo") return MayEnterFifo();
  if (setting != "cgroup") return {};
  const auto groups = ControlGroups::Make();
  return groups ? Status() : tl::unexpected<Error>(groups.error());
}

Result<std::unique_ptr<OnnxRuntimeBeside>> OnnxRuntimeBeside::Open(const std::string& setting) {
  std::unique_ptr<OnnxRuntimeBeside> opened(new OnnxRuntimeBeside(setting));
  if (setting == "cgroup") {
    LAGOON_ASSIGN_OR_RETURN(opened->groups_, ControlGroups::Make());
  }
  return opened;
}

Status OnnxRuntimeBeside::Add(const std::string& file, bool real_time, ComparatorOptions options) {
  if (options.threads == 0) {
    options.threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  }
  options.spinning = false;
  if (setting_ == "nice19" && !real_time) options.nice = 19;
  if (setting_ == "idle" && !real_time) options.policy = "idle";
  if (setting_ == "fifo" && real_time) options.policy = "fifo";
  LAGOON_ASSIGN_OR_RETURN(auto process, ComparatorProcess::Start(file, options));
  if (groups_ != nullptr) LAGOON_RETURN_IF_ERROR(groups_->Add(process->pid(), real_time));
  processes_.push_back(std::move(process));
  return {};
}

std::size_t BestSetting(const std::vector<SettingShown>& shown) {
  const auto keeps = [](const SettingShown& one) { return one.tail <= kMostTail && !one.late; };
  const auto better = [&](const SettingShown& one, const SettingShown& other) {
    if (keeps(one) != keeps(other)) return keeps(one);
    return keeps(one) ? one.work > other.work : one.tail < other.tail;
  };
  std::size_t best = 0;
  for (std::size_t i = 1; i < shown.size(); ++i) {
    if (better(shown[i], shown[best])) best = i;
  }
  return best;
}

}  // namespace lagoon::bench
