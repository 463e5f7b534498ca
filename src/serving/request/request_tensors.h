#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "program/parts.h"
#include "sched/job.h"
#include "serving/model/served_model.h"
#include "serving/request/request.h"

namespace lagoon {

/// The tensors of one request, from its inputs to its answer: what each of its jobs reads and
/// writes. One thread at a time.
class RequestTensors {
 public:
  /// Both are borrowed. `request` is used until TakeAnswer().
  RequestTensors(const ServedModel& model, const Request& request) noexcept
      : model_(model),
        request_(request),
        dims_(&request.binding.dims),
        inputs_(&request.binding.inputs) {}

  /// The inputs of the part that comes next, by input of the model or part.
  const std::vector<Dims>& dims() const { return *dims_; }
  std::span<const std::span<const std::byte>> inputs() const { return *inputs_; }

  /// Flight::GiveInput().
  void GiveInput(std::size_t input, const Dims& dims, std::span<const std::byte> data,
                 std::shared_ptr<const void> owner);

  /// Makes room for the outputs of a run of `plan` (InferRequest::room).
  Status TakeRoomFor(const ServedPlan& plan);
  /// Sets the tensors of a job that runs `plan`. They stay valid until the next call.
  Status Bind(const ServedPlan& plan, JobSpec& spec);
  /// The same in a job for several requests: adds the tensors to `parts`, behind those of the
  /// requests before.
  void BindInBatch(const ServedPlan& plan, JobParts& parts);
  /// A job that Bind() has set has run `plan`: what it has computed becomes inputs of the next part
  /// and outputs of the answer. `made`: JobResult::made.
  Status TakeOutputs(const ServedPlan& plan, std::vector<std::shared_ptr<const MadeTensor>> made);
  /// An answer before the last one: those of the program's `outputs` that were asked for.
  std::vector<OutputTensor> CopyOutputs(const ServedPlan& plan,
                                        std::span<const std::span<const std::byte>> outputs) const;
  /// The outputs of the answer, without what padding has added. Called once, at the end.
  /// kUnavailable: InferRequest::room. kResourceExhausted: ProtocolBytes().
  Result<std::vector<OutputTensor>> TakeAnswer();
  /// The same of an ensemble or a program: `made` are outputs that were asked for, in order. A
  /// program may leave some out.
  std::vector<OutputTensor> TakeMade(std::vector<OutputTensor> made);

 private:
  bool Copies(const ServedPlan& plan, std::size_t output) const;
  Status TakeRoom(std::size_t bytes);
  OutputTensor* ResultTensor(std::size_t output);
  bool MayLieInPlace(const ServedPlan& plan, std::size_t output) const;
  std::byte* MemoryOfResult(std::size_t output, const TensorSpec& spec, bool in_place);
  Status TakeResult(const ServedPlan& plan, std::size_t output);
  void Show(std::size_t at, OutputTensor& tensor) const;
  Status WriteStrings();

  const ServedModel& model_;
  const Request& request_;
  // Those of the request, or those of the next part, or the request's with those of the sequence.
  const std::vector<Dims>* dims_;
  const std::vector<std::span<const std::byte>>* inputs_;
  std::vector<Dims> next_dims_;
  std::vector<std::span<const std::byte>> next_inputs_;
  std::vector<std::shared_ptr<const void>> given_;  // memory of what the sequence gives

  std::vector<OutputTensor> answer_;     // one per output that was asked for
  std::vector<const void*> job_inputs_;  // one per plan input
  std::vector<void*> job_outputs_;       // one per plan output; null: nobody asks for it
  PartRun run_;                          // outputs: what job_outputs_ point to
  // Tensors between parts.
  std::vector<std::unique_ptr<std::byte[]>> between_;
  std::vector<std::shared_ptr<const MadeTensor>> made_between_;
  std::size_t room_ = 0;   // bytes of the outputs of the parts so far
  std::size_t taken_ = 0;  // bytes for which room has been taken
};

}  // namespace lagoon
