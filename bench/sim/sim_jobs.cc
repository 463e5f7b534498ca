#include "bench/sim/sim_jobs.h"

#include <fmt/format.h>

namespace lagoon::bench {
namespace {

void AddLoop(SimJobs& jobs, const SimModel& model) {
  const std::string name(model.statistics.model);
  jobs.clients.push_back(
      {fmt::format("{}.{}", name, jobs.clients.size()), name, JobClass::kBestEffort, {}});
  jobs.models.emplace(name, model);
}

}  // namespace

SimModel PaellaFigure2Job() {
  constexpr std::size_t kKernels = 8;
  SimModelKernel kernel;
  kernel.blocks = 1;
  kernel.time = kernel.block.time = std::chrono::microseconds(300);
  kernel.block.threads = 128;
  kernel.block.registers_per_thread = 9;
  SimModel job;
  job.statistics.device = "gtx1660s";
  job.statistics.model = "figure2";
  job.statistics.kernels = kKernels;
  job.statistics.time = kernel.time * kKernels;
  job.kernels.assign(kKernels, kernel);
  return job;
}

Result<SimJobs> SimJobs::Disb(const std::string& device, const std::string& workload) {
  SimJobs jobs{device, {}, {}};
  LAGOON_ASSIGN_OR_RETURN(const DisbWorkload named,
                          NamedDisbWorkload(workload, DisbScale::kSimulated, 1));
  jobs.clients = named.clients;
  for (const DisbClient& client : jobs.clients) {
    LAGOON_ASSIGN_OR_RETURN(SimModel model, MakeSimModel(device, client.model));
    jobs.models.emplace(client.model, std::move(model));
  }
  return jobs;
}

Result<SimJobs> SimJobs::Loops(const std::string& device, std::size_t clients) {
  std::vector<SimModel> models;
  for (const SimModelStatistics& statistics : SimModelTable()) {
    if (statistics.device != device) continue;
    LAGOON_ASSIGN_OR_RETURN(models.emplace_back(), MakeSimModel(device, statistics.model));
  }
  if (models.empty()) {
    return Fail(ErrorCode::kNotFound, fmt::format("simulated device '{}' has no model", device));
  }
  SimJobs jobs{device, {}, {}};
  for (std::size_t i = 0; i < clients; ++i) AddLoop(jobs, models[i % models.size()]);
  return jobs;
}

SimJobs SimJobs::Loops(const std::string& device, const SimModel& model, std::size_t clients) {
  SimJobs jobs{device, {}, {}};
  for (std::size_t i = 0; i < clients; ++i) AddLoop(jobs, model);
  return jobs;
}

std::vector<SimStageQueue> SimJobs::Queues(std::size_t instances) const {
  std::vector<SimStageQueue> queues;
  for (const DisbClient& client : clients) {
    queues.push_back({client.name, client.job_class, &models.at(client.model), instances});
  }
  return queues;
}

DisbWindow SimJobs::Window(Nanoseconds span) const {
  DisbWindow window{span, {}};
  std::mt19937 random(1);
  for (const DisbClient& client : clients) {
    window.arrivals.emplace_back();
    if (IsClosedLoop(client)) continue;
    const Nanoseconds alone = models.at(client.model).statistics.time;
    window.arrivals.back() = Arrivals(client.load, alone, span, random);
  }
  return window;
}

}  // namespace lagoon::bench
