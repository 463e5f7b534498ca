#include "ort/factory.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <limits>
#include <memory>
#include <string>
#include <string_view>

#include "ort/api.h"
#include "ort/host.h"
#include "ort/provider.h"

namespace lagoon::plugin {

Api& TheApi() {
  static Api& api = *new Api;
  return api;
}

Table& TheEpApi() {
  static Table& table = *new Table;
  return table;
}

int& TheOrtMinor() {
  static int minor = 0;
  return minor;
}

Failed AsFailed(const Error& error) {
  StatusCode code = kFail;
  if (error.code == ErrorCode::kInvalidArgument || error.code == ErrorCode::kNotFound) {
    code = kInvalidArgument;
  } else if (error.code == ErrorCode::kUnimplemented) {
    code = kNotImplemented;
  }
  std::string name(Name(error.code));
  std::ranges::replace(name, '_', ' ');  // as the codes of runs
  return {code, fmt::format("lagoon: {}: {}", name, error.message)};
}

namespace {

std::atomic<int> factories_alive{0};

// A device for each CPU that ONNX Runtime found: there is one.
AbiStatus* GetDevices(Factory* factory, const HardwareDevice* const* devices, std::size_t count,
                      EpDevice** to, std::size_t most, std::size_t* made) {
  return Guarded([&] {
    *made = 0;
    for (std::size_t i = 0; i < count && *made < most; ++i) {
      if (TheApi().table().Call<DeviceType>(devices[i]) != 0) continue;
      TheApi().Check(TheEpApi().Call<CreateEpDevice>(
          factory, devices[i], static_cast<const KeyValues*>(nullptr),
          static_cast<const KeyValues*>(nullptr), &to[*made]));
      ++*made;
    }
  });
}

void FillFactory(Factory& factory) {
  factory.get_name = [](const Factory*) { return ProviderName(); };
  factory.get_vendor = [](const Factory*) { return "Lagoon"; };
  factory.get_devices = GetDevices;
  factory.create_ep = [](Factory*, const HardwareDevice* const*, const KeyValues* const*,
                         std::size_t, const SessionOptions* options, const Logger* logger,
                         Ep** made) {
    return Guarded([&] { *made = CreateProvider(options, logger); });
  };
  factory.release_ep = [](Factory*, Ep* ep) { ReleaseProvider(ep); };
  factory.get_vendor_id = [](const Factory*) { return std::uint32_t{0}; };
  factory.get_version = [](const Factory*) { return LAGOON_ORT_VERSION; };
  // Tensors lie in ONNX Runtime's own memory.
  factory.create_allocator = [](Factory*, const MemoryInfo*, const KeyValues*,
                                void** allocator) -> AbiStatus* {
    *allocator = nullptr;
    return nullptr;
  };
  factory.release_allocator = [](Factory*, void*) {};
  factory.create_data_transfer = [](Factory*, void** transfer) -> AbiStatus* {
    *transfer = nullptr;
    return nullptr;
  };
  factory.is_stream_aware = [](const Factory*) { return false; };
}

// The oldest table has the function that makes a AbiStatus at the same place.
AbiStatus* Refuse(const ApiBase& base, const std::string& why) {
  const void* const* oldest = base.get_api(1);
  if (oldest == nullptr) return nullptr;
  return Table(oldest).Call<CreateStatus>(int{kNotImplemented}, ("lagoon: " + why).c_str());
}

int MinorOf(std::string_view version) {
  int minor = std::numeric_limits<int>::max();
  if (!version.starts_with("1.")) return minor;
  version.remove_prefix(2);
  std::from_chars(version.data(), version.data() + version.size(), minor);
  return minor;
}

std::string TooOld(const ApiBase& base) {
  const char* version = base.version == nullptr ? nullptr : base.version();
  return fmt::format(
      "the plug-in needs version {} of the ABI of ONNX Runtime, which 1.{} and newer "
      "have; this is ONNX Runtime {}",
      kAbiVersion, kAbiVersion, version == nullptr ? "of unknown version" : version);
}

}  // namespace
}  // namespace lagoon::plugin

using lagoon::plugin::AbiStatus;
using lagoon::plugin::ApiBase;
using lagoon::plugin::Factory;

// NOLINTBEGIN(readability-identifier-naming)
extern "C" __attribute__((visibility("default"))) AbiStatus* CreateEpFactories(
    const char* /*registered_as*/, const ApiBase* base, const lagoon::plugin::Logger* /*logger*/,
    Factory** factories, std::size_t most, std::size_t* made) {
  using namespace lagoon::plugin;
  *made = 0;
  const void* const* table = base->get_api(kAbiVersion);
  if (table == nullptr) return Refuse(*base, TooOld(*base));
  if (factories_alive.load() > 0 && !TheApi().table().Is(table)) {
    // Objects of one ONNX Runtime must not reach the other.
    return Refuse(*base, "the plug-in is registered with another ONNX Runtime of this process");
  }
  if (!TheApi().table().Is(table)) {
    TheApi() = Api(Table(table));
    TheOrtMinor() = MinorOf(base->version == nullptr ? "" : base->version());
  }
  return Guarded([&] {
    if (most < 1) throw Failed{kFail, "lagoon: ONNX Runtime has no room for a factory"};
    const void* const* ep_table = TheApi().table().Call<GetEpApi>();
    if (ep_table == nullptr) {
      throw Failed{kNotImplemented, "lagoon: this ONNX Runtime takes no execution providers"};
    }
    TheEpApi() = Table(ep_table);
    auto factory = std::make_unique<Factory>();
    FillFactory(*factory);
    factories[0] = factory.release();
    factories_alive.fetch_add(1);
    *made = 1;
  });
}

extern "C" __attribute__((visibility("default"))) AbiStatus* ReleaseEpFactory(Factory* factory) {
  lagoon::plugin::factories_alive.fetch_sub(1);
  delete factory;
  return nullptr;
}

extern "C" __attribute__((visibility("default"))) void LagoonOrtTotals(std::uint64_t totals[3]) {
  const lagoon::LocalDevice* device = lagoon::plugin::DeviceOfProcess();
  totals[0] = totals[1] = totals[2] = 0;
  if (device == nullptr) return;
  const lagoon::LocalDeviceStatistics statistics = device->Statistics();
  totals[0] = statistics.runs;
  totals[1] = statistics.dispatcher.revocations;
  totals[2] = statistics.in_flight;
}
// NOLINTEND(readability-identifier-naming)
