#include "local/plans/plan_cache.h"

#include <algorithm>
#include <utility>

namespace lagoon {

namespace {

std::size_t BytesOf(const Plan& plan) {
  std::size_t bytes = sizeof(Plan) + plan.buffers.size() * sizeof(PlanBuffer);
  for (const PlanOp& op : plan.ops) {
    bytes += sizeof(PlanOp) + op.name.size() + op.args.size() +
             op.deps.size() * sizeof(std::uint32_t) + op.relocations.size() * sizeof(Relocation) +
             (op.reads.size() + op.writes.size()) * sizeof(ByteRange) +
             op.versions.size() * sizeof(OpVersion);
    for (const OpVersion& version : op.versions) bytes += version.args.size();
  }
  return bytes;
}

}  // namespace

std::size_t BytesOf(const ServedPlan& served) {
  std::size_t bytes = sizeof(ServedPlan) + served.key.size() + BytesOf(served.loaded->plan);
  for (const auto* plan : {&served.on.own, &served.on.lowered}) {
    if (*plan != nullptr) bytes += (*plan)->bytes();
  }
  for (const auto& chunk : served.loaded->weights) {
    if (chunk->from_request) bytes += chunk->memory.size();
  }
  // The graph of the next part.
  if (served.links.next) bytes += served.links.next->model->bytes();
  return bytes;
}

std::shared_ptr<ServedPlan> PlanCache::Find(const PlanKey& key) {
  const MutexLock lock(mutex_);
  const auto found = known_.find(key);
  if (found == known_.end()) return nullptr;
  Position& position = found->second;
  const Group to = std::max(position.group, kAgain);
  groups_[to].splice(groups_[to].end(), groups_[position.group], position.entry);
  position.group = to;
  return position.entry->plan;
}

std::shared_ptr<ServedPlan> PlanCache::Peek(const PlanKey& key) const {
  const MutexLock lock(mutex_);
  const auto found = known_.find(key);
  return found == known_.end() ? nullptr : found->second.entry->plan;
}

PlanCache::Group PlanCache::GroupOf(const Entry& entry, bool pinned) const {
  if (pinned) return kPinned;
  return entry.bytes > limits_.bytes ? kTooLarge : kOnce;
}

std::vector<std::shared_ptr<ServedPlan>> PlanCache::Add(const PlanKey& key,
                                                        std::shared_ptr<ServedPlan> plan,
                                                        bool pinned) {
  Plans gone;
  const std::size_t bytes = BytesOf(*plan);
  Entries made;
  made.push_back({key, std::move(plan), bytes});
  const MutexLock lock(mutex_);
  // Where memory runs out, nothing has changed yet: no plan of `gone` is lost.
  gone.reserve(known_.size() + 1);
  const auto [known, is_new] = known_.try_emplace(key);
  Position& position = known->second;
  if (!is_new) Release(position, gone);
  while (!groups_[kTooLarge].empty()) RemoveFirst(kTooLarge, gone);
  position.group = GroupOf(made.front(), pinned);
  position.entry = made.begin();
  Entries& entries = groups_[position.group];
  entries.splice(entries.end(), made);
  if (position.group != kTooLarge) bytes_ += bytes;
  Evict(gone);
  return gone;
}

/// Leaves `known_` as it is.
void PlanCache::Release(const Position& position, Plans& gone) {
  if (position.group != kTooLarge) bytes_ -= position.entry->bytes;
  gone.push_back(std::move(position.entry->plan));
  groups_[position.group].erase(position.entry);
}

void PlanCache::RemoveFirst(Group group, Plans& gone) {
  const Position position{group, groups_[group].begin()};
  known_.erase(position.entry->key);
  Release(position, gone);
}

void PlanCache::Evict(Plans& gone) {
  // The newest plan stays, so that the request that asked for it finds it.
  while ((known_.size() > limits_.plans || bytes_ > limits_.bytes) &&
         groups_[kOnce].size() + groups_[kAgain].size() > 1) {
    RemoveFirst(groups_[kOnce].size() > 1 || groups_[kAgain].empty() ? kOnce : kAgain, gone);
  }
}

std::size_t PlanCache::size() const {
  const MutexLock lock(mutex_);
  return known_.size();
}

std::size_t PlanCache::bytes() const {
  const MutexLock lock(mutex_);
  return bytes_;
}

bool DecidingInputs::Add(std::set<std::size_t> inputs) {
  const std::set<std::size_t>* const before = present_.load(std::memory_order_relaxed);
  if (before != nullptr) inputs.insert(before->begin(), before->end());
  if (before != nullptr && inputs.size() == before->size()) return false;
  sets_.push_back(std::make_unique<const std::set<std::size_t>>(std::move(inputs)));
  // release: pairs with Get().
  present_.store(sets_.back().get(), std::memory_order_release);
  return true;
}

}  // namespace lagoon
