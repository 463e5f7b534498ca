#include "local/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/guard.h"
#include "base/text.h"
#include "graph/graph.h"
#include "local/run_guard.h"
#include "plan/strings.h"

namespace lagoon {
namespace {

std::size_t AlignmentOf(DataType type) {
  return type == DataType::kString ? alignof(StringElement) : SizeOf(type);
}

/// Bytes of a tensor; nothing if a dim is negative or the product is too large for memory.
std::optional<std::size_t> BytesOf(DataType type, std::span<const std::int64_t> dims) {
  std::size_t bytes = SizeOf(type);
  for (const std::int64_t dim : dims) {
    if (dim < 0 || __builtin_mul_overflow(bytes, static_cast<std::size_t>(dim), &bytes)) {
      return std::nullopt;
    }
  }
  if (bytes > static_cast<std::size_t>(PTRDIFF_MAX)) return std::nullopt;
  return bytes;
}

Dims ToDims(std::span<const std::int64_t> dims) { return {dims.begin(), dims.end()}; }

}  // namespace

std::string_view Name(WhyLate why) {
  switch (why) {
    case WhyLate::kNot:
      return "not late";
    case WhyLate::kCaller:
      return "caller";
    case WhyLate::kCompiling:
      return "compiling";
    case WhyLate::kQueued:
      return "queued";
    case WhyLate::kRevoking:
      return "revoking";
    case WhyLate::kComputing:
      return "computing";
    case WhyLate::kHost:
      return "host";
  }
  return "unknown";
}

Run::Run(LocalModel& model)
    : model_(model),
      dims_(model.inputs().size()),
      contents_(model.inputs().size()),
      bound_(model.inputs().size()),
      outputs_(model.outputs().size()),
      slot_(std::make_unique<CallerRun>(model.device().dispatcher(), &cancelled_)) {
  for (std::size_t i = 0; i < outputs_.size(); ++i) outputs_[i].type = model.outputs()[i].type;
}

RunCode Run::Refuse(Error error) {
  error_ = std::move(error);
  return CodeOf(error_->code);
}

Error Run::Invalid(const std::string& what) const {
  return {ErrorCode::kInvalidArgument, fmt::format("model '{}': {}", model_.name(), what)};
}

Status Run::CheckRank(const std::string& label, const RunTensor& tensor) const {
  if (tensor.dims.size() <= kMaxRank) return {};
  return tl::unexpected<Error>(Invalid(fmt::format("{} has {} dimensions, at most {} are possible",
                                                   label, tensor.dims.size(), kMaxRank)));
}

Status Run::CheckTensor(const std::string& label, const DeclaredTensor& declared,
                        const RunTensor& tensor) const {
  const auto refuse = [&](const std::string& what) {
    return tl::unexpected<Error>(Invalid(fmt::format("{} {}", label, what)));
  };
  if (tensor.type != declared.type) {
    return refuse(fmt::format("has type {}, the model takes {}", OipName(tensor.type),
                              OipName(declared.type)));
  }
  // Before the sizes are read: where the rank is wrong, there may be fewer.
  if (declared.shape_known && tensor.dims.size() != declared.dims.size()) {
    return refuse(fmt::format("has {} dimensions, the model takes {}", tensor.dims.size(),
                              ToString(declared.dims)));
  }
  LAGOON_RETURN_IF_ERROR(CheckRank(label, tensor));
  const std::optional<std::size_t> bytes = BytesOf(tensor.type, tensor.dims);
  const auto fits = [](std::int64_t of_model, std::int64_t given) {
    return of_model == -1 || of_model == given;
  };
  if (!bytes || (declared.shape_known && !std::ranges::equal(declared.dims, tensor.dims, fits))) {
    return refuse(fmt::format("has shape {}, the model takes {}", ToString(ToDims(tensor.dims)),
                              declared.shape_known ? ToString(declared.dims) : "sizes from 0 on"));
  }
  if (tensor.bytes < *bytes) {
    return refuse(fmt::format("of shape {} has {} bytes, the given memory {}",
                              ToString(ToDims(tensor.dims)), *bytes, tensor.bytes));
  }
  if (*bytes > 0 && tensor.data == nullptr) return refuse("has no memory");
  const std::size_t alignment = AlignmentOf(tensor.type);
  if (reinterpret_cast<std::uintptr_t>(tensor.data) % alignment != 0) {
    return refuse(
        fmt::format("lies at an address that is not a multiple of {}, the size of an "
                    "element",
                    alignment));
  }
  return {};
}

RunCode Run::SetInput(std::size_t input, const RunTensor& tensor) {
  return Guarded([&]() -> Status {
    LAGOON_RETURN_IF_ERROR(BecomeQuiet());
    if (input >= bound_.size()) {
      return tl::unexpected<Error>(
          Invalid(fmt::format("there is no input {}: the model has {}", input, bound_.size())));
    }
    const DeclaredTensor& declared = model_.inputs()[input];
    const bool same = bound_[input] && std::ranges::equal(tensor.dims, dims_[input]);
    const std::size_t alignment = AlignmentOf(declared.type);
    // The path of a run makes no label for messages.
    const bool good = same && tensor.type == declared.type && tensor.data != nullptr &&
                      tensor.bytes >= contents_[input].size() &&
                      reinterpret_cast<std::uintptr_t>(tensor.data) % alignment == 0;
    if (!good) {
      LAGOON_RETURN_IF_ERROR(CheckTensor("input " + Quoted(declared.name), declared, tensor));
    }
    if (!same) {
      dims_[input] = ToDims(tensor.dims);
      shapes_changed_ = true;
    }
    const std::size_t bytes = *BytesOf(tensor.type, tensor.dims);
    contents_[input] = {static_cast<const std::byte*>(tensor.data), bytes};
    bound_[input] = true;
    return {};
  });
}

RunCode Run::SetOutput(std::size_t output, const RunTensor& tensor) {
  return Guarded([&]() -> Status {
    LAGOON_RETURN_IF_ERROR(BecomeQuiet());
    if (output >= outputs_.size()) {
      return tl::unexpected<Error>(
          Invalid(fmt::format("there is no output {}: the model has {}", output, outputs_.size())));
    }
    Output& out = outputs_[output];
    const std::size_t alignment = AlignmentOf(tensor.type);
    if (reinterpret_cast<std::uintptr_t>(tensor.data) % alignment != 0) {
      return tl::unexpected<Error>(Invalid(
          fmt::format("output {} lies at an address that is not a multiple of {}, the size of an "
                      "element",
                      Quoted(model_.outputs()[output].name), alignment)));
    }
    if (tensor.dims.size() > kMaxRank) {
      return CheckRank("output " + Quoted(model_.outputs()[output].name), tensor);
    }
    if (tensor.dims.empty()) {
      out.bound_dims.reset();
    } else if (!out.bound_dims || !std::ranges::equal(*out.bound_dims, tensor.dims)) {
      out.bound_dims = ToDims(tensor.dims);
    }
    out.bound = tensor.data;
    out.bound_bytes = tensor.bytes;
    out.bound_type = tensor.type;
    return {};
  });
}

RunCode Run::Prepare() {
  return Guarded([&]() -> Status {
    LAGOON_RETURN_IF_ERROR(BecomeQuiet());
    if (!Prepared()) LAGOON_RETURN_IF_ERROR(FindPlan());
    ForgetOutputs();
    return {};
  });
}

RunCode Run::Reserve() {
  return Guarded([&]() -> Status {
    LAGOON_RETURN_IF_ERROR(BecomeQuiet());
    if (!Prepared()) LAGOON_RETURN_IF_ERROR(FindPlan());
    ForgetOutputs();
    part_ = first_;
    before_ = nullptr;
    inputs_.reset();
    memory_used_ = 0;
    return BindPart();
  });
}

/// Whether the plan that was found still is the one for what is bound.
bool Run::Prepared() const {
  if (shapes_changed_ || first_.plan == nullptr) return false;
  if (job_class_ != own_class_.value_or(model_.job_class())) return false;
  for (const auto& [input, bytes] : deciding_) {
    const std::span<const std::byte> now = contents_[input];
    if (now.size() != bytes.size() || !std::ranges::equal(now, bytes)) return false;
  }
  return !Outdated(first_.on->plan());
}

Status Run::FindPlan() {
  for (std::size_t i = 0; i < bound_.size(); ++i) {
    if (bound_[i]) continue;
    return tl::unexpected<Error>(
        Invalid(fmt::format("input {} is not bound: give all {} inputs before a run",
                            Quoted(model_.inputs()[i].name), bound_.size())));
  }
  first_ = {};
  job_class_ = own_class_.value_or(model_.job_class());
  LAGOON_ASSIGN_OR_RETURN(first_, model_.PlanFor(nullptr, dims_, contents_, job_class_));
  deciding_.clear();
  const std::vector<std::size_t>& taken = first_.plan->inputs;
  for (std::size_t i = 0; i < contents_.size(); ++i) {
    if (std::ranges::find(taken, i) != taken.end()) continue;
    deciding_.emplace_back(i, std::vector<std::byte>(contents_[i].begin(), contents_[i].end()));
  }
  NoteOutputs();
  const Plan& plan = first_.on->plan();
  one_part_.store(!first_.plan->links.next && !Assumes(plan), std::memory_order_relaxed);
  shapes_changed_ = false;
  return {};
}

/// Those of the last run are not valid any more.
void Run::ForgetOutputs() {
  for (Output& output : outputs_) {
    output.present = false;
    output.at = nullptr;
    if (output.known) continue;
    output.dims.clear();
    output.size = 0;
  }
}

void Run::NoteOutputs() {
  for (Output& output : outputs_) output.known = false;
  ForgetOutputs();
  const PartLinks& links = first_.plan->links;
  const Plan& plan = first_.on->plan();
  for (std::size_t i = 0; i < links.results.size(); ++i) {
    Output& output = outputs_[links.results[i]];
    output.type = plan.outputs[i].spec.type;
    output.known = !plan.outputs[i].made && !links.sizes[i];
    if (!output.known) continue;
    output.dims = plan.outputs[i].spec.dims;
    output.size = plan.outputs[i].spec.bytes();
  }
}

/// Whether the memory that the caller has bound fits the plan.
Status Run::CheckOutputs() const {
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    const Output& output = outputs_[i];
    if (output.bound == nullptr) continue;
    const bool fits = output.known && output.bound_type == output.type &&
                      output.bound_bytes >= output.size &&
                      (!output.bound_dims || *output.bound_dims == output.dims);
    if (fits) continue;
    const std::string label = "output " + Quoted(model_.outputs()[i].name);
    if (!output.known) {
      return Fail(
          ErrorCode::kUnimplemented,
          fmt::format("model '{}': the shape of {} depends on data, so that its size is not "
                      "known before a run: bind no memory, and read it from the run",
                      model_.name(), label));
    }
    if (output.bound_type != output.type) {
      return tl::unexpected<Error>(
          Invalid(fmt::format("{} has type {}, the given memory {}", label, OipName(output.type),
                              OipName(output.bound_type))));
    }
    if (output.bound_dims && *output.bound_dims != output.dims) {
      return tl::unexpected<Error>(
          Invalid(fmt::format("{} has shape {} for these inputs, the given tensor {}", label,
                              ToString(output.dims), ToString(*output.bound_dims))));
    }
    return tl::unexpected<Error>(
        Invalid(fmt::format("{} of shape {} has {} bytes, the given memory {}", label,
                            ToString(output.dims), output.size, output.bound_bytes)));
  }
  return {};
}

