#include "serving/request/plan_maker.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/resource.h>

#include <algorithm>
#include <utility>

#include "base/guard.h"
#include "base/log.h"
#include "base/thread.h"

namespace lagoon {
namespace {

constexpr int kLowestPriority = 19;  // a nice value
// After memory ran out, until it is tried again.
constexpr Nanoseconds kRetryPause = std::chrono::milliseconds(10);

/// Memory that ran out says nothing about the plan, which the next request tries again, nor does an
/// end that was asked for. A plan that is over a limit has the code of memory that ran out and
/// another message: it stays over the limit.
bool IsAboutThePlan(const Error& error) {
  const bool memory =
      error.code == ErrorCode::kResourceExhausted && error.message.ends_with("out of memory");
  return !memory && error.code != ErrorCode::kCancelled;
}

}  // namespace

PlanMaker::~PlanMaker() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
    for (ModelOrders& orders : orders_) GiveUp(orders.orders);
    work_.NotifyAll();
    news_.NotifyAll();
  }
  {
    const MutexLock lock(continued_mutex_);
    continuing_stopped_ = true;
    continued_news_.NotifyAll();
  }
  compiler_ = {};
  publisher_ = {};
  continuer_ = {};
  CancelThose([](const Waiting&) { return true; });
}

void PlanMaker::Start() {
  if (!publisher_.joinable()) {
    publisher_ = std::jthread([this](const std::stop_token& stop) { PublishPlans(stop); });
  }
  if (!compiler_.joinable()) {
    compiler_ = std::jthread([this](const std::stop_token& stop) { CompileOrders(stop); });
  }
}

std::list<PlanMaker::ModelOrders>::iterator PlanMaker::FindOrders(const ServedModel& model) {
  return std::ranges::find(orders_, &model, &ModelOrders::model);
}

PlanMaker::ModelOrders& PlanMaker::OrdersOf(ServedModel& model) {
  const auto found = FindOrders(model);
  if (found != orders_.end()) return *found;
  orders_.emplace_back().model = &model;
  return orders_.back();
}

/// The order for this plan; one that is being given up does not count.
PlanMaker::Orders::iterator PlanMaker::Find(Orders& orders, const PlanKey& key) {
  return std::ranges::find_if(orders, [&](const std::shared_ptr<Order>& order) {
    return order->wanted.key == key && !order->stop.stop_requested();
  });
}

std::shared_ptr<PlanMaker::Order> PlanMaker::NewOrder(WantedPlan wanted, bool prepare) {
  auto order = std::make_shared<Order>();
  order->wanted = std::move(wanted);
  order->wanted.inputs.work.stop = order->stop.get_token();
  order->prepare = prepare;
  return order;
}

/// Drops the orders that wait, and tells those that are being compiled to end.
void PlanMaker::GiveUp(Orders& orders) {
  std::erase_if(orders,
                [](const auto& order) { return !order->compiling && order->requests.empty(); });
  for (const std::shared_ptr<Order>& order : orders) order->stop.request_stop();
}

/// No request waits for the plan any more.
void PlanMaker::LeaveOrder(ModelOrders& orders, Order& order) {
  if (!order.stop.request_stop() || !order.compiling) return;
  try {
    orders.given_up.push_back(order.wanted.key);
  } catch (const std::bad_alloc&) {
    return;  // then it may be given up once more
  }
  if (orders.given_up.size() > kMaxShapes) orders.given_up.pop_front();
}

/// Why no order of the request is taken. `again`: it has waited for a plan before.
std::optional<Error> PlanMaker::RefusalOf(ModelOrders& orders, const PlanKey& key,
                                          const Flight& flight, bool again) {
  const auto refuse = [&](std::string why) {
    return Error{ErrorCode::kUnavailable,
                 fmt::format("model '{}': {}", flight.model().name(), std::move(why))};
  };
  if (stopping_) return refuse("the server is shutting down");
  if (const Error* const failed = orders.failed.Find(key, Now())) return *failed;
  if (orders.requests >= flight.model().settings().max_queue_size) {
    return refuse(
        fmt::format("{} requests wait for plans for new input shapes; try again", orders.requests));
  }
  const bool is_new = Find(orders.orders, key) == orders.orders.end();
  if (!is_new || orders.orders.size() < kMaxShapes || again) return {};
  if (flight.model().IsLargerBatch(flight.dims())) return {};
  return refuse(
      fmt::format("{} new input shapes wait to be compiled; try again", orders.orders.size()));
}

