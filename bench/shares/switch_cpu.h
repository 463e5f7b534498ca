#pragma once

#include "bench/shares/switch.h"
#include "program/open_device.h"

namespace lagoon::bench {

/// The CPU's side of RunSwitch(). Two models of the zoo, compiled once. One thread.
class CpuSwitch {
 public:
  static Result<std::unique_ptr<CpuSwitch>> Open(const SwitchOptions& options);
  ~CpuSwitch();

  /// Two closed loops of each model; real time.
  Result<SwitchRun> Run(const SwitchKind& kind);
  /// Milliseconds from the last answer of the first model to its next one, when all that it has is
  /// freed and made again from the file in between.
  Result<std::vector<double>> Restarts();
  std::uint32_t workers() const { return on_.device->info().units; }

 private:
  struct Model;
  explicit CpuSwitch(const SwitchOptions& options);

  const SwitchOptions& options_;
  // Declared before the device, so that they outlive it: its threads use the models' memory.
  std::vector<std::unique_ptr<Model>> models_;
  ComputeDevice on_;
};

}  // namespace lagoon::bench
