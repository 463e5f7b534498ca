#include "program/profile/profile_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/cache_folder.h"
#include "base/digest.h"
#include "base/json.h"
#include "base/log.h"
#include "kernels/cpu_level.h"
#include "program/profile/versions.h"
#include "program/split/split_shape.h"

namespace lagoon {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

json ToJson(const OpCost& cost) {
  return {{"kernel_ns", cost.kernel.count()}, {"block_ns", cost.block.count()}};
}

OpCost CostFrom(const json& value) {
  return {Nanoseconds(value.at("kernel_ns").get<std::int64_t>()),
          Nanoseconds(value.at("block_ns").get<std::int64_t>())};
}

json ToJson(const PlanOp& op) {
  json value = {{"name", op.name}, {"cost", ToJson(op.cost)}};
  if (op.versions.empty()) return value;
  value["version"] = op.versions[op.version].name;
  for (const OpVersion& version : op.versions) {
    json entry = ToJson(version.cost);
    entry["name"] = version.name;
    entry["blocks"] = version.blocks;
    entry["scratch_bytes"] = version.scratch_bytes;
    value["versions"].push_back(std::move(entry));
  }
  return value;
}

// Drops the characters of the model's name that are not safe in a file name.
fs::path PathOf(const ProfileStore& store, const Plan& plan, const std::string& key) {
  std::string name;
  for (const char c : plan.model) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-') name += c;
  }
  return fs::path(store.folder) / fmt::format("{}-{}.json", name.substr(0, 64), key);
}

tl::unexpected<Error> Unfit(const PlanOp& op, const char* what) {
  return Fail(ErrorCode::kInvalidArgument, fmt::format("op '{}': {}", op.name, what));
}

// Throws json::exception if a field is missing or has another type.
Status ApplyVersions(const json& entry, PlanOp& op) {
  std::vector<OpVersion> kept;
  for (const json& of : entry.at("versions")) {
    const auto found =
        std::find_if(op.versions.begin(), op.versions.end(),
                     [&](const OpVersion& version) { return of.at("name") == version.name; });
    if (found == op.versions.end()) return Unfit(op, "has an unknown version");
    kept.push_back(*found);
    kept.back().cost = CostFrom(of);
  }
  const auto in_use = std::find_if(kept.begin(), kept.end(), [&](const OpVersion& version) {
    return entry.at("version") == version.name;
  });
  if (in_use == kept.end()) return Unfit(op, "its version in use is not among its versions");
  const auto index = static_cast<std::uint32_t>(in_use - kept.begin());
  op.versions = std::move(kept);
  UseVersion(op, index);
  return {};
}

// Throws as ApplyVersions.
Status ApplyParts(const json& document, Plan& plan) {
  plan.part_ends.clear();
  if (!document.contains("part_ends")) return {};
  for (const json& end : document.at("part_ends")) {
    // Any number fits, so that -1 does not become an end.
    const auto number = end.get<std::int64_t>();
    if (number < 1 || number > static_cast<std::int64_t>(plan.ops.size())) {
      return Fail(
          ErrorCode::kInvalidArgument,
          fmt::format("a part ends at op {}, the plan has {} ops", number, plan.ops.size()));
    }
    plan.part_ends.push_back(static_cast<std::uint32_t>(number));
  }
  if (ArePartEnds(plan.part_ends, plan.ops.size())) return {};
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("its parts end at ops {}, which must ascend to {}, the number of ops",
                          fmt::join(plan.part_ends, ", "), plan.ops.size()));
}

// Applies all entries or none. Throws as ApplyVersions.
Result<ProfileFound> Apply(const json& document, bool provisional_too, Plan& plan) {
  if (!provisional_too && document.value("provisional", false)) return ProfileFound::kNone;
  const json& entries = document.at("ops");
  if (entries.size() != plan.ops.size()) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("it has {} ops, the plan {}", entries.size(), plan.ops.size()));
  }
  Plan applied = plan;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    PlanOp& op = applied.ops[i];
    if (entries.at(i).at("name") != op.name) return Unfit(op, "is another one");
    if (!op.versions.empty()) LAGOON_RETURN_IF_ERROR(ApplyVersions(entries.at(i), op));
    op.cost = CostFrom(entries.at(i).at("cost"));
  }
  applied.standalone = Nanoseconds(document.at("standalone_ns").get<std::int64_t>());
  const bool tuned = document.at("tuned").get<bool>();
  LAGOON_RETURN_IF_ERROR(ApplyParts(document, applied));
  plan = std::move(applied);
  return tuned ? ProfileFound::kTuned : ProfileFound::kPlain;
}

Result<ProfileFound> Read(std::istream& file, bool provisional_too, Plan& plan) {
  try {
    return Apply(json::parse(file), provisional_too, plan);
  } catch (const json::exception& error) {
    return Fail(ErrorCode::kInvalidArgument, error.what());
  }
}

}  // namespace

std::string DefaultProfileFolder() { return CacheFolder("profiles"); }

std::string ProfileKey(const Plan& plan, const DeviceInfo& device, const std::string& build,
                       CpuLevel level) {
  std::string text =
      fmt::format("{}\n{}\n{}\n{}\n", build, device.name, device.description, device.units);
  for (const PlanOp& op : plan.ops) {
    text += fmt::format("{}\n{}\n{}\n", op.name, op.kernel_name, op.flops);
    for (const auto* ranges : {&op.reads, &op.writes}) {
      for (const ByteRange& range : *ranges) text += fmt::format("{}\n", range.bytes);
    }
    if (op.versions.empty()) text += fmt::format("{}\n", op.blocks);
    for (const OpVersion& version : op.versions) {
      text += fmt::format("{}\n{}\n", version.name, version.blocks);
    }
  }
  return fmt::format("{}-{:016x}", NameOf(level), Digest(text));
}

Status SaveProfile(const ProfileStore& store, const std::string& key, const Plan& plan,
                   bool tuned) {
  if (store.folder.empty()) return {};
  json document = {{"model", plan.model},  {"key", key},
                   {"build", store.build}, {"target", NameOf(ActiveCpuLevel())},
                   {"tuned", tuned},       {"standalone_ns", plan.standalone.count()},
                   {"ops", json::array()}};
  for (const PlanOp& op : plan.ops) document["ops"].push_back(ToJson(op));
  if (store.provisional) document["provisional"] = true;
  if (!plan.part_ends.empty()) document["part_ends"] = plan.part_ends;

  std::error_code error;
  fs::create_directories(store.folder, error);
  const fs::path path = PathOf(store, plan, key);
  const fs::path partial = fmt::format("{}.{}.partial", path.string(), getpid());
  std::ofstream file(partial);
  file << DumpJson(document, 1) << '\n';
  file.close();
  if (!file) {  // the disk is full, say
    fs::remove(partial, error);
    return Fail(ErrorCode::kInternal, fmt::format("cannot write profile '{}'", path.string()));
  }
  fs::rename(partial, path, error);
  if (error) {
    return Fail(ErrorCode::kInternal,
                fmt::format("cannot write profile '{}': {}", path.string(), error.message()));
  }
  return {};
}

ProfileFound LoadProfile(const ProfileStore& store, const std::string& key, Plan& plan) {
  if (store.folder.empty()) return ProfileFound::kNone;
  const fs::path path = PathOf(store, plan, key);
  std::ifstream file(path);
  if (!file) return ProfileFound::kNone;
  const Result<ProfileFound> found = Read(file, store.provisional, plan);
  if (found) return *found;
  spdlog::warn("profile '{}' is not used: {}", path.string(), found.error().message);
  return ProfileFound::kNone;
}

}  // namespace lagoon
