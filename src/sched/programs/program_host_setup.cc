// How a program is set up.

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <utility>

#include "plan/kept.h"
#include "sched/programs/program_host_impl.h"

namespace lagoon {
namespace {

// Most kernels and copies of all jobs of a host that run at once. Other active ones wait.
constexpr std::size_t kPlaces = 16;

// The plan of the instances of a host's queue. It never runs, so that its instances need no arena:
// only its names are shown to people.
std::shared_ptr<const LoadedPlan> PlacePlan(const std::string& name) {
  auto loaded = std::make_shared<LoadedPlan>();
  loaded->plan.model = name;
  PlanOp& op = loaded->plan.ops.emplace_back();
  op.name = op.kernel_name = "kernel";
  op.blocks = 1;
  return loaded;
}

// A block fills as much as a chunk of a copy.
bool FillBody(const void* args, std::uint32_t block, BlockContext& /*ctx*/) {
  const auto& fill = *static_cast<const FillArgs*>(args);
  const std::size_t begin = std::size_t{block} * kCopyChunkBytes;
  if (begin < fill.bytes) {
    std::memset(fill.to + begin, fill.value, std::min(kCopyChunkBytes, fill.bytes - begin));
  }
  return true;
}

}  // namespace

Status ProgramHostImpl::Open(ProgramHostOptions options_in, std::unique_ptr<JobProgram> program,
                             Device& device_in, Dispatcher& dispatcher_in) {
  options = std::move(options_in);
  program_ = std::move(program);
  device = &device_in;
  dispatcher = &dispatcher_in;
  copy_costs = &no_costs_;
  LAGOON_ASSIGN_OR_RETURN(fill, device->Load({"fill", FillBody}, {}));
  for (const ProgramModel& hosted : options.models) {
    JobModel& model = models.emplace_back();
    model.index = static_cast<std::uint32_t>(models.size() - 1);
    const Plan& plan = hosted.loaded->plan;
    model.standalone = plan.standalone;
    for (const PlanTensor& input : plan.inputs) model.inputs.push_back(input.spec);
    for (const PlanTensor& output : plan.outputs) {
      model.outputs.push_back(output.spec);
      model.replaces.push_back(ReplacedInput(plan, output));
    }
  }
  if (Status status = Initialise(); !status) {
    return Annotate(fmt::format("job program '{}'", options.name), std::move(status).error());
  }
  QueueOptions places;
  places.name = options.name;
  places.job_class = options.job_class;
  const std::shared_ptr<const LoadedPlan> plan = PlacePlan(options.name);
  for (std::size_t i = 0; i < kPlaces; ++i) {
    places.instances.push_back(places_.emplace_back(Instance::CreateOver(nullptr, plan)).get());
  }
  places.max_pending = options.max_jobs * JobContext::kMaxStreams;  // most active operations
  LAGOON_ASSIGN_OR_RETURN(queue, dispatcher->AddQueue(std::move(places)));
  current_ = std::make_shared<ProgramThread>();
  {
    const MutexLock lock(link_->mutex);
    link_->host = this;
  }
  if (options.on_callers_thread) return {};
  StartThread();
  watch_ = std::jthread([this](const std::stop_token& stop) { Watch(stop); });
  return {};
}

Status ProgramHostImpl::Initialise() {
  try {
    return program_->Init(*this);
  } catch (const std::exception& error) {
    return Fail(ErrorCode::kInternal, fmt::format("Init() threw: {}", error.what()));
  } catch (...) {
    return Fail(ErrorCode::kInternal, "Init() threw something that is not a std::exception");
  }
}

Result<KernelHandle> ProgramHostImpl::LoadKernel(const std::string& name, Body body,
                                                 const KernelSpec& spec) {
  if (name.empty() || body == nullptr) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("kernel '{}' has no {}", name, name.empty() ? "name" : "body"));
  }
  LAGOON_ASSIGN_OR_RETURN(const KernelHandle kernel, device->Load({name, body}, spec));
  kernels_.emplace(kernel, spec);
  return kernel;
}

Result<const JobModel*> ProgramHostImpl::FindModel(const std::string& role) {
  const auto found = std::ranges::find(options.models, role, &ProgramModel::role);
  if (found == options.models.end()) {
    return Fail(ErrorCode::kNotFound,
                fmt::format("no model has the role '{}': name one by the parameter "
                            "'lagoon.model.{}'",
                            role, role));
  }
  return &models[static_cast<std::size_t>(found - options.models.begin())];
}

Result<JobInstance*> ProgramHostImpl::MakeInstance(const JobModel& model) {
  if (model.index >= options.models.size()) {
    return Fail(ErrorCode::kInvalidArgument, fmt::format("there are {} models, and no model {}",
                                                         options.models.size(), model.index));
  }
  const ProgramModel& hosted = options.models[model.index];
  LAGOON_ASSIGN_OR_RETURN(auto instance, Instance::Create(hosted.loaded, *device));
  ReleaseKept(*instance, *device);
  return instances_
      .emplace_back(
          std::make_unique<HostedInstance>(hosted, models[model.index], std::move(instance)))
      .get();
}

std::optional<std::string> ProgramHostImpl::Parameter(const std::string& name) const {
  const auto found = options.parameters.find(name);
  return found == options.parameters.end() ? std::nullopt : std::optional(found->second);
}

CostTable& ProgramHostImpl::CostsOf(KernelHandle kernel, std::uint32_t blocks) {
  std::unique_ptr<CostTable>& costs = costs_[{kernel, blocks}];
  if (costs == nullptr) {
    Plan plan;
    plan.ops.emplace_back();
    costs = std::make_unique<CostTable>(plan);
  }
  return *costs;
}

Result<std::unique_ptr<ProgramHost>> ProgramHost::Create(ProgramHostOptions options,
                                                         std::unique_ptr<JobProgram> program,
                                                         Device& device, Dispatcher& dispatcher) {
  auto host = std::make_unique<ProgramHostImpl>();
  LAGOON_RETURN_IF_ERROR(host->Open(std::move(options), std::move(program), device, dispatcher));
  return host;
}

}  // namespace lagoon
