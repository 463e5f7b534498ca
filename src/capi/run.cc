// lagoon.h: runs.

#include <cstring>

#include "base/log.h"
#include "capi/handles.h"

using namespace lagoon;        // NOLINT: the functions of the border are of no namespace
using namespace lagoon::capi;  // NOLINT: for the same

namespace {

constexpr RunRefusal kClosed = {RunCode::kUnavailable, "the model is freed, or its device closed"};
constexpr RunRefusal kNoType = {RunCode::kInvalidArgument,
                                "the tensor's type is none of lagoon_type"};
constexpr RunRefusal kNoTensor = {RunCode::kInvalidArgument,
                                  "the tensor is NULL, or has a rank without dims"};
constexpr RunRefusal kNoMemory = {RunCode::kResourceExhausted, "out of memory"};
constexpr RunRefusal kThrown = {RunCode::kInternal, "an unknown exception"};

lagoon_code RefuseRun(lagoon_run& run, const RunRefusal& refusal) {
  run.refusal.store(&refusal, std::memory_order_relaxed);
  return ToCode(refusal.code);
}

/// Runs `work` on the run, which returns a RunCode, unless the model is closed, or the run under
/// way. `done` of the last start has returned then, unless it is what calls.
template <typename F>
lagoon_code WithRun(lagoon_run* run, F&& work) noexcept {
  if (run == nullptr) return LAGOON_INVALID_ARGUMENT;
  try {
    if (run->open->gate.closed()) return RefuseRun(*run, kClosed);
    if (const RunRefusal* const refusal = run->run->AwaitQuiet()) return RefuseRun(*run, *refusal);
    run->refusal.store(nullptr, std::memory_order_relaxed);
    return ToCode(work(*run->run));
  } catch (const std::bad_alloc&) {
    return RefuseRun(*run, kNoMemory);
  } catch (...) {
    return RefuseRun(*run, kThrown);
  }
}

template <typename F>
lagoon_code Bind(lagoon_run* run, const lagoon_tensor* tensor, F&& bind) noexcept {
  if (run == nullptr) return LAGOON_INVALID_ARGUMENT;
  if (tensor == nullptr || (tensor->rank > 0 && tensor->dims == nullptr)) {
    return RefuseRun(*run, kNoTensor);
  }
  const std::optional<DataType> type = FromType(NumberOf(tensor->type));
  if (!type) return RefuseRun(*run, kNoType);
  return WithRun(run, [&](Run& of) {
    return bind(of, RunTensor{*type, {tensor->dims, tensor->rank}, tensor->data, tensor->bytes});
  });
}

/// Run::Done of runs that lagoon_run_start() has started.
void Ended(void* argument, Run&) {
  auto* const run = static_cast<lagoon_run*>(argument);
  // The callback may start the run again, or another thread may free it behind Leave().
  const std::shared_ptr<KeptModel> open = run->open;
  const auto done = run->done;
  if (done != nullptr) {
    try {
      done(run->argument, run);
    } catch (...) {
      spdlog::error("model '{}': `done` of a run has thrown", open->model->name());
    }
  }
  open->gate.Leave();
}

}  // namespace

lagoon_code lagoon_run_create(lagoon_model* model, lagoon_run** run, lagoon_error* error) {
  return Call(error, [&]() -> Status {
    if (run == nullptr) return Null("the place for the run");
    *run = nullptr;
    if (model == nullptr) return Null("the model");
    if (model->open->gate.closed() || !model->open->device->device->usable()) {
      return Closed(*model->open);
    }
    *run = new lagoon_run(model->open);
    return {};
  });
}

lagoon_code lagoon_run_input(lagoon_run* run, size_t index, const lagoon_tensor* tensor) {
  return Bind(run, tensor,
              [&](Run& of, const RunTensor& bound) { return of.SetInput(index, bound); });
}

lagoon_code lagoon_run_output(lagoon_run* run, size_t index, const lagoon_tensor* tensor) {
  return Bind(run, tensor,
              [&](Run& of, const RunTensor& bound) { return of.SetOutput(index, bound); });
}

lagoon_code lagoon_run_prepare(lagoon_run* run, lagoon_error* error) {
  if (run == nullptr) return Report(error, LAGOON_INVALID_ARGUMENT, "the run is NULL");
  const lagoon_code code = WithRun(run, [](Run& of) { return of.Reserve(); });
  if (code != LAGOON_OK) lagoon_run_error(run, error);
  return code;
}

lagoon_code lagoon_run_sync(lagoon_run* run, int64_t due_ns) {
  if (run == nullptr) return LAGOON_INVALID_ARGUMENT;
  if (!run->open->gate.Enter()) return RefuseRun(*run, kClosed);
  const lagoon_code code = WithRun(run, [&](Run& of) { return of.Sync(ToTime(due_ns)); });
  run->open->gate.Leave();
  return code;
}

