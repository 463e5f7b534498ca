#pragma once

#include <string>
#include <vector>

#include "base/time.h"
#include "bench/client/input_file.h"
#include "bench/robot/robot.h"

namespace lagoon::bench {

struct RobotModel {
  std::string name;  // unique in a load
  std::string file;
  std::vector<InputFile> inputs;
};

/// The models of a robot and the requests to them, the same for all systems.
struct RobotLoad {
  /// The real-time model first, then the background models.
  std::vector<RobotModel> models;
  RobotCase scenario;

  /// The streams of requests: of each real-time client, then of each background model.
  std::size_t streams() const { return clients() + models.size() - 1; }
  std::size_t clients() const { return static_cast<std::size_t>(scenario.clients); }
  bool RealTime(std::size_t stream) const { return stream < clients(); }
  const RobotModel& ModelOf(std::size_t stream) const {
    return models[RealTime(stream) ? 0 : stream - clients() + 1];
  }

  /// Offsets in microseconds of the arrivals of each real-time client in a window, ascending. The
  /// phase of each client is random.
  std::vector<std::vector<double>> Arrivals(double seconds, std::uint32_t seed) const;
};

/// Reads the models and writes values for their inputs into `folder`. Open sizes are those of
/// `options`, else 480 x 640 for the last two of three or more, 64 for the last of two, and 1.
/// Errors name the file and the input.
Result<RobotLoad> MakeLoad(const RobotOptions& options, const std::string& folder);

}  // namespace lagoon::bench