/// Memory of the run's own until the next run. The same sizes in the same order get what the run
/// before has had.
void* Run::MemoryFor(std::size_t bytes) {
  if (memory_used_ == memory_.size()) memory_.emplace_back();
  Memory& memory = memory_[memory_used_++];
  if (memory.size < bytes) {
    memory.size = 0;
    memory.bytes = std::make_unique_for_overwrite<std::byte[]>(bytes);
    memory.size = bytes;
  }
  return memory.bytes.get();
}

/// Gives the slot the places of the tensors of `part_`.
Status Run::BindPart() {
  const ServedPlan& served = *part_.plan;
  const PartLinks& links = served.links;
  const Plan& plan = part_.on->plan();
  if (slot_for_ != part_.on) {
    slot_for_ = nullptr;
    const std::vector<const void*> in(plan.inputs.size());
    const std::vector<void*> out(plan.outputs.size());
    JobSpec spec;
    spec.queue = part_.queue;
    spec.plan = part_.on;
    spec.inputs = in;
    spec.outputs = out;
    spec.continues = links.next.has_value();
    spec.continued = inputs_.has_value();
    LAGOON_RETURN_IF_ERROR(slot_->Prepare(spec));
    slot_for_ = part_.on;
  }
  const std::span<const void*> in = slot_->inputs();
  for (std::size_t i = 0; i < in.size(); ++i) {
    const std::size_t input = served.inputs[i];
    in[i] = inputs_ ? (*inputs_)[input].bytes.data() : contents_[input].data();
  }
  const std::span<void*> out = slot_->outputs();
  part_run_.outputs.resize(out.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::size_t bytes = plan.outputs[i].spec.bytes();
    out[i] = nullptr;
    part_run_.outputs[i] = {};
    if (bytes == 0) continue;
    const bool result = i < links.results.size();
    void* const bound = result ? outputs_[links.results[i]].bound : nullptr;
    out[i] = bound != nullptr ? bound : MemoryFor(bytes);
    part_run_.outputs[i] = {static_cast<const std::byte*>(out[i]), bytes};
  }
  return {};
}

std::span<const std::int64_t> Run::OutputDims(std::size_t output) const {
  if (output >= outputs_.size()) return {};
  return outputs_[output].dims;
}

}  // namespace lagoon
