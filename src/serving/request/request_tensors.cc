#include "serving/request/request_tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "base/check.h"
#include "plan/strings.h"

namespace lagoon {

/// The answer's tensor for an output of the model; null if the client does not ask for it.
OutputTensor* RequestTensors::ResultTensor(std::size_t output) {
  const Signature& signature = model_.signature();
  const std::vector<std::size_t>& asked = request_.binding.outputs;
  for (std::size_t i = 0; i < asked.size(); ++i) {
    if (signature.output_index[asked[i]] == output) return &answer_[i];
  }
  return nullptr;
}

/// Whether an output of the plan may be written to memory that the client may change at any time:
/// nothing reads it again.
bool RequestTensors::MayLieInPlace(const ServedPlan& plan, std::size_t output) const {
  const PartLinks& links = plan.links;
  const PlanTensor& tensor = plan.loaded->plan.outputs[output];
  return !request_.asked.places.empty() && !links.next && model_.buckets().empty() &&
         !tensor.made.has_value() && tensor.spec.type != DataType::kString &&
         std::ranges::none_of(links.sizes, [](const auto& sizes) { return sizes.has_value(); });
}

/// The memory of the answer for an output of the model; null if there is none. `in_place`: the
/// memory may be the client's.
std::byte* RequestTensors::MemoryOfResult(std::size_t output, const TensorSpec& spec,
                                          bool in_place) {
  OutputTensor* const tensor = ResultTensor(output);
  // An output that was not asked for stays null in job_outputs_, and costs neither memory nor a
  // copy.
  if (tensor == nullptr) return nullptr;
  tensor->name = spec.name;
  tensor->type = spec.type;
  tensor->dims = spec.dims;
  const auto at = static_cast<std::size_t>(tensor - answer_.data());
  const auto& places = request_.asked.places;
  tensor->in_place = in_place && at < places.size() && spec.bytes() > 0 &&
                     places[at].size() >= spec.bytes() && request_.binding.classes[at] == 0;
  if (tensor->in_place) return places[at].data();
  tensor->data.resize(spec.bytes());  // not filled: the output is copied as a whole
  return tensor->data.data();
}

/// Whether a run of the plan copies the output: into the answer, for the next part, or because it
/// says the dims of another output.
bool RequestTensors::Copies(const ServedPlan& plan, std::size_t output) const {
  const PartLinks& links = plan.links;
  if (output >= links.results.size()) return true;
  const auto asked = [&](std::size_t wanted) {
    return model_.signature().output_index[wanted] == links.results[output];
  };
  const auto is_this = [&](const PartSource& s) { return !s.from_input && s.index == output; };
  return std::ranges::any_of(request_.binding.outputs, asked) ||
         (links.next && std::ranges::any_of(links.next->sources, is_this));
}

void RequestTensors::GiveInput(std::size_t input, const Dims& dims, std::span<const std::byte> data,
                               std::shared_ptr<const void> owner) {
  if (dims_ != &next_dims_) {
    next_dims_ = *dims_;
    next_inputs_ = *inputs_;
    dims_ = &next_dims_;
    inputs_ = &next_inputs_;
  }
  next_dims_[input] = dims;
  next_inputs_[input] = data;
  if (owner != nullptr) given_.push_back(std::move(owner));
}

Status RequestTensors::TakeRoom(std::size_t bytes) {
  AnswerRoom* const room = request_.asked.room.get();
  if (room == nullptr || bytes <= taken_) return {};
  taken_ = bytes;
  Status taken = room->Take(bytes);
  if (!taken) return Annotate(fmt::format("model '{}'", model_.name()), std::move(taken).error());
  return {};
}

Status RequestTensors::TakeRoomFor(const ServedPlan& plan) {
  const std::vector<PlanTensor>& outputs = plan.loaded->plan.outputs;
  std::size_t bytes = room_;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (Copies(plan, i)) bytes += outputs[i].spec.bytes();
  }
  return TakeRoom(bytes);
}

