// The simulator passes the suite of all devices. It runs no bodies: when blocks start and end, an
// observer does what the suite's bodies would do.

#include <algorithm>
#include <utility>

#include "device/conformance/suite.h"
#include "device/host/copy_range.h"
#include "sim/device/sim_device.h"

namespace lagoon::conformance {
namespace {

class BodyEffects final : public DeviceObserver {
 public:
  void OnPlaced(const DeviceBlock& block) override {
    if (block.body == CountBody) {
      const auto& count = *static_cast<const CountArgs*>(block.args);
      const int inside = count.inside.fetch_add(1) + 1;
      count.most_inside.store(std::max(inside, count.most_inside.load()));
    } else if (block.body == GateBody) {
      static_cast<const GateArgs*>(block.args)->waiting.fetch_add(1);
    } else if (block.body == LogBody) {
      const auto& log = *static_cast<const LogArgs*>(block.args);
      log.list[log.next->fetch_add(1)] = log.name;
    } else if (block.body == MixBody) {
      StartMix(*static_cast<const MixArgs*>(block.args));
    }
  }

  void OnEnded(const DeviceBlock& block, TimePoint, bool committed) override {
    if (block.copy != nullptr) return CopyChunk(*block.copy, block.tile);
    if (block.body == CountBody) {
      const auto& count = *static_cast<const CountArgs*>(block.args);
      count.inside.fetch_sub(1);
      if (committed) count.runs.fetch_add(1);
    } else if (block.body == MixBody) {
      const auto& mix = *static_cast<const MixArgs*>(block.args);
      if (committed) return WriteMix(mix, block.tile);
      if (mix.left != nullptr) mix.left->fetch_add(1);
    }
  }

 private:
  // If the block makes the check at which a test wants to stop it, it reports so when it starts.
  static void StartMix(const MixArgs& mix) {
    if (mix.check_count == nullptr) return;
    const int before = mix.check_count->fetch_add(mix.checks);
    if (before < mix.stop_at && mix.stop_at <= before + mix.checks) mix.stopped->store(true);
  }

  static void CopyChunk(const Copy& copy, std::uint32_t chunk) {
    const std::size_t begin = std::size_t{chunk} * kCopyChunkBytes;
    CopyRange(copy, begin, std::min(kCopyChunkBytes, copy.bytes - begin));
  }
};

DeviceUnderTest Simulated(const std::string& name, const std::string& gpu, SimAbort abort) {
  return {name, [gpu, abort](const Needs& needs) -> Result<std::unique_ptr<Device>> {
            static BodyEffects effects;
            SimDeviceOptions options;
            LAGOON_ASSIGN_OR_RETURN(options.gpu, LoadGpuModel(gpu));
            options.gpu.constants.units = needs.units;
            options.memory_limit_bytes = needs.memory_limit_bytes;
            options.abort = abort;
            LAGOON_ASSIGN_OR_RETURN(std::unique_ptr<SimDevice> device, SimDevice::Create(options));
            device->SetObserver(&effects);
            return std::unique_ptr<Device>(std::move(device));
          }};
}

INSTANTIATE_TEST_SUITE_P(Sim, DeviceConformance,
                         ::testing::Values(Simulated("Mi50", "mi50", SimAbort::kCheck),
                                           Simulated("T4", "t4", SimAbort::kCheck),
                                           Simulated("H200", "h200", SimAbort::kCheck)),
                         DeviceName);

}  // namespace
}  // namespace lagoon::conformance
