#pragma once

// The steps of one request of an ensemble, and the tensors between them.

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "base/status.h"
#include "serving/core/request.h"
#include "serving/request/loaded_version.h"
#include "serving/request/request.h"

namespace lagoon {

/// Which steps have run, which may run next, and what they read and make. One thread at a time.
class EnsembleSteps {
 public:
  /// `models`: by step. Only those steps are needed that lead to an output that the client has
  /// asked for. `request` is borrowed until the last call of RequestOf() and TakeAnswer(). `id`:
  /// the client's of the request, which its steps have too.
  EnsembleSteps(const EnsembleSettings& settings, const Request& request, std::string id,
                std::vector<ModelLease> models);

  /// A needed step that has not started and whose inputs are there; it counts as running now.
  std::optional<std::size_t> TakeReady();
  /// The request of the step, without `room`, which keeps what it reads. A tensor is let go of
  /// behind its last reader. Once per step, behind TakeReady() and before TakeModel(). Where it
  /// throws, nothing has changed.
  InferRequest RequestOf(std::size_t step);
  ModelLease TakeModel(std::size_t step) { return std::move(steps_[step].model); }
  /// The step has started as the request `handle`.
  void Started(std::size_t step, RequestHandle handle) { steps_[step].handle = handle; }
  /// The step does not run any more, because it has ended or could not start.
  void Stopped(std::size_t step);
  /// Its outputs become tensors that other steps read. kInternal: one that is needed is missing,
  /// which a program may leave out.
  Status Take(std::size_t step, InferResponse response);

  std::size_t running() const { return running_; }
  /// The requests of the steps that run.
  std::vector<RequestHandle> Running() const;
  /// When all have run: the outputs that the client has asked for, in order.
  std::vector<OutputTensor> TakeAnswer();
  /// The stages of the whole, from the first step's start to the last one's end, without outputs.
  InferResponse TakeTimes();

 private:
  struct Tensor {
    const InputTensor* given = nullptr;  // of the client's request
    std::shared_ptr<OutputTensor> made;  // by a step; null: not yet, or let go of
    std::size_t readers = 0;             // needed steps that have not taken it
    bool answered = false;               // it is an output of the answer
    bool there = false;                  // it was given or made
  };
  struct Step {
    explicit Step(ModelLease lease) : model(std::move(lease)) {}

    ModelLease model;
    bool needed = false;
    bool started = false;
    std::optional<RequestHandle> handle;  // while it runs
    std::vector<std::size_t> asked;       // the tensors that it makes, in the order of its outputs
  };

  bool IsReady(std::size_t step) const;
  void AddTimes(const InferResponse& response);

  const EnsembleSettings& settings_;
  const Request& request_;
  const std::string id_;
  std::vector<Step> steps_;
  std::vector<Tensor> tensors_;  // by EnsembleSettings::tensors
  std::size_t running_ = 0;
  std::optional<InferResponse> times_;  // nothing: no step has ended well
};

}  // namespace lagoon
