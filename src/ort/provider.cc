#include "ort/provider.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "base/heap.h"
#include "ort/api.h"
#include "ort/capability.h"
#include "ort/graph_to_model.h"
#include "ort/host.h"

namespace lagoon::plugin {
namespace {

/// What OnRunStart() leaves for Compute(): ONNX Runtime calls both on one thread, unless the
/// session executes in parallel.
struct PresentRun {
  const Provider* provider = nullptr;
  RunSettings settings;
};
thread_local PresentRun present_run;

// The file without folder and ending; of a model read from memory, the graph's name.
std::string ModelName(const Graph* graph) {
  const std::filesystem::path file = TheApi().Get<GraphModelPath, const char*>(graph);
  return file.empty() ? TheApi().Get<GraphName, const char*>(graph) : file.stem().string();
}

void CheckOk(const Status& status) {
  if (!status) throw AsFailed(status.error());
}

// For reports of bugs: LAGOON_ORT_DUMP=PREFIX writes each claimed graph to PREFIX<name>.onnx.
void Dump(const std::string& name, const Graph* graph) {
  const char* prefix = std::getenv("LAGOON_ORT_DUMP");  // NOLINT(concurrency-mt-unsafe): only read
  if (prefix == nullptr) return;
  const std::string bytes = ConvertGraph(graph, nullptr).bytes;
  std::FILE* file = std::fopen(fmt::format("{}{}.onnx", prefix, name).c_str(), "wb");
  if (file == nullptr) return;
  std::fwrite(bytes.data(), 1, bytes.size(), file);
  std::fclose(file);
}

std::vector<std::pair<std::string, std::string>> EntriesOf(const SessionOptions* options) {
  const Api& api = TheApi();
  KeyValues* owned = api.Get<SessionEntries, KeyValues*>(options);
  const std::unique_ptr<KeyValues, void (*)(KeyValues*)> release(
      owned, [](KeyValues* entries) { TheApi().table().Call<ReleaseKeyValues>(entries); });
  const char* const* keys = nullptr;
  const char* const* values = nullptr;
  std::size_t count = 0;
  api.table().Call<GetKeyValues>(static_cast<const KeyValues*>(owned), &keys, &values, &count);
  std::vector<std::pair<std::string, std::string>> entries;
  for (std::size_t i = 0; i < count; ++i) entries.emplace_back(keys[i], values[i]);
  return entries;
}

/// A subgraph as ONNX Runtime sees it.
struct Compiled final : ComputeInfo {
  Provider* provider = nullptr;
  std::unique_ptr<Subgraph> subgraph;
};

Provider& Of(Ep* ep) { return static_cast<Provider&>(*ep); }

AbiStatus* CompileGraphs(Ep* ep, const Graph** graphs, const Node** fused, std::size_t count,
                         ComputeInfo** infos, Node** /*contexts*/) {
  return Guarded([&] {
    std::vector<std::unique_ptr<Compiled>> all;
    for (std::size_t i = 0; i < count; ++i) {
      auto compiled = std::make_unique<Compiled>();
      compiled->provider = &Of(ep);
      compiled->subgraph = Of(ep).Compile(graphs[i], fused[i]);
      compiled->create_state = [](ComputeInfo* info, ComputeContext*, void** state) -> AbiStatus* {
        *state = info;
        return nullptr;
      };
      compiled->compute = [](ComputeInfo*, void* state, KernelContext* context) {
        return Guarded([&] {
          auto& own = *static_cast<Compiled*>(static_cast<ComputeInfo*>(state));
          own.provider->Compute(*own.subgraph, context);
        });
      };
      compiled->release_state = [](ComputeInfo*, void*) {};
      all.push_back(std::move(compiled));
    }
    for (std::size_t i = 0; i < count; ++i) infos[i] = all[i].release();
  });
}

void ReleaseCompiled(Ep* ep, ComputeInfo** infos, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    auto* compiled = static_cast<Compiled*>(infos[i]);
    if (compiled == nullptr) continue;
    if (InForkedChild()) continue;  // leaks: what the model would tell its device, waits for ever
    Of(ep).Forget(compiled->subgraph.get());
    delete compiled;
  }
}

}  // namespace

