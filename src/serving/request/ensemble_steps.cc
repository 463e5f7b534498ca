#include "serving/request/ensemble_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "serving/request/flight.h"

namespace lagoon {
namespace {

/// What a step's request reads; kept until the step has ended.
struct Payload {
  std::vector<std::shared_ptr<OutputTensor>> made;
  std::shared_ptr<const void> client;
};

}  // namespace

EnsembleSteps::EnsembleSteps(const EnsembleSettings& settings, const Request& request,
                             std::string id, std::vector<ModelLease> models)
    : settings_(settings),
      request_(request),
      id_(std::move(id)),
      tensors_(settings.tensors.size()) {
  steps_.reserve(models.size());
  for (ModelLease& model : models) steps_.emplace_back(std::move(model));
  for (const InputTensor& input : request.asked.inputs) {
    const auto name = std::ranges::find(settings.tensors, input.name);  // BindRequest() knows it
    Tensor& tensor = tensors_[static_cast<std::size_t>(name - settings.tensors.begin())];
    tensor.given = &input;
  }
  for (std::size_t i = 0; i < settings.inputs; ++i) tensors_[i].there = true;
  for (const std::size_t output : request.binding.outputs) {
    tensors_[settings.outputs[output]].answered = true;
  }
  // Readers come behind writers.
  for (std::size_t i = steps_.size(); i-- > 0;) {
    Step& step = steps_[i];
    for (const auto& [name, index] : settings.steps[i].outputs) {
      const Tensor& tensor = tensors_[index];
      if (tensor.answered || tensor.readers > 0) step.asked.push_back(index);
    }
    step.needed = !step.asked.empty();
    if (!step.needed) continue;
    for (const auto& [name, index] : settings.steps[i].inputs) ++tensors_[index].readers;
  }
}

bool EnsembleSteps::IsReady(std::size_t step) const {
  const auto is_there = [&](const EnsembleStep::Link& link) { return tensors_[link.second].there; };
  return steps_[step].needed && !steps_[step].started &&
         std::ranges::all_of(settings_.steps[step].inputs, is_there);
}

std::optional<std::size_t> EnsembleSteps::TakeReady() {
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    if (!IsReady(i)) continue;
    steps_[i].started = true;
    ++running_;
    return i;
  }
  return std::nullopt;
}

InferRequest EnsembleSteps::RequestOf(std::size_t step) {
  const auto payload = std::make_shared<Payload>();
  payload->client = request_.asked.payload;
  InferRequest request;
  request.model = steps_[step].model->model->name();
  request.version = steps_[step].model->model->version();
  request.id = id_;
  request.priority = request_.asked.priority;
  request.sequence = request_.asked.sequence;  // for programs: no step has sequence_batching
  request.parameters = request_.asked.parameters;
  request.tenant_of_parameter = request_.asked.tenant_of_parameter;
  request.tenant_of_header = request_.asked.tenant_of_header;
  request.arrival = Now();
  if (request_.deadline != kNoDeadline) request.timeout = request_.deadline - request.arrival;
  for (const auto& [name, index] : settings_.steps[step].inputs) {
    if (const InputTensor* const given = tensors_[index].given) {
      request.inputs.push_back({name, given->type, given->dims, given->data});
      continue;
    }
    if (index < settings_.inputs) continue;  // the client has left it out, as BindRequest() allows
    const OutputTensor& made = *payload->made.emplace_back(tensors_[index].made);
    request.inputs.push_back({name, made.type, made.dims, {made.data.data(), made.data.size()}});
  }
  for (const auto& [name, index] : settings_.steps[step].outputs) {
    if (std::ranges::find(steps_[step].asked, index) == steps_[step].asked.end()) continue;
    request.outputs.push_back(name);
  }
  request.payload = payload;
  for (const auto& [name, index] : settings_.steps[step].inputs) {
    Tensor& tensor = tensors_[index];
    if (--tensor.readers == 0 && !tensor.answered) tensor.made.reset();
  }
  return request;
}

void EnsembleSteps::Stopped(std::size_t step) {
  steps_[step].handle.reset();
  --running_;
}

Status EnsembleSteps::Take(std::size_t step, InferResponse response) {
  for (const auto& [name, index] : settings_.steps[step].outputs) {
    if (std::ranges::find(steps_[step].asked, index) == steps_[step].asked.end()) continue;
    const auto given = std::ranges::find(response.outputs, name, &OutputTensor::name);
    if (given == response.outputs.end()) {
      return Fail(ErrorCode::kInternal,
                  fmt::format("{} gives no output {}, which the ensemble needs",
                              settings_.steps[step].name, Quoted(name)));
    }
    given->name = settings_.tensors[index];
    tensors_[index].made = std::make_shared<OutputTensor>(std::move(*given));
    tensors_[index].there = true;
  }
  AddTimes(response);
  return {};
}

void EnsembleSteps::AddTimes(const InferResponse& response) {
  const JobResult& job = response.job;
  if (!times_) {
    times_.emplace();
    times_->job = job;
    times_->job.made.clear();
    times_->plan_wait = response.plan_wait;
    times_->plan_wait_between = response.plan_wait_between;
    return;
  }
  JobResult& all = times_->job;
  all.posted = std::min(all.posted, job.posted);
  all.started = std::min(all.started, job.started);
  all.first_block = std::min(all.first_block, job.first_block);
  all.inputs_copied = std::min(all.inputs_copied, job.inputs_copied);
  all.computed = std::max(all.computed, job.computed);
  all.background = job.background;
  all.revocations += job.revocations;
  all.resumed_blocks += job.resumed_blocks;
  all.repeated_kernels += job.repeated_kernels;
  times_->plan_wait += response.plan_wait;
  times_->plan_wait_between += response.plan_wait;
}

std::vector<RequestHandle> EnsembleSteps::Running() const {
  std::vector<RequestHandle> running;
  for (const Step& step : steps_) {
    if (step.handle) running.push_back(*step.handle);
  }
  return running;
}

std::vector<OutputTensor> EnsembleSteps::TakeAnswer() {
  std::vector<OutputTensor> answer;
  for (const std::size_t output : request_.binding.outputs) {
    answer.push_back(std::move(*tensors_[settings_.outputs[output]].made));
  }
  return answer;
}

InferResponse EnsembleSteps::TakeTimes() {
  InferResponse times;
  if (times_) {
    times = std::move(*times_);
    // Steps that run at the same time may wait for their plans at the same time.
    const Nanoseconds computing = times.job.computed - times.job.inputs_copied;
    const Nanoseconds between = std::clamp(computing, Nanoseconds(0), times.plan_wait_between);
    times.plan_wait -= times.plan_wait_between - between;
    times.plan_wait_between = between;
  } else {
    times.job = WithoutJob(Outcome::kFailed, Now());
  }
  times.job.finished = Now();
  return times;
}

}  // namespace lagoon