Status RequestTensors::Bind(const ServedPlan& plan, JobSpec& spec) {
  LAGOON_RETURN_IF_ERROR(TakeRoomFor(plan));
  const PartLinks& links = plan.links;
  const std::vector<PlanTensor>& outputs = plan.loaded->plan.outputs;
  job_inputs_.clear();
  for (const std::size_t input : plan.inputs) job_inputs_.push_back((*inputs_)[input].data());
  answer_.resize(request_.binding.outputs.size());
  job_outputs_.assign(outputs.size(), nullptr);
  run_.outputs.assign(outputs.size(), {});
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!Copies(plan, i)) continue;
    const TensorSpec& tensor = outputs[i].spec;
    std::byte* memory = i < links.results.size()
                            ? MemoryOfResult(links.results[i], tensor, MayLieInPlace(plan, i))
                            : nullptr;
    if (tensor.bytes() == 0) continue;  // there is nothing to copy
    if (memory == nullptr) {
      between_.push_back(std::make_unique_for_overwrite<std::byte[]>(tensor.bytes()));
      memory = between_.back().get();
    }
    job_outputs_[i] = memory;
    run_.outputs[i] = {memory, tensor.bytes()};
    room_ += tensor.bytes();
  }
  spec.inputs = job_inputs_;
  spec.outputs = job_outputs_;
  return {};
}

void RequestTensors::BindInBatch(const ServedPlan& plan, JobParts& parts) {
  for (std::size_t i = 0; i < plan.inputs.size(); ++i) {
    const std::span<const std::byte> bytes = (*inputs_)[plan.inputs[i]];
    // A part is of both directions; a job only reads the parts of its inputs.
    parts.inputs[i].push_back({const_cast<std::byte*>(bytes.data()), bytes.size()});
  }
  answer_.resize(request_.binding.outputs.size());
  for (std::size_t i = 0; i < plan.links.results.size(); ++i) {
    TensorSpec spec = plan.loaded->plan.outputs[i].spec;
    spec.dims.front() = request_.rows;
    parts.outputs[i].push_back(
        {MemoryOfResult(plan.links.results[i], spec, MayLieInPlace(plan, i)), spec.bytes()});
  }
}

/// Where the plan does not know the dims: gives the answer's tensor its actual dims.
Status RequestTensors::TakeResult(const ServedPlan& plan, std::size_t output) {
  const PartLinks& links = plan.links;
  const bool made = plan.loaded->plan.outputs[output].made.has_value();
  OutputTensor* const result = ResultTensor(links.results[output]);
  if (result == nullptr || (!made && !links.sizes[output])) return {};
  LAGOON_ASSIGN_OR_RETURN(const HostTensor tensor,
                          PartOutput(links, plan.loaded->plan, run_, output));
  result->dims = tensor.dims;
  if (made) {
    room_ += tensor.bytes.size();
    LAGOON_RETURN_IF_ERROR(TakeRoom(room_));
    result->data.assign(tensor.bytes.begin(), tensor.bytes.end());
  } else {
    result->data.resize(tensor.bytes.size());
  }
  return {};
}

Status RequestTensors::TakeOutputs(const ServedPlan& plan,
                                   std::vector<std::shared_ptr<const MadeTensor>> made) {
  run_.made = std::move(made);
  made_between_.insert(made_between_.end(), run_.made.begin(), run_.made.end());
  const PartLinks& links = plan.links;
  for (std::size_t i = 0; i < links.results.size(); ++i) {
    LAGOON_RETURN_IF_ERROR(TakeResult(plan, i));
  }
  if (!links.next) return {};
  std::vector<HostTensor> inputs;
  for (std::size_t i = 0; i < inputs_->size(); ++i) {
    inputs.push_back({(*dims_)[i], (*inputs_)[i]});
  }
  LAGOON_ASSIGN_OR_RETURN(const std::vector<HostTensor> next,
                          InputsOfNextPart(links, plan.loaded->plan, inputs, run_));
  next_dims_.clear();
  next_inputs_.clear();
  for (const HostTensor& input : next) {
    next_dims_.push_back(input.dims);
    next_inputs_.push_back(input.bytes);
  }
  dims_ = &next_dims_;
  inputs_ = &next_inputs_;
  return {};
}

