#include "serving/request/ensemble_run.h"

#include <utility>

#include "base/guard.h"

namespace lagoon {

/// Sums what the steps take of the room of the answer: each counts its own bytes.
class EnsembleRun::Room {
 public:
  explicit Room(std::shared_ptr<AnswerRoom> whole) : whole_(std::move(whole)) {}

  /// The room of one step.
  static std::shared_ptr<AnswerRoom> Part(std::shared_ptr<Room> room) {
    return std::make_shared<PartRoom>(std::move(room));
  }

 private:
  class PartRoom final : public AnswerRoom {
   public:
    explicit PartRoom(std::shared_ptr<Room> room) : room_(std::move(room)) {}
    Status Take(std::size_t bytes) override {
      const MutexLock lock(room_->mutex_);
      room_->bytes_ += bytes - std::exchange(taken_, bytes);
      return room_->whole_->Take(room_->bytes_);
    }

   private:
    const std::shared_ptr<Room> room_;
    std::size_t taken_ = 0;
  };

  const std::shared_ptr<AnswerRoom> whole_;
  Mutex mutex_;
  std::size_t bytes_ GUARDED_BY(mutex_) = 0;
};

EnsembleRun::EnsembleRun(Flight& flight, StepRunner& runner, std::vector<ModelLease> steps)
    : flight_(flight),
      runner_(runner),
      settings_(*flight.model().settings().ensemble),
      steps_(settings_, flight.request(), flight.id(), std::move(steps)) {
  const std::shared_ptr<AnswerRoom>& room = flight.request().asked.room;
  if (room != nullptr) room_ = std::make_shared<Room>(room);
}

EnsembleRun::~EnsembleRun() = default;

// ---- Steps start: each as a request of its model. A job program would run models of fixed shapes
// and without batches; this way any shape, batches, strings and models in parts work.

void EnsembleRun::Advance() {
  const std::shared_ptr<Flight> self = flight_.shared_from_this();  // which owns this run
  while (true) {
    std::optional<std::size_t> step;
    Result<InferRequest> request = Fail(ErrorCode::kInternal, "");
    std::optional<Answer> answer;
    {
      // Both under one lock: a step that ends between them could make another one ready.
      const MutexLock lock(mutex_);
      request = TakeReady(step);
      if (!step) answer = TakeAnswer();
    }
    if (answer) flight_.FinishedSteps(std::move(answer->outputs), std::move(answer->times));
    if (!step) return;
    if (request) {
      Start(*step, *std::move(request));
    } else {
      Fails(*step, std::move(request).error());
    }
  }
}

/// Nothing in `step`: none may run now. Else the step counts as running.
Result<InferRequest> EnsembleRun::TakeReady(std::optional<std::size_t>& step) {
  if (!error_ && !flight_.cancelled()) step = steps_.TakeReady();
  EnsembleSteps* const steps = &steps_;
  return WithoutExceptions([&]() -> Result<InferRequest> {
    if (!step) return InferRequest();
    std::shared_ptr<AnswerRoom> room = room_ == nullptr ? nullptr : Room::Part(room_);
    InferRequest request = steps->RequestOf(*step);
    request.room = std::move(room);
    return request;
  });
}

void EnsembleRun::Start(std::size_t step, InferRequest request) {
  InferCallback callback;
  Status made = WithoutExceptions([&]() -> Status {
    // Keeps the request: where the callback is lost, the request is answered by ~Flight.
    callback = [this, step, flight = flight_.shared_from_this()](Result<InferResponse> result) {
      Ended(step, std::move(result));
    };
    return {};
  });
  if (!made) return Fails(step, std::move(made).error());
  const RequestHandle handle = runner_.InferStep(TakeModel(step), std::move(request),
                                                 flight_.request().deadline, std::move(callback));
  bool cancel = false;
  {
    const MutexLock lock(mutex_);
    // If the step has ended already, the handle means nothing to CancelStep().
    steps_.Started(step, handle);
    cancel = error_.has_value() || flight_.cancelled();
  }
  if (cancel) runner_.CancelStep(handle);
}

ModelLease EnsembleRun::TakeModel(std::size_t step) {
  const MutexLock lock(mutex_);
  return steps_.TakeModel(step);
}

// ---- Steps end

void EnsembleRun::Ended(std::size_t step, Result<InferResponse> result) {
  bool failed = false;
  {
    const MutexLock lock(mutex_);
    EnsembleSteps* const steps = &steps_;
    Status taken = WithoutExceptions([&]() -> Status {
      if (!result) return Annotate(settings_.steps[step].name, std::move(result).error());
      return steps->Take(step, *std::move(result));
    });
    steps_.Stopped(step);
    if (!taken && !error_) error_ = std::move(taken).error();
    failed = error_.has_value();
  }
  if (failed) CancelSteps();
  GoOn();
}

/// The step could not be started.
void EnsembleRun::Fails(std::size_t step, Error error) {
  {
    const MutexLock lock(mutex_);
    steps_.Stopped(step);
    if (!error_) error_ = std::move(error);
  }
  CancelSteps();
}

/// Where memory runs out, they run to their ends.
void EnsembleRun::CancelSteps() {
  (void)WithoutExceptions([&]() -> Status {
    std::vector<RequestHandle> running;
    {
      const MutexLock lock(mutex_);
      running = steps_.Running();
    }
    for (const RequestHandle step : running) runner_.CancelStep(step);
    return {};
  });
}

/// On the thread that goes on with requests: the one that brings news of a step must not be kept.
void EnsembleRun::GoOn() {
  const Status continued = WithoutExceptions([&]() -> Status {
    flight_.Continue();
    return {};
  });
  if (!continued) Advance();
}

void EnsembleRun::Cancel(Flight& /*flight*/) {
  CancelSteps();
  GoOn();  // if no step runs
}

// ---- The answer

/// No step is ready. Nothing while one runs, and where the request has been answered.
std::optional<EnsembleRun::Answer> EnsembleRun::TakeAnswer() {
  if (steps_.running() > 0 || finished_) return std::nullopt;
  finished_ = true;
  Answer answer;
  EnsembleSteps* const steps = &steps_;
  if (error_ && !flight_.cancelled()) {
    answer.outputs = tl::unexpected<Error>(*std::move(error_));
  } else {
    answer.outputs = WithoutExceptions([&]() -> Result<std::vector<OutputTensor>> {
      if (flight_.cancelled()) return Fail(ErrorCode::kCancelled, "request cancelled");
      return steps->TakeAnswer();
    });
  }
  answer.times = steps_.TakeTimes();
  return answer;
}

}  // namespace lagoon
