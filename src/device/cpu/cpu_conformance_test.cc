#include "device/conformance/suite.h"
#include "device/cpu/cpu_device.h"

namespace lagoon::conformance {
namespace {

const DeviceUnderTest kCpu{"Cpu", [](const Needs& needs) {
                             CpuDeviceOptions options;
                             options.workers = needs.units;
                             options.memory_limit_bytes = needs.memory_limit_bytes;
                             return CreateCpuDevice(options);
                           }};

const DeviceUnderTest kBackground{"CpuBackground",
                                  [](const Needs& needs) {
                                    CpuDeviceOptions options;
                                    options.workers = needs.units;
                                    options.memory_limit_bytes = needs.memory_limit_bytes;
                                    options.all_background = true;
                                    return CreateCpuDevice(options);
                                  },
                                  /*prompt=*/false};

INSTANTIATE_TEST_SUITE_P(Cpu, DeviceConformance, ::testing::Values(kCpu, kBackground), DeviceName);

}  // namespace
}  // namespace lagoon::conformance
