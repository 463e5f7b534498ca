#pragma once

// A version of a model that serves requests, with its batchers.

#include <cstdint>
#include <memory>
#include <vector>

#include "base/lender.h"
#include "base/status.h"
#include "serving/model/served_model.h"
#include "serving/shares/shared_model.h"

namespace lagoon {

class Batcher;
class PlanMaker;
class PythonQueue;
class Sequences;

/// InferRequest::priority from which on a request lowers its class.
inline constexpr std::uint64_t kLoweredPriority = 2;

/// A version that serves requests.
struct LoadedVersion final : public SharedModel {
  LoadedVersion(std::unique_ptr<ServedModel> loaded, std::int64_t version);
  ~LoadedVersion() override;

  /// Gives the model its queues, and batchers if requests are joined. Not for a program. A model of
  /// Python gets its PythonQueue, an ensemble nothing. On an error the queues are removed again.
  Status Start(Dispatcher& dispatcher, PlanMaker& maker);
  /// The opposite. No request may be left. An error: the device was lost, so that the model must
  /// live as long as the dispatcher.
  Status Stop(Dispatcher& dispatcher, PlanMaker& maker);
  /// No request may wait or run. Start() is not called again.
  void StopBatchers();
  /// Those that there are.
  std::vector<Batcher*> Batchers() const;

  // SharedModel; not for a program. Between Start() and Stop().
  Terms ShareTerms() const override;
  Status MoveShare(UnitRange units) override;
  Status SetWeight(double weight) override;
  LoadReading ReadLoad(TimePoint now) override { return model->load().Read(now); }
  void ForgetTimes() override { model->load().Moved(); }
  BatchNotice TakeNotice() override;
  std::int64_t MostRows() const override;
  void LimitRows(std::int64_t rows) override;

  std::unique_ptr<ServedModel> model;
  const std::int64_t number;
  /// Join requests of the model's own class, and those of a real-time model that lower their class.
  /// Null: not joined. They are destroyed before the model.
  std::unique_ptr<Batcher> own, lowered;
  std::unique_ptr<PythonQueue> python;   // null: the model is none of Python
  std::unique_ptr<Sequences> sequences;  // null: the model's requests are of none

 private:
  Dispatcher* dispatcher_ = nullptr;  // that has the queues
};

/// The right to use a version. Unloading the version waits until all leases have ended.
using ModelLease = Lender<LoadedVersion>::Lease;

}  // namespace lagoon
