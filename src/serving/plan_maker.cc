#include "serving/plan_maker.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <utility>

#include "base/log.h"

namespace lagoon {
namespace {

constexpr int kLowestPriority = 19;  // a nice value

JobResult Ended(Outcome outcome) {
  JobResult result;
  result.outcome = outcome;
  const TimePoint now = Now();
  result.posted = result.started = result.first_block = now;
  result.inputs_copied = result.computed = result.finished = now;
  return result;
}

}  // namespace

PlanMaker::~PlanMaker() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
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
  CancelAll();
}

void PlanMaker::Start() {
  if (compiler_.joinable()) return;
  compiler_ = std::jthread([this](const std::stop_token& stop) { CompileOrders(stop); });
  publisher_ = std::jthread([this](const std::stop_token& stop) { PublishPlans(stop); });
}

RequestHandle PlanMaker::Make(const std::shared_ptr<RequestInFlight>& request) {
  ServedModel& model = request->model();
  // A request that comes a second time keeps its handle.
  const RequestHandle handle =
      request->awaited() != RequestHandle{} ? request->awaited() : NewHandle();
  if (!request->Await(handle)) return RequestHandle{};
  std::string refusal;
  {
    const MutexLock lock(mutex_);
    ModelOrders& orders = orders_[&model];
    const PlanKey key = request->Key();
    auto order =
        std::ranges::find_if(orders.orders, [&](const auto& known) { return known->key == key; });
    if (stopping_) {
      refusal = "the server is shutting down";
    } else if (orders.requests >= model.settings().max_queue_size) {
      refusal = fmt::format("{} requests wait for plans for new input shapes; try again",
                            orders.requests);
    } else if (order == orders.orders.end() && orders.orders.size() >= kMaxShapes &&
               request->before() == nullptr) {
      refusal =
          fmt::format("{} new input shapes wait to be compiled; try again", orders.orders.size());
    } else {
      if (order == orders.orders.end()) {
        order = orders.orders.insert(order, std::make_shared<Order>());
        (*order)->key = key;
      }
      (*order)->requests.push_back({handle, request, request->deadline()});
      ++orders.requests;
      Start();
      work_.NotifyOne();
      if (request->deadline() != kNoDeadline) news_.NotifyOne();
      return handle;
    }
  }
  request->RefuseAwaited(
      {ErrorCode::kUnavailable, fmt::format("model '{}': {}", model.name(), refusal)});
  return RequestHandle{};
}

void PlanMaker::Prepare(ServedModel& model, const std::vector<Dims>& shapes) {
  const PlanKey key = model.KeyOf(nullptr, shapes, {});
  const MutexLock lock(mutex_);
  ModelOrders& orders = orders_[&model];
  const bool known =
      std::ranges::any_of(orders.orders, [&](const auto& order) { return order->key == key; });
  if (known || stopping_ || orders.orders.size() >= kMaxShapes) return;
  orders.orders.push_back(std::make_shared<Order>(Order{.key = key, .prepare = shapes}));
  Start();
  work_.NotifyOne();
}

void PlanMaker::Forget(ServedModel& model) {
  const MutexLock lock(mutex_);
  const auto found = orders_.find(&model);
  if (found == orders_.end()) return;
  auto& orders = found->second.orders;
  std::erase_if(orders, [](const auto& order) { return !order->compiling; });
  while (!orders.empty() && !stopping_) published_.Wait(mutex_);
  orders_.erase(found);
}

template <typename Which>
std::vector<PlanMaker::Waiting> PlanMaker::Take(Which which) {
  std::vector<Waiting> taken;
  for (auto& [model, orders] : orders_) {
    for (const std::shared_ptr<Order>& order : orders.orders) {
      const auto rest = std::stable_partition(order->requests.begin(), order->requests.end(),
                                              [&](const Waiting& w) { return !which(w); });
      orders.requests -= static_cast<std::size_t>(order->requests.end() - rest);
      taken.insert(taken.end(), std::make_move_iterator(rest),
                   std::make_move_iterator(order->requests.end()));
      order->requests.erase(rest, order->requests.end());
    }
    std::erase_if(orders.orders, [](const auto& order) {
      return order->requests.empty() && order->prepare.empty() && !order->compiling;
    });
  }
  return taken;
}

bool PlanMaker::Cancel(RequestHandle handle) {
  std::vector<Waiting> taken;
  {
    const MutexLock lock(mutex_);
    taken = Take([&](const Waiting& waiting) { return waiting.handle == handle; });
  }
  for (const Waiting& waiting : taken) waiting.request->Finished(Ended(Outcome::kCancelled));
  return !taken.empty();
}

void PlanMaker::CancelAll() {
  std::vector<Waiting> taken;
  {
    const MutexLock lock(mutex_);
    taken = Take([](const Waiting&) { return true; });
  }
  for (const Waiting& waiting : taken) waiting.request->Finished(Ended(Outcome::kCancelled));
}

// ---- The compiling thread