/// Gives `tensor`, the answer's output number `at`, the form in which the client asked for it.
void RequestTensors::Show(std::size_t at, OutputTensor& tensor) const {
  const Signature& signature = model_.signature();
  const std::size_t output = request_.binding.outputs[at];
  if (const std::optional<Reshape>& reshape = signature.output_reshape[output]) {
    // An engine may have made another shape than the model declares: it stays.
    auto dims = Reshaped(tensor.dims, reshape->model, reshape->client);
    if (dims) tensor.dims = *std::move(dims);
  }
  if (const std::uint32_t count = request_.binding.classes[at]; count != 0) {
    tensor.classes =
        ClassView{count, output < signature.labels.size() ? signature.labels[output] : nullptr,
                  signature.max_batch > 0};
  }
}

std::vector<OutputTensor> RequestTensors::CopyOutputs(
    const ServedPlan& plan, std::span<const std::span<const std::byte>> outputs) const {
  std::vector<OutputTensor> copies;
  const std::vector<std::size_t>& asked = request_.binding.outputs;
  for (std::size_t i = 0; i < asked.size(); ++i) {
    const std::size_t index = model_.signature().output_index[asked[i]];
    const TensorSpec& spec = plan.loaded->plan.outputs[index].spec;
    OutputTensor& copy = copies.emplace_back(OutputTensor{spec.name, spec.type, spec.dims, {}});
    copy.data.assign(outputs[index].begin(), outputs[index].end());
    Show(i, copy);
  }
  return copies;
}

/// Gives the answer's tensors of strings the form that the protocol sends.
Status RequestTensors::WriteStrings() {
  std::size_t bytes = 0;
  for (const OutputTensor& output : answer_) bytes += output.data.size();
  bytes = std::max(bytes, room_);
  for (OutputTensor& output : answer_) {
    if (output.type != DataType::kString) continue;
    const std::span<const std::byte> table(output.data.data(), output.data.size());
    LAGOON_ASSIGN_OR_RETURN(const std::size_t size, ProtocolBytes(table));
    bytes += size;
    LAGOON_RETURN_IF_ERROR(TakeRoom(bytes));
    UnfilledBytes data(size);
    WriteProtocolBytes(table, data.data());
    output.data = std::move(data);
  }
  return {};
}

Result<std::vector<OutputTensor>> RequestTensors::TakeAnswer() {
  const std::vector<std::size_t>& asked = request_.binding.outputs;
  if (!model_.buckets().empty()) {
    for (std::size_t i = 0; i < asked.size(); ++i) {
      model_.buckets().Cut(request_.padding, model_.signature().output_index[asked[i]], answer_[i]);
    }
  }
  LAGOON_RETURN_IF_ERROR(WriteStrings());
  for (std::size_t i = 0; i < asked.size(); ++i) Show(i, answer_[i]);
  return std::move(answer_);
}

std::vector<OutputTensor> RequestTensors::TakeMade(std::vector<OutputTensor> made) {
  const std::vector<std::size_t>& asked = request_.binding.outputs;
  const std::vector<TensorSpec>& declared = model_.signature().outputs;
  std::size_t at = 0;
  for (OutputTensor& tensor : made) {
    while (at < asked.size() && declared[asked[at]].name != tensor.name) ++at;
    LAGOON_CHECK(at < asked.size());
    Show(at++, tensor);
  }
  return made;
}

}  // namespace lagoon
