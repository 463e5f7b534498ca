#pragma once

// Compiles plans for new input shapes while the server runs.

#include <chrono>
#include <deque>
#include <list>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "base/time.h"
#include "local/plans/failed_plans.h"
#include "sched/dispatcher.h"
#include "serving/request/flight.h"

namespace lagoon {

/// Makes the plans for which requests wait, on a thread of its own below all others, and posts the
/// requests then. Models take turns, and each has a bounded number of shapes and requests that
/// wait. A request whose deadline passes meanwhile is answered at that time, and a plan that is
/// being made is given up when the last request that waits for it has left: but not a second time,
/// so that clients with short deadlines get it in the end. A plan that cannot be made is tried
/// again after a pause only (FailedPlans). A second thread, of normal priority, does what takes
/// locks that requests need: it publishes plans, posts and answers. A third one goes on with
/// requests whose model runs in parts. Any thread may call any method.
class PlanMaker final : public WaitingPlace, public NextParts {
 public:
  /// Most different shapes of one model that may wait. A request for one more is refused, unless
  /// only its number of rows is new.
  static constexpr std::size_t kMaxShapes = 16;

  /// `dispatcher` outlives the maker.
  PlanMaker(Dispatcher& dispatcher, std::uint32_t units) : dispatcher_(dispatcher), units_(units) {}
  /// Cancels the requests that wait.
  ~PlanMaker();
  PlanMaker(const PlanMaker&) = delete;
  PlanMaker& operator=(const PlanMaker&) = delete;

  /// Posts the request when its plan is ready, or answers it with the reason why there will be
  /// none. Does not throw.
  void Make(const std::shared_ptr<Flight>& flight);

  /// The plan of the next part is made if need be.
  void Continue(std::shared_ptr<Flight> flight) override;
  void Cancel(Flight& flight) override;
  Kind kind() const override { return &RequestWaits::plan; }

  /// Makes a plan that no request waits for yet, if there is room for one more shape. A warning
  /// says why it cannot be made, once. `shapes`: by input of the model.
  void Prepare(ServedModel& model, const std::vector<Dims>& shapes);

  /// Drops the orders of a model that is going away, and waits for the one that is being compiled.
  /// No request of the model may be left.
  void Forget(ServedModel& model);

 private:
  struct Waiting {
    std::shared_ptr<Flight> flight;
    TimePoint deadline = kNoDeadline;
  };
  /// A plan to be made, and the requests of one model that wait for it.
  struct Order {
    WantedPlan wanted;
    std::stop_source stop;  // requested when nobody wants the plan any more
    std::vector<Waiting> requests = {};
    bool compiling = false;
    bool prepare = false;  // made even if no request waits
  };
  using Orders = std::deque<std::shared_ptr<Order>>;
  struct ModelOrders {
    ServedModel* model = nullptr;
    Orders orders;
    std::size_t requests = 0;
    FailedPlans failed;
    std::deque<PlanKey> given_up;  // plans that were being made; at most kMaxShapes
  };

  /// What the compiling thread has made, for the publishing thread.
  struct Made {
    ServedModel* model = nullptr;
    std::shared_ptr<Order> order;
    Result<std::shared_ptr<ServedPlan>> plan;
  };

  std::list<ModelOrders>::iterator FindOrders(const ServedModel& model) REQUIRES(mutex_);
  ModelOrders& OrdersOf(ServedModel& model) REQUIRES(mutex_);
  static Orders::iterator Find(Orders& orders, const PlanKey& key);
  static std::shared_ptr<Order> NewOrder(WantedPlan wanted, bool prepare);
  std::optional<Error> RefusalOf(ModelOrders& orders, const PlanKey& key, const Flight& flight,
                                 bool again) REQUIRES(mutex_);
  static void GiveUp(Orders& orders);
  static void LeaveOrder(ModelOrders& orders, Order& order);
  bool NoteFailure(const Made& made, const Error& error) REQUIRES(mutex_);
  Status TakeOrder(const std::shared_ptr<Flight>& flight);
  void Start() REQUIRES(mutex_);
  void CompileOrders(const std::stop_token& stop);
  void PublishPlans(const std::stop_token& stop);
  std::shared_ptr<Order> NextOrder(ServedModel*& model) REQUIRES(mutex_);
  Made Compile(ServedModel& model, const std::shared_ptr<Order>& order);
  bool PublishNext();
  void Publish(const Made& made);
  static std::string ShapesOf(const Made& made);
  /// Each failure, for the log of level "debug". Comes before NoteFailure().
  static Status LogFailure(const Made& made);
  static Status WarnOf(const Made& made);
  Status PostWaiting(const Made& made, const std::shared_ptr<Flight>& flight);
  Status PostNextPart(const std::shared_ptr<Flight>& flight);
  void ContinueRequests(const std::stop_token& stop);
  template <typename Which>
  void CancelThose(Which which);
  /// Takes requests out of their orders: those for which `which` is true.
  template <typename Which>
  std::vector<Waiting> Take(Which which) REQUIRES(mutex_);
  TimePoint NextDeadline() const REQUIRES(mutex_);

  Dispatcher& dispatcher_;
  const std::uint32_t units_;
  Mutex mutex_;
  CondVar work_, news_;  // for the compiling thread; for the publishing one
  CondVar published_;    // an order has ended
  // The model whose turn was last comes last.
  std::list<ModelOrders> orders_ GUARDED_BY(mutex_);
  std::list<Made> made_ GUARDED_BY(mutex_);
  bool stopping_ GUARDED_BY(mutex_) = false;
  // Requests whose next part is to be posted. A mutex of their own, which is never held by the
  // compiling thread: the dispatcher's threads take it.
  Mutex continued_mutex_;
  CondVar continued_news_;
  std::deque<std::shared_ptr<Flight>> continued_ GUARDED_BY(continued_mutex_);
  bool continuing_stopped_ GUARDED_BY(continued_mutex_) = false;
  // Last members: they stop before what they use is destroyed. Started by the first request.
  std::jthread compiler_, publisher_, continuer_;
};

}  // namespace lagoon
