#include "sched/programs/profile_jobs.h"

#include <fmt/format.h>

#include <optional>
#include <vector>

#include "base/mutex.h"

namespace lagoon {
namespace {

class ProfileClient final : public JobClient {
 public:
  void Finished(const JobResult& result) override {
    const MutexLock lock(mutex_);
    result_ = result;
    ended_.NotifyAll();  // under the lock: then Await() may return and this object be destroyed
  }
  void Sent(std::span<const std::span<const std::byte>> /*outputs*/,
            std::function<void()> taken) override {
    taken();
  }
  JobResult Await() {
    const MutexLock lock(mutex_);
    while (!result_) ended_.Wait(mutex_);
    return *result_;
  }

 private:
  Mutex mutex_;
  CondVar ended_;
  std::optional<JobResult> result_ GUARDED_BY(mutex_);
};

Status RunJob(ProgramHost& host, const Device& device, const JobProfile& profile) {
  ProfileClient client;
  std::vector<void*> outputs(profile.outputs, nullptr);
  JobSpec spec;
  spec.deadline = device.Now() + profile.within;
  spec.inputs = profile.inputs;
  spec.outputs = outputs;
  spec.client = &client;
  LAGOON_RETURN_IF_ERROR(host.Post(spec));
  const JobResult result = client.Await();
  if (result.outcome == Outcome::kDone) return {};
  if (result.error != nullptr) return tl::unexpected<Error>(*result.error);
  if (result.outcome != Outcome::kExpired) {
    return Fail(ErrorCode::kInternal, fmt::format("it ended as '{}'", Name(result.outcome)));
  }
  return Fail(ErrorCode::kDeadlineExceeded,
              fmt::format("it has not ended within {} s",
                          std::chrono::duration<double>(profile.within).count()));
}

}  // namespace

Status ProfileJobs(ProgramHost& host, const Device& device, const JobProfile& profile) {
  for (std::uint32_t run = 1; run <= profile.runs; ++run) {
    if (Status ran = RunJob(host, device, profile); !ran) {
      return Annotate(fmt::format("run {} of {}", run, profile.runs), std::move(ran).error());
    }
  }
  return {};
}

}  // namespace lagoon
