#pragma once

// A server, its clients, and what is known of both.

#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "engine/testing/test_engine.h"
#include "serving/core/inference.h"
#include "world/device.h"
#include "world/models.h"
#include "world/script.h"
#include "world/world.h"

namespace lagoon::world {

struct Sent {
  std::string model;
  std::uint32_t client = 0;
  Ask ask;
  TimePoint at, deadline = kNoDeadline;
  bool cancelled = false;
  int answers = 0;
  RequestHandle handle{};
  std::uint64_t failed_allocations = 0;  // when it was sent
};

/// A model that is loaded or unloaded.
struct ModelChange {
  std::string model;
  std::size_t constant = 0;  // number of the one that is loaded
  bool load = false;
  std::uint64_t failed_allocations = 0;  // when it was asked for
};

/// What is known of a model while it is changed.
struct ModelHistory {
  struct Constant {
    float value = 0;
    TimePoint from, to = kNoDeadline;
  };
  std::deque<Constant> constants;  // in the order in which they were written
  bool loaded = true;
  TimePoint loaded_since{};
  int unloads = 0;  // that are under way
  std::size_t outstanding = 0;
  TimePoint full_at{};  // the last time that as many requests were outstanding as may wait
};

class City {
 public:
  City(const Script& script, std::string folder,
       const std::function<void(const std::string&)>& violation)
      : script_(script),
        folder_(std::move(folder)),
        violation_(violation),
        devices_(script.workers, script.config) {}

  void Run();
  WorldReport report() const { return report_; }

 private:
  [[noreturn]] void Violation(const std::string& what) const {
    violation_(what);
    std::abort();
  }

  void Open();
  Config ConfigOf(const std::string& model, std::uint64_t number) const;
  void Act(const Event& event);
  void Infer(const Event& event);
  void Send(Sent& sent);
  void Answered(Sent& sent, const Result<InferResponse>& answer);
  void CheckRight(const Sent& sent, const InferResponse& response) REQUIRES(mutex_);
  bool IsRight(const Sent& sent, const InferResponse& response, float constant) const;
  void CheckRefusal(const Sent& sent, const Error& error) REQUIRES(mutex_);
  /// At some time since the request was sent.
  bool MayBeUnloaded(const Sent& sent) const REQUIRES(mutex_);
  bool MayBeUnavailable(const Sent& sent, const std::string& why) const REQUIRES(mutex_);
  void Cancel(const Event& event);
  void Change(const Event& event);
  void Changed(const ModelChange& change, const Status& done);
  void Switch(const Event& event);
  void Lose(const Event& event);
  void Look();
  void CheckShares() const;
  std::string WrongShare() const;
  void AwaitAnswers(const Event& event);
  void AwaitQuiet();
  void AwaitDevice();
  void CheckQuiet();
  void CheckFailedAttempts();
  void Probe(const std::string& model);
  void Reload(const std::string& model);
  void LoadAllAgain();
  void CheckGrowth();

  const Script& script_;
  const std::string folder_;
  const std::function<void(const std::string&)>& violation_;
  Devices devices_;
  std::shared_ptr<testing::TestEngine> engine_ = std::make_shared<testing::TestEngine>();
  std::unique_ptr<Inference> core_;

  mutable Mutex mutex_;
  CondVar news_;
  std::deque<Sent> sent_ GUARDED_BY(mutex_);
  std::map<std::string, ModelHistory> models_ GUARDED_BY(mutex_);
  std::size_t outstanding_ GUARDED_BY(mutex_) = 0;
  int changes_ GUARDED_BY(mutex_) = 0;  // under way
  int losing_ GUARDED_BY(mutex_) = 0;
  TimePoint lost_at_ GUARDED_BY(mutex_){};   // last time that the device was lost or still away
  int losses_ GUARDED_BY(mutex_) = 0;        // so far
  bool resized_ GUARDED_BY(mutex_) = false;  // a share, ever
  bool closing_ GUARDED_BY(mutex_) = false;
  WorldReport report_;
};

}  // namespace lagoon::world
