#include "serving/fleet/open_fleet.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <utility>

#include "base/net/host_port.h"
#include "base/text.h"
#include "serving/model/repository.h"

namespace lagoon {
namespace {

constexpr std::size_t kFewestDevices = 2, kMostDevices = 64;
constexpr std::uint32_t kMostWorkers = 1024;

/// Nothing for a word that names no device.
std::optional<DeviceChoice> ParseDevice(std::string_view word, const DeviceChoice& base) {
  DeviceChoice choice = base;
  choice.name = std::string(word);
  choice.workers = 0;
  if (word == "cpu" || CudaOrdinal(word)) return choice;
  constexpr std::string_view kCpu = "cpu:";
  if (!word.starts_with(kCpu)) return std::nullopt;
  word.remove_prefix(kCpu.size());
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), choice.workers);
  if (error != std::errc() || end != word.data() + word.size()) return std::nullopt;
  if (choice.workers == 0 || choice.workers > kMostWorkers) return std::nullopt;
  choice.name = "cpu";
  return choice;
}

std::int64_t BytesOf(const RepositoryModel& model) {
  namespace fs = std::filesystem;
  std::int64_t most = 0;
  for (const std::int64_t version : model.versions) {
    std::int64_t bytes = 0;
    std::error_code ignored;
    const fs::path folder = fs::path(model.directory) / std::to_string(version);
    for (fs::recursive_directory_iterator at(folder, ignored), end; at != end;
         at.increment(ignored)) {
      const std::uintmax_t size = fs::file_size(at->path(), ignored);
      if (!ignored) bytes += static_cast<std::int64_t>(size);
    }
    most = std::max(most, bytes);
  }
  return 2 * most;
}

std::string NameOf(std::size_t index, const DeviceChoice& choice) {
  const std::string workers = choice.workers > 0 ? fmt::format(":{}", choice.workers) : "";
  return fmt::format("{}/{}{}", index, choice.name, workers);
}

/// The names of the models that each device begins with.
std::vector<std::vector<std::string>> Deal(const std::vector<FleetModel>& models,
                                           std::size_t devices) {
  std::vector<std::vector<std::string>> names(devices);
  if (devices == 0) return names;
  std::vector<std::int64_t> bytes(devices);
  for (const FleetModel& model : models) {
    const auto least = static_cast<std::size_t>(std::ranges::min_element(bytes) - bytes.begin());
    names[least].push_back(model.name);
    bytes[least] += std::max<std::int64_t>(1, model.memory_bytes);
  }
  return names;
}

}  // namespace

Result<FleetWords> ParseFleet(std::string_view words, const DeviceChoice& base) {
  FleetWords fleet;
  if (words == "open") {
    fleet.open = true;
    return fleet;
  }
  std::set<std::string, std::less<>> once;
  const std::string all(words);
  while (true) {
    const std::size_t comma = words.find(',');
    const std::string_view word = words.substr(0, comma);
    const std::optional<DeviceChoice> device = ParseDevice(word, base);
    const bool of_this_machine = word.starts_with("cpu") || word.starts_with("cuda:");
    if (!device && (of_this_machine || !ParseHostPort(word))) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("a fleet has no device {}; say cpu:N with the number of workers, "
                              "cuda:N with the number of a GPU, or HOST:PORT of another server's "
                              "gRPC, separated by commas",
                              Quoted(word)));
    }
    if (!(device && device->name == "cpu") && !once.emplace(word).second) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("the fleet {} names {} twice", Quoted(all), Quoted(word)));
    }
    if (device) {
      fleet.devices.push_back(*device);
    } else {
      fleet.servers.emplace_back(word);
    }
    if (comma == std::string_view::npos) break;
    words.remove_prefix(comma + 1);
  }
  const std::size_t members = fleet.devices.size() + fleet.servers.size();
  const std::size_t fewest = fleet.servers.empty() ? kFewestDevices : 1;
  if (members >= fewest && members <= kMostDevices) return fleet;
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("a fleet has {} to {} devices, {} has {}", kFewestDevices, kMostDevices,
                          Quoted(all), members));
}

Result<std::unique_ptr<FleetCore>> OpenFleet(const CoreOptions& options, const FleetWords& words,
                                             FleetOptions fleet) {
  const std::vector<DeviceChoice>& devices = words.devices;
  fleet.models.clear();
  if (!options.repository.empty() || !devices.empty()) {
    LAGOON_ASSIGN_OR_RETURN(const std::vector<RepositoryModel> models,
                            ScanRepository(options.repository));
    for (const RepositoryModel& model : models) {
      fleet.models.push_back({model.name, BytesOf(model)});
    }
  }
  const std::vector<std::vector<std::string>> names = Deal(fleet.models, devices.size());
  const auto cpus = std::ranges::count(devices, "cpu", &DeviceChoice::name);
  std::vector<FleetMember> members;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    CoreOptions of_device = options;
    of_device.device = devices[i];
    of_device.models = names[i];
    of_device.trace = nullptr;  // a recorder follows one device
    const std::string name = NameOf(i, devices[i]);
    Result<std::unique_ptr<Inference>> core = OpenCore(of_device);
    if (!core) return Annotate(fmt::format("device '{}' of the fleet", name), core.error());
    const auto memory = static_cast<std::int64_t>((*core)->schedulers()->device().memory_bytes);
    FleetMember member;
    member.name = name;
    member.core = *std::move(core);
    member.memory_bytes = devices[i].name == "cpu" ? memory / cpus : memory;
    members.push_back(std::move(member));
  }
  LAGOON_ASSIGN_OR_RETURN(std::unique_ptr<FleetCore> core,
                          FleetCore::Make(std::move(fleet), std::move(members)));
  for (const std::string& address : words.servers) {
    LAGOON_RETURN_IF_ERROR(core->Join({.name = address, .address = address}));
  }
  return core;
}

}  // namespace lagoon
