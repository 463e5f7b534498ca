#pragma once

#include <map>
#include <string>
#include <vector>

#include "bench/disb_workload.h"
#include "bench/sim/sim_stage.h"

namespace lagoon::bench {

/// Paella 2.1, Figure 2: eight kernels, each one block of 128 threads of 9 registers for 300 us.
SimModel PaellaFigure2Job();

/// Clients on a simulated device with the kernel lists of their models.
struct SimJobs {
  std::string device;  // GPU model
  std::vector<DisbClient> clients;
  std::map<std::string, SimModel> models;  // by DisbClient::model

  /// A workload of DISB.
  static Result<SimJobs> Disb(const std::string& device, const std::string& workload);
  /// `clients` closed loops, which take all models of the device in turn.
  static Result<SimJobs> Loops(const std::string& device, std::size_t clients);
  /// The same with one model.
  static SimJobs Loops(const std::string& device, const SimModel& model, std::size_t clients);

  /// One queue per client. They point into `models`: this object must outlive them.
  std::vector<SimStageQueue> Queues(std::size_t instances = 1) const;
  /// A window of `span`. The arrivals of open loops follow from the clients' loads, the models'
  /// own times and a fixed seed.
  DisbWindow Window(Nanoseconds span) const;
};

}  // namespace lagoon::bench