const char* ProviderName() { return "LagoonExecutionProvider"; }

Provider::Provider(SessionSettings settings, LocalDevice& device, const Logger* logger)
    : settings_(std::move(settings)), device_(device), logger_(logger) {
  get_name = [](const Ep*) { return ProviderName(); };
  get_capability = [](Ep* ep, const Graph* graph, SupportInfo* info) {
    return Guarded([&] { Of(ep).Claim(graph, info); });
  };
  compile = CompileGraphs;
  release_compute_infos = ReleaseCompiled;
  set_dynamic_options = [](Ep* ep, const char* const* keys, const char* const* values,
                           std::size_t count) {
    return Guarded([&] {
      for (std::size_t i = 0; i < count; ++i) Of(ep).SetDynamic(keys[i], values[i]);
    });
  };
  on_run_start = [](Ep* ep, const RunOptions* options) {
    return Guarded([&] { Of(ep).RunStarts(options); });
  };
  on_run_end = [](Ep*, const RunOptions*, bool) -> AbiStatus* {
    RunEnds();
    return nullptr;
  };
}

void Provider::Log(LogLevel level, const std::string& message) const {
  if (logger_ == nullptr) return;
  const Table& table = TheApi().table();
  // A file name of null crashes ONNX Runtime on some systems.
  AbiStatus* status =
      table.Call<LogMessage>(logger_, static_cast<int>(level), ("lagoon: " + message).c_str(),
                             "lagoon", 0, "LagoonExecutionProvider");
  if (status != nullptr) table.Call<ReleaseStatus>(status);
}

void Provider::Claim(const Graph* graph, SupportInfo* info) {
  const plugin::Claim claim = ChooseNodes(graph, settings_, device_);
  if (!claim.groups.empty()) {
    model_ = ModelName(graph);
    parts_ = claim.groups.size();
  }
  const FusionOptions options;
  for (const std::vector<const Node*>& group : claim.groups) {
    TheApi().Check(TheEpApi().Call<AddNodesToFuse>(info, group.data(), group.size(),
                                                   static_cast<const void*>(&options)));
  }
  if (claim.missing.empty()) return;
  // Nodes that stay with ONNX Runtime run on the caller's thread, beside Lagoon's scheduler.
  Log(claim.claimed * 2 < claim.nodes ? kWarning : kInfo,
      fmt::format(
          "{} of {} nodes run on Lagoon, in {} parts; the others stay with ONNX Runtime: {}",
          claim.claimed, claim.nodes, claim.groups.size(), claim.missing));
  if (!settings_.threads_spin) return;
  settings_.threads_spin = false;  // says it once
  Log(kWarning,
      "threads of the session keep cores busy while they wait for nodes that stay with ONNX "
      "Runtime: set intra_op_num_threads to 1 and session.intra_op.allow_spinning to 0, as "
      "lagoon_ort.options() does");
}

// ONNX Runtime's own name ends with the number of the part: "LagoonExecutionProvider_1094771_0_2".
std::string Provider::NameOf(const Node* fused) const {
  std::string fused_name = TheApi().Get<NodeName, const char*>(fused);
  if (model_.empty()) return fused_name;
  if (parts_ == 1) return model_;
  return fmt::format("{}, part {}", model_, fused_name.substr(fused_name.rfind('_') + 1));
}

std::unique_ptr<Subgraph> Provider::Compile(const Graph* graph, const Node* fused) {
  LocalModelOptions options = settings_.model;
  options.name = NameOf(fused);
  options.warn = [this](const std::string& warning) { Log(kWarning, warning); };
  Dump(options.name, graph);
  const auto weights = std::make_shared<BorrowedWeights>();
  const ConvertedGraph converted = ConvertGraph(graph, weights.get());
  constexpr std::size_t kMuch = std::size_t{1} << 20;
  if (weights->bytes() >= kMuch) memory_left_.store(true);
  auto subgraph =
      std::make_unique<Subgraph>(device_, converted, fused, std::move(options), weights);
  const MutexLock lock(mutex_);
  subgraphs_.push_back(subgraph.get());
  return subgraph;
}

void Provider::Forget(const Subgraph* subgraph) {
  const MutexLock lock(mutex_);
  std::erase(subgraphs_, subgraph);
}