void PlanMaker::Make(const std::shared_ptr<Flight>& flight) {
  Status taken = WithoutExceptions([&] { return TakeOrder(flight); });
  if (!taken) return flight->Refuse(std::move(taken).error());
  flight->HeedCancel();
}

/// After an error or an exception no order has the request.
Status PlanMaker::TakeOrder(const std::shared_ptr<Flight>& flight) {
  ServedModel& model = flight->model();
  const bool again = flight->begun();
  flight->WaitIn(*this);
  // Now, while the request and its data are there for certain.
  WantedPlan wanted = flight->Wanted();
  const TimePoint deadline = flight->request().deadline;
  const MutexLock lock(mutex_);
  ModelOrders& orders = OrdersOf(model);
  std::optional<Error> refusal = RefusalOf(orders, wanted.key, *flight, again);
  if (refusal) return tl::unexpected<Error>(*std::move(refusal));
  Start();
  auto order = Find(orders.orders, wanted.key);
  if (order == orders.orders.end()) {
    const bool to_the_end = std::erase(orders.given_up, wanted.key) > 0;
    order = orders.orders.insert(order, NewOrder(std::move(wanted), to_the_end));
  }
  (*order)->requests.push_back({flight, deadline});
  ++orders.requests;
  work_.NotifyOne();
  if (deadline != kNoDeadline) news_.NotifyOne();
  return {};
}

void PlanMaker::Prepare(ServedModel& model, const std::vector<Dims>& shapes) {
  WantedPlan wanted = model.Want(nullptr, shapes, {});
  const MutexLock lock(mutex_);
  ModelOrders& orders = OrdersOf(model);
  if (stopping_ || orders.orders.size() >= kMaxShapes) return;
  if (orders.failed.Find(wanted.key, Now()) != nullptr) return;
  if (Find(orders.orders, wanted.key) != orders.orders.end()) return;
  Start();
  orders.orders.push_back(NewOrder(std::move(wanted), /*prepare=*/true));
  work_.NotifyOne();
}

void PlanMaker::Forget(ServedModel& model) {
  const MutexLock lock(mutex_);
  const auto found = FindOrders(model);
  if (found == orders_.end()) return;
  Orders& orders = found->orders;
  GiveUp(orders);
  while (!orders.empty() && !stopping_) published_.Wait(mutex_);
  orders_.erase(found);
}

template <typename Which>
std::vector<PlanMaker::Waiting> PlanMaker::Take(Which which) {
  std::size_t count = 0;
  for (const ModelOrders& orders : orders_) {
    for (const std::shared_ptr<Order>& order : orders.orders) {
      count += static_cast<std::size_t>(std::ranges::count_if(order->requests, which));
    }
  }
  std::vector<Waiting> taken;
  taken.reserve(count);  // where memory runs out, no request is lost
  for (ModelOrders& orders : orders_) {
    for (const std::shared_ptr<Order>& order : orders.orders) {
      const auto rest = std::stable_partition(order->requests.begin(), order->requests.end(),
                                              [&](const Waiting& w) { return !which(w); });
      orders.requests -= static_cast<std::size_t>(order->requests.end() - rest);
      taken.insert(taken.end(), std::make_move_iterator(rest),
                   std::make_move_iterator(order->requests.end()));
      order->requests.erase(rest, order->requests.end());
      if (order->requests.empty() && !order->prepare) LeaveOrder(orders, *order);
    }
    std::erase_if(orders.orders, [](const auto& order) {
      return order->stop.stop_requested() && !order->compiling;
    });
  }
  return taken;
}

template <typename Which>
void PlanMaker::CancelThose(Which which) {
  std::vector<Waiting> taken;
  {
    const MutexLock lock(mutex_);
    taken = Take(which);
  }
  for (const Waiting& waiting : taken) {
    waiting.flight->Finished(WithoutJob(Outcome::kCancelled, Now()));
  }
}

void PlanMaker::Cancel(Flight& flight) {
  CancelThose([&](const Waiting& waiting) { return waiting.flight.get() == &flight; });
}

// ---- The compiling thread

