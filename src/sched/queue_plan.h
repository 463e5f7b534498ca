#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/ids.h"
#include "plan/instance.h"
#include "sched/cost_table.h"

namespace lagoon {

/// A plan that jobs of one queue run, bound to all instances of the queue. Made by
/// Dispatcher::AddPlan(). It must live until every job with it has finished. Afterwards it may be
/// destroyed on any thread, also while other jobs of the queue run, and after the dispatcher.
class QueuePlan {
 public:
  /// The plan that the instances were created with. Each must have one, and the same.
  QueuePlan(QueueId queue, const std::vector<Instance*>& instances);
  /// Binds `loaded` to the instances. The errors are those of Instance::Bind().
  static Result<std::unique_ptr<QueuePlan>> Bind(QueueId queue, std::uint32_t number,
                                                 const std::vector<Instance*>& instances,
                                                 const std::shared_ptr<const LoadedPlan>& loaded);

  QueueId queue() const { return queue_; }
  /// Distinguishes the plans of one queue, in order of their creation: for observers.
  std::uint32_t number() const { return number_; }
  const LoadedPlan& loaded() const { return bindings_.front()->loaded(); }
  const Plan& plan() const { return loaded().plan; }
  /// Memory that the bindings take that Bind() has made: about right.
  std::size_t bytes() const;

  // ---- For the mechanism, under the dispatcher's lock

  /// The plan on the queue's instance of that number.
  PlanBinding& binding(std::size_t instance) const { return *bindings_[instance]; }
  CostTable& costs() { return costs_; }  // any thread: its total()

 private:
  QueuePlan(QueueId queue, std::uint32_t number, const Plan& plan)
      : queue_(queue), number_(number), costs_(plan) {}

  const QueueId queue_;
  const std::uint32_t number_;
  std::vector<PlanBinding*> bindings_;  // by instance
  std::vector<std::unique_ptr<PlanBinding>> owned_;
  CostTable costs_;
};

}  // namespace lagoon