void PlanMaker::CompileOrders(const std::stop_token&) {
  // For this thread only: in Linux each thread has a nice value.
  ::setpriority(PRIO_PROCESS, 0, kLowestPriority);
  while (true) {
    ServedModel* model = nullptr;
    std::shared_ptr<Order> order;
    {
      const MutexLock lock(mutex_);
      while (!stopping_ && (order = NextOrder(model)) == nullptr) work_.Wait(mutex_);
      if (stopping_) return;
      order->compiling = true;
    }
    Made made = Compile(*model, order);
    const MutexLock lock(mutex_);
    made_.push_back(std::move(made));
    news_.NotifyOne();
  }
}

/// The first order of the model whose turn it is: the next one behind `last_` that has orders.
std::shared_ptr<PlanMaker::Order> PlanMaker::NextOrder(ServedModel*& model) {
  auto at = orders_.upper_bound(last_);
  for (std::size_t i = 0; i < orders_.size(); ++i, ++at) {
    if (at == orders_.end()) at = orders_.begin();
    const auto order = std::ranges::find_if(
        at->second.orders, [](const auto& waiting) { return !waiting->compiling; });
    if (order == at->second.orders.end()) continue;
    model = last_ = at->first;
    return *order;
  }
  return nullptr;
}

PlanMaker::Made PlanMaker::Compile(ServedModel& model, const std::shared_ptr<Order>& order) {
  Made made{&model, order, Fail(ErrorCode::kCancelled, "")};
  std::shared_ptr<RequestInFlight> request;  // one that waits: its shapes are those of all
  {
    const MutexLock lock(mutex_);
    if (!order->requests.empty()) {
      request = order->requests.front().request;
    } else if (order->prepare.empty()) {
      return made;  // all have left
    }
  }
  if (request == nullptr) {
    made.plan = model.MakePlan(nullptr, order->prepare, {}, dispatcher_, units_);
    return made;
  }
  made.plan =
      model.MakePlan(request->before(), request->dims(), request->inputs(), dispatcher_, units_);
  return made;
}

// ---- The publishing thread

TimePoint PlanMaker::NextDeadline() const {
  TimePoint next = kNoDeadline;
  for (const auto& [model, orders] : orders_) {
    for (const auto& order : orders.orders) {
      for (const Waiting& waiting : order->requests) next = std::min(next, waiting.deadline);
    }
  }
  return next;
}

void PlanMaker::PublishPlans(const std::stop_token&) {
  while (true) {
    std::vector<Made> made;
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
      if (stopping_) return;
      made.swap(made_);
      const TimePoint now = Now();
      expired = Take([now](const Waiting& waiting) { return waiting.deadline <= now; });
    }
    for (const Waiting& waiting : expired) waiting.request->Finished(Ended(Outcome::kExpired));
    for (Made& one : made) Publish(std::move(one));
  }
}

void PlanMaker::Publish(Made made) {
  if (made.plan) made.model->KeepPlan(*made.plan);
  std::vector<Waiting> requests;
  {
    const MutexLock lock(mutex_);
    ModelOrders& orders = orders_[made.model];
    requests = std::move(made.order->requests);
    orders.requests -= requests.size();
    std::erase(orders.orders, made.order);
    published_.NotifyAll();
  }
  for (const Waiting& waiting : requests) {
    if (!made.plan) {
      waiting.request->RefuseAwaited(made.plan.error());
    } else if (waiting.request->Key() == (*made.plan)->key) {
      RequestInFlight::PostAwaited(waiting.request, *made.plan, dispatcher_);
    } else if (auto other = made.model->FindFreshPlan(waiting.request->Key())) {
      // The contents of an input turned out to decide the plan.
      RequestInFlight::PostAwaited(waiting.request, std::move(other), dispatcher_);
    } else {
      Make(waiting.request);
    }
  }
}

// ---- Parts

RequestHandle PlanMaker::Begin(const std::shared_ptr<RequestInFlight>& request,
                               std::shared_ptr<ServedPlan> plan) {
  // Later parts are other jobs, so the id of the first one is no handle.
  const RequestHandle handle = NewHandle();
  if (!request->Await(handle)) return RequestHandle{};
  RequestInFlight::PostPart(request, std::move(plan), dispatcher_);
  return handle;
}

void PlanMaker::Continue(std::shared_ptr<RequestInFlight> request) {
  {
    const MutexLock lock(continued_mutex_);
    if (!continuing_stopped_) {
      if (!continuer_.joinable()) {
        continuer_ = std::jthread([this](const std::stop_token& stop) { ContinueRequests(stop); });
      }
      continued_.push_back(std::move(request));
      continued_news_.NotifyOne();
      return;
    }
  }
  request->Finished(Ended(Outcome::kCancelled));
}

void PlanMaker::ContinueRequests(const std::stop_token&) {
  while (true) {
    std::shared_ptr<RequestInFlight> request;
    bool stopped = false;
    {
      const MutexLock lock(continued_mutex_);
      while (!continuing_stopped_ && continued_.empty()) continued_news_.Wait(continued_mutex_);
      if (continued_.empty()) return;
      request = std::move(continued_.front());
      continued_.pop_front();
      stopped = continuing_stopped_;
    }
    if (stopped) {
      request->Finished(Ended(Outcome::kCancelled));
    } else if (auto plan = request->model().FindFreshPlan(request->Key())) {
      RequestInFlight::PostPart(request, std::move(plan), dispatcher_);
    } else {
      Make(request);
    }
  }
}

}  // namespace lagoon