void PlanMaker::CompileOrders(const std::stop_token&) {
  NameThisThread("lagoon-compile");
  // For this thread only: in Linux each thread has a nice value.
  ::setpriority(PRIO_PROCESS, 0, kLowestPriority);
  while (true) {
    ServedModel* model = nullptr;
    std::shared_ptr<Order> order;
    // Made here, so that no plan is lost where memory runs out.
    std::list<Made> made;
    const Status room = WithoutExceptions([&made]() -> Status {
      made.push_back({nullptr, nullptr, Fail(ErrorCode::kCancelled, "")});
      return {};
    });
    {
      const MutexLock lock(mutex_);
      if (!room && !stopping_) work_.WaitUntil(mutex_, Now() + kRetryPause);
      if (!room && !stopping_) continue;
      while (!stopping_ && (order = NextOrder(model)) == nullptr) work_.Wait(mutex_);
      if (stopping_) return;
      order->compiling = true;
    }
    made.front() = Compile(*model, order);
    const MutexLock lock(mutex_);
    made_.splice(made_.end(), made);
    news_.NotifyOne();
  }
}

/// The first order of the model whose turn is the longest ago. The turns do not depend on where
/// models lie in memory.
std::shared_ptr<PlanMaker::Order> PlanMaker::NextOrder(ServedModel*& model) {
  for (auto at = orders_.begin(); at != orders_.end(); ++at) {
    const auto order =
        std::ranges::find_if(at->orders, [](const auto& waiting) { return !waiting->compiling; });
    if (order == at->orders.end()) continue;
    model = at->model;
    orders_.splice(orders_.end(), orders_, at);
    return *order;
  }
  return nullptr;
}

/// Whatever goes wrong is the plan's error: other models need this thread.
PlanMaker::Made PlanMaker::Compile(ServedModel& model, const std::shared_ptr<Order>& order) {
  Made made{&model, order, Fail(ErrorCode::kCancelled, "")};
  if (order->stop.stop_requested()) return made;
  made.plan = WithoutExceptions([&] { return model.MakePlan(order->wanted, dispatcher_, units_); });
  return made;
}

// ---- The publishing thread

TimePoint PlanMaker::NextDeadline() const {
  TimePoint next = kNoDeadline;
  for (const ModelOrders& orders : orders_) {
    for (const auto& order : orders.orders) {
      for (const Waiting& waiting : order->requests) next = std::min(next, waiting.deadline);
    }
  }
  return next;
}

void PlanMaker::PublishPlans(const std::stop_token&) {
  NameThisThread("lagoon-plans");
  bool goes_on = true;
  while (goes_on) {
    const Status done = WithoutExceptions([&]() -> Status {
      goes_on = PublishNext();
      return {};
    });
    if (done) continue;
    const MutexLock lock(mutex_);
    if (!stopping_) news_.WaitUntil(mutex_, Now() + kRetryPause);
  }
}

/// Returns false if the maker stops. It may be called again after it has thrown.
bool PlanMaker::PublishNext() {
  std::list<Made> made;
  std::vector<Waiting> expired;
  {
    const MutexLock lock(mutex_);
    while (!stopping_ && made_.empty()) {
      const TimePoint deadline = NextDeadline();
      if (deadline <= Now()) break;
      if (deadline == kNoDeadline) {
        news_.Wait(mutex_);
      } else {
        news_.WaitUntil(mutex_, deadline);
      }
    }
    if (stopping_) return false;
    const TimePoint now = Now();
    expired = Take([now](const Waiting& waiting) { return waiting.deadline <= now; });
    made.swap(made_);
  }
  for (const Waiting& waiting : expired) {
    waiting.flight->Finished(WithoutJob(Outcome::kExpired, Now()));
  }
  for (const Made& one : made) Publish(one);
  return true;
}

/// Remembers that the plan could not be made. True: it is the first time, and no answer says so.
bool PlanMaker::NoteFailure(const Made& made, const Error& error) {
  if (!IsAboutThePlan(error)) return false;
  try {
    const bool is_new = OrdersOf(*made.model).failed.Add(made.order->wanted.key, error, Now());
    return is_new && made.order->requests.empty();
  } catch (const std::bad_alloc&) {
    return false;  // then the plan is tried again sooner
  }
}