lagoon_code lagoon_run_start(lagoon_run* run, int64_t due_ns, void (*done)(void*, lagoon_run*),
                             void* arg) {
  if (run == nullptr) return LAGOON_INVALID_ARGUMENT;
  KeptModel& open = *run->open;
  if (!open.gate.Enter()) return RefuseRun(*run, kClosed);
  const lagoon_code code = WithRun(run, [&](Run& of) {
    // Ended() has read those of the last start.
    run->done = done;
    run->argument = arg;
    // Behind a good start the run may be over, and the gate left.
    return of.Start(ToTime(due_ns), Ended, run);
  });
  if (code != LAGOON_OK) open.gate.Leave();
  return code;
}

lagoon_code lagoon_run_wait(lagoon_run* run, int64_t until_ns) {
  if (run == nullptr) return LAGOON_INVALID_ARGUMENT;
  try {
    return ToCode(run->run->Wait(ToTime(until_ns).value_or(kNoDeadline)));
  } catch (...) {
    return RefuseRun(*run, kThrown);
  }
}

void lagoon_run_cancel(lagoon_run* run) {
  if (run != nullptr) Quietly([&] { run->run->Cancel(); });
}

lagoon_code lagoon_run_result(const lagoon_run* run, lagoon_result* result) {
  return Call(nullptr, [&]() -> Status {
    if (run == nullptr) return Null("the run");
    lagoon_result made = LAGOON_RESULT_INIT;
    if (run->run->under_way()) {  // another thread writes the result at any time
      made.under_way = 1;
      made.why_name = Name(WhyLate::kNot).data();
      return WriteResult(made, "lagoon_result", result);
    }
    const RunResult& of = run->run->result();
    made.code = ToCode(of.code);
    made.called_ns = FromTime(of.called);
    made.posted_ns = FromTime(of.posted);
    made.started_ns = FromTime(of.started);
    made.first_block_ns = FromTime(of.first_block);
    made.inputs_copied_ns = FromTime(of.inputs_copied);
    made.computed_ns = FromTime(of.computed);
    made.finished_ns = FromTime(of.finished);
    made.due_ns = FromTime(of.due);
    made.revocations = of.revocations;
    made.parts = of.parts;
    made.resumed_blocks = of.resumed_blocks;
    made.compiling_ns = of.compiling.count();
    made.why = static_cast<lagoon_why>(of.why);
    made.why_name = Name(of.why).data();  // of a literal
    made.behind = of.behind.jobs;
    static_assert(sizeof(made.behind_model) == std::tuple_size_v<decltype(of.behind.queue)>);
    std::memcpy(made.behind_model, of.behind.queue.data(), sizeof(made.behind_model));
    made.behind_ns = of.behind.longest.count();
    made.stolen_ns = of.stolen.count();
    return WriteResult(made, "lagoon_result", result);
  });
}

void lagoon_run_error(const lagoon_run* run, lagoon_error* error) {
  if (error == nullptr) return;
  if (run == nullptr) {
    Report(error, LAGOON_INVALID_ARGUMENT, "the run is NULL");
    return;
  }
  Quietly([&] {
    if (const RunRefusal* const refusal = run->refusal.load(std::memory_order_relaxed)) {
      Report(error, ToCode(refusal->code), refusal->why);
      return;
    }
    Report(error, ToCode(run->run->code()), run->run->message());
  });
}

const int64_t* lagoon_run_output_dims(const lagoon_run* run, size_t index, uint32_t* rank) {
  if (rank != nullptr) *rank = 0;
  if (run == nullptr || index >= run->run->output_count()) return nullptr;
  if (!run->run->has_dims(index)) return nullptr;
  const auto dims = run->run->OutputDims(index);
  if (rank != nullptr) *rank = static_cast<uint32_t>(dims.size());
  static constexpr int64_t kScalar = 0;
  return dims.empty() ? &kScalar : dims.data();
}

const void* lagoon_run_made_output(const lagoon_run* run, size_t index, size_t* bytes) {
  if (bytes != nullptr) *bytes = 0;
  if (run == nullptr || index >= run->run->output_count()) return nullptr;
  const void* const data = run->run->OutputData(index);
  if (bytes != nullptr && data != nullptr) *bytes = run->run->OutputBytes(index);
  return data;
}

void lagoon_run_free(lagoon_run* run) {
  if (run == nullptr) return;
  Quietly([&] {
    if (run->run->in_done() || (Run::AnyInDone() && !run->run->quiet())) {
      spdlog::error(
          "lagoon_run_free within `done` of this run, or of another one before this one is over: "
          "the run keeps its memory");
      return;
    }
    delete run;
  });
}
