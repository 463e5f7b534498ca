#include "sched/queue_plan.h"

namespace lagoon {

QueuePlan::QueuePlan(QueueId queue, const std::vector<Instance*>& instances)
    : QueuePlan(queue, 0, instances.front()->first()->plan()) {
  for (const Instance* instance : instances) bindings_.push_back(instance->first());
}

std::size_t QueuePlan::bytes() const {
  std::size_t bytes = sizeof(QueuePlan) + costs_.bytes();
  for (const auto& binding : owned_) bytes += binding->bytes();
  return bytes;
}

Result<std::unique_ptr<QueuePlan>> QueuePlan::Bind(
    QueueId queue, std::uint32_t number, const std::vector<Instance*>& instances,
    const std::shared_ptr<const LoadedPlan>& loaded) {
  std::unique_ptr<QueuePlan> plan(new QueuePlan(queue, number, loaded->plan));
  std::vector<Buffer> arenas;
  for (Instance* instance : instances) {
    LAGOON_ASSIGN_OR_RETURN(Buffer arena, instance->AllocateFor(loaded->plan));
    arenas.push_back(std::move(arena));
  }
  for (std::size_t i = 0; i < instances.size(); ++i) {
    LAGOON_ASSIGN_OR_RETURN(std::unique_ptr<PlanBinding> binding,
                            instances[i]->Bind(loaded, std::move(arenas[i])));
    plan->bindings_.push_back(binding.get());
    plan->owned_.push_back(std::move(binding));
  }
  return plan;
}

}  // namespace lagoon