/// Does not throw.
void PlanMaker::Publish(const Made& made) {
  const std::shared_ptr<ServedPlan> plan = made.plan ? *made.plan : nullptr;
  const auto keep = [&]() -> Status {
    if (plan != nullptr) made.model->KeepPlan(plan);
    return {};
  };
  Status kept = WithoutExceptions(keep);  // else the plan is for the requests that wait only
  const Status ignored = WithoutExceptions([&] { return LogFailure(made); });
  std::vector<Waiting> requests;
  bool warn = false;
  {
    const MutexLock lock(mutex_);
    if (!made.plan) warn = NoteFailure(made, made.plan.error());
    if (const auto orders = FindOrders(*made.model); orders != orders_.end()) {
      if (plan != nullptr) orders->failed.Remove(plan->key);
      requests = std::move(made.order->requests);
      orders->requests -= requests.size();
      std::erase(orders->orders, made.order);
    }
    published_.NotifyAll();
  }
  for (const Waiting& waiting : requests) {
    Status posted = WithoutExceptions([&] { return PostWaiting(made, waiting.flight); });
    if (!posted) waiting.flight->Refuse(std::move(posted).error());
  }
  if (warn) kept = WithoutExceptions([&] { return WarnOf(made); });
  if (!kept) spdlog::warn("a plan is not kept: {}", kept.error().message);
}

std::string PlanMaker::ShapesOf(const Made& made) {
  std::vector<std::string> shapes;
  for (const Dims& dims : made.order->wanted.inputs.dims) shapes.push_back(ToString(dims));
  return fmt::format("{}", fmt::join(shapes, ", "));
}

Status PlanMaker::LogFailure(const Made& made) {
  if (made.plan || !IsAboutThePlan(made.plan.error())) return {};
  if (!spdlog::should_log(spdlog::level::debug)) return {};
  spdlog::debug("model '{}': no plan for inputs of shape {}: {}", made.model->name(),
                ShapesOf(made), made.plan.error().message);
  return {};
}

Status PlanMaker::WarnOf(const Made& made) {
  spdlog::warn("no plan for inputs of shape {}, so that requests are not joined to them: {}",
               ShapesOf(made), made.plan.error().message);
  return {};
}

/// After an error or an exception nothing has the request.
Status PlanMaker::PostWaiting(const Made& made, const std::shared_ptr<Flight>& flight) {
  if (!made.plan) return tl::unexpected<Error>(made.plan.error());
  const std::shared_ptr<ServedPlan>& plan = *made.plan;
  if (plan != nullptr && flight->Key() == plan->key) {
    flight->Post(plan);
  } else if (auto other = made.model->FindFreshPlan(flight->Key())) {
    // The contents of an input turned out to decide the plan.
    flight->Post(std::move(other));
  } else {
    Make(flight);
  }
  return {};
}

// ---- Parts

void PlanMaker::Continue(std::shared_ptr<Flight> flight) {
  {
    const MutexLock lock(continued_mutex_);
    if (!continuing_stopped_) {
      if (!continuer_.joinable()) {
        continuer_ = std::jthread([this](const std::stop_token& stop) { ContinueRequests(stop); });
      }
      continued_.push_back(std::move(flight));
      continued_news_.NotifyOne();
      return;
    }
  }
  if (flight->AdvanceSteps()) return;
  flight->Finished(WithoutJob(Outcome::kCancelled, Now()));
}

void PlanMaker::ContinueRequests(const std::stop_token&) {
  NameThisThread("lagoon-parts");
  while (true) {
    std::shared_ptr<Flight> flight;
    bool stopped = false;
    {
      const MutexLock lock(continued_mutex_);
      while (!continuing_stopped_ && continued_.empty()) continued_news_.Wait(continued_mutex_);
      if (continued_.empty()) return;
      flight = std::move(continued_.front());
      continued_.pop_front();
      stopped = continuing_stopped_;
    }
    if (flight->AdvanceSteps()) continue;
    if (stopped) {
      flight->Finished(WithoutJob(Outcome::kCancelled, Now()));
      continue;
    }
    Status posted = WithoutExceptions([&] { return PostNextPart(flight); });
    if (!posted) flight->Refuse(std::move(posted).error());
  }
}

/// After an exception nothing has the request.
Status PlanMaker::PostNextPart(const std::shared_ptr<Flight>& flight) {
  if (auto plan = flight->model().FindFreshPlan(flight->Key())) {
    flight->Post(std::move(plan));
  } else {
    Make(flight);
  }
  return {};
}

}  // namespace lagoon