void Provider::SetDynamic(const std::string& key, const std::string& value) {
  const auto each = [&](const auto& set) {
    const MutexLock lock(mutex_);
    for (Subgraph* subgraph : subgraphs_) set(subgraph->model());
  };
  const auto get = [](auto result) {
    if (!result) throw AsFailed(result.error());
    return *result;
  };
  const bool is_workload = key == "ep.dynamic.workload_type";
  if (is_workload || key == "lagoon.class") {
    const JobClass job_class = get((is_workload ? ReadWorkloadType : ReadClass)(key, value));
    each([&](LocalModel& model) { model.SetClass(job_class); });
  } else if (key == "lagoon.deadline_us") {
    const std::int64_t us = get(ReadNumber(key, value, kMostDeadlineUs));
    each([&](LocalModel& model) { model.SetDeadline(std::chrono::microseconds(us)); });
  } else if (key == "lagoon.weight") {
    const double weight = get(ReadPositive(key, value, 1e6));
    each([&](LocalModel& model) { CheckOk(model.SetWeight(weight)); });
  } else if (key == "lagoon.share") {
    const double share = get(ReadPositive(key, value, 1));
    each([&](LocalModel& model) { CheckOk(model.SetShare(share)); });
  } else if (key == "lagoon.scheduler") {
    CheckOk(device_.SwitchScheduler(value));
  } else if (key == "lagoon.trace") {
    CheckOk(device_.WriteTrace(value));
  } else if (key == "lagoon.cancel") {
    CancelRuns(value);
  } else {
    throw Failed{kInvalidArgument,
                 fmt::format("lagoon: there is no dynamic option '{}'; there are lagoon.class, "
                             "lagoon.deadline_us, lagoon.weight, lagoon.share, lagoon.scheduler, "
                             "lagoon.trace, lagoon.cancel and ep.dynamic.workload_type",
                             key)};
  }
}

void Provider::Compute(Subgraph& subgraph, KernelContext* context) {
  RunOrder order;
  if (present_run.provider == this) {
    const RunSettings& run = present_run.settings;
    order.job_class = run.job_class;
    order.due = run.due;
    order.tag = run.tag;
  } else if (!warned_of_threads_.exchange(true)) {
    Log(kWarning,
        "the session runs nodes on threads of its own (ORT_PARALLEL): options of single runs are "
        "not seen, those of the session hold");
  }
  subgraph.Compute(context, order);
}

void Provider::RunStarts(const RunOptions* options) {
  if (memory_left_.load(std::memory_order_relaxed) && memory_left_.exchange(false)) {
    device_.Later([] { ReturnFreedMemory(); });
  }
  present_run = {};
  auto settings = ReadRunSettings(
      [&](const char* key) { return TheApi().table().Call<RunConfigEntry>(options, key); });
  if (!settings) throw AsFailed(settings.error());
  if (!settings->due && settings->deadline.count() > 0) settings->due = Now() + settings->deadline;
  present_run = {this, std::move(*settings)};
}

void Provider::RunEnds() { present_run = {}; }

Ep* CreateProvider(const SessionOptions* options, const Logger* logger) {
  std::vector<Entry> own;
  bool threads_spin = true;
  for (const auto& [key, value] : EntriesOf(options)) {
    if (key == "session.intra_op.allow_spinning") threads_spin = value != "0";
    if (key == "ep.context_enable" && value == "1") {
      throw Failed{kNotImplemented,
                   "lagoon: ep.context_enable is 1, but plans are not kept in files: they are made "
                   "in milliseconds; leave the option out"};
    }
    if (key.starts_with(kSessionPrefix)) own.emplace_back(key.substr(kSessionPrefix.size()), value);
  }
  auto settings = ReadSettings(own);
  if (!settings) throw AsFailed(settings.error());
  settings->session.threads_spin = threads_spin;
  const Result<LocalDevice*> device = OpenDeviceOfProcess(settings->process);
  if (!device) throw AsFailed(device.error());
  return new Provider(std::move(settings->session), **device, logger);
}

void ReleaseProvider(Ep* ep) { delete static_cast<Provider*>(ep); }

}  // namespace lagoon::plugin
