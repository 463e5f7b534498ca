#include "device/cpu/cpu_device.h"

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/thread.h"
#include "device/cpu/worker_device.h"
#include "device/host/machine.h"

namespace lagoon {

Result<std::unique_ptr<Device>> CreateCpuDevice(const CpuDeviceOptions& options) {
  constexpr std::uint32_t kMaxWorkers = 1024;
  const std::vector<int> cores = UsableCores();
  const std::uint32_t workers = options.workers != 0 ? options.workers : UsableCoreCount();
  if (workers > kMaxWorkers) {
    return Fail(ErrorCode::kInvalidArgument, "device 'cpu': " + std::to_string(workers) +
                                                 " workers asked, the limit is " +
                                                 std::to_string(kMaxWorkers));
  }
  if (options.pin && workers > cores.size()) {
    return Fail(ErrorCode::kInvalidArgument, "device 'cpu': cannot pin " + std::to_string(workers) +
                                                 " workers to " + std::to_string(cores.size()) +
                                                 " usable cores");
  }
  auto device = std::make_unique<WorkerDevice>(workers, options);
  LAGOON_RETURN_IF_ERROR(device->Start(options.pin ? std::span(cores) : std::span<const int>()));
  return std::unique_ptr<Device>(std::move(device));
}

bool BackgroundGivesWay() { return ThreadsMayGiveWay(); }

}  // namespace lagoon
