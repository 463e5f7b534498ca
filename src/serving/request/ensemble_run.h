#pragma once

// One request of an ensemble: the requests of its steps.

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "base/time.h"
#include "serving/core/request.h"
#include "serving/request/ensemble_steps.h"
#include "serving/request/flight.h"

namespace lagoon {

/// Runs requests for an ensemble.
class StepRunner {
 public:
  /// As Inference::Infer, for the version that is leased and with the deadline of the whole. Also
  /// while the server drains, as the request of the ensemble was admitted before. Does not throw.
  virtual RequestHandle InferStep(ModelLease model, InferRequest request, TimePoint deadline,
                                  InferCallback callback) = 0;
  virtual void CancelStep(RequestHandle step) = 0;

 protected:
  ~StepRunner() = default;
};

/// Sends a request for each step when what the step reads is there, with the class and the deadline
/// of the ensemble's request. Steps that do not need each other run at the same time. Only steps
/// run that an output needs which the client has asked for. A tensor goes from step to step without
/// a copy, and is freed behind its last reader. After an error, or when the client cancels, the
/// steps that run are cancelled, and the request is answered when they have ended. Any thread may
/// call any method.
class EnsembleRun final : public WaitingPlace {
 public:
  /// `steps`: by step of the ensemble. `flight` owns the run. `runner` outlives it.
  EnsembleRun(Flight& flight, StepRunner& runner, std::vector<ModelLease> steps);
  ~EnsembleRun();

  /// Starts the steps that are ready, and answers the request when all have ended.
  void Advance();
  Kind kind() const override { return nullptr; }
  void Cancel(Flight& flight) override;

 private:
  class Room;
  struct Answer {
    Result<std::vector<OutputTensor>> outputs;
    InferResponse times;
  };

  Result<InferRequest> TakeReady(std::optional<std::size_t>& step) REQUIRES(mutex_);
  ModelLease TakeModel(std::size_t step);
  void Start(std::size_t step, InferRequest request);
  void Ended(std::size_t step, Result<InferResponse> result);
  void Fails(std::size_t step, Error error);
  void CancelSteps();
  void GoOn();
  std::optional<Answer> TakeAnswer() REQUIRES(mutex_);

  Flight& flight_;
  StepRunner& runner_;
  const EnsembleSettings& settings_;
  std::shared_ptr<Room> room_;  // null: the memory of the answer is not counted
  Mutex mutex_;
  EnsembleSteps steps_ GUARDED_BY(mutex_);
  std::optional<Error> error_ GUARDED_BY(mutex_);  // the first one: later ones follow from it
  bool finished_ GUARDED_BY(mutex_) = false;
};

}  // namespace lagoon
