#pragma once

#include <algorithm>
#include <boost/intrusive/list.hpp>
#include <boost/intrusive/set.hpp>
#include <cstdint>
#include <vector>

#include "sched/config.h"
#include "sched/job.h"

namespace lagoon {

namespace intrusive = boost::intrusive;

/// The order of each class.
struct JobOrders {
  By real_time = By::kArrival;
  By best_effort = By::kArrival;
};

/// The part of a job that policies see. The dispatcher's own record (Job) derives from it.
struct ScheduledJob {
  JobId id{};
  QueueId queue_id{};        // the job's queue: one class of one model
  std::uint32_t tenant = 0;  // JobSpec::tenant
  JobClass job_class = JobClass::kBestEffort;
  TimePoint arrival;  // when it was posted
  TimePoint deadline = kNoDeadline;
  Nanoseconds total{0};      // expected time of its kernels, each alone on the device; 0: not known
  Nanoseconds remaining{0};  // the same for the kernels that are not complete (Paella 6)
  Nanoseconds unsubmitted{0};  // the same for the kernels that are not submitted
  /// Kernels to the end of the part that comes next (Plan::part_ends). ~0: all that are left.
  std::uint32_t part_ops = ~0u;
  bool has_cut_ops = false;  // whether parts cost something (Plan::cut_ops)
  double weight = 1;         // of its queue (QueueOptions::weight)
  /// Number of blocks times the time of a block, of the kernels that the last pick submitted. A
  /// block of an unknown time counts as a microsecond.
  Nanoseconds unit_time{0};
  std::uint64_t served = 0;  // number of the last pick that chose it; 0: never picked
  bool started = false;      // it holds an instance

  std::int64_t key = 0;  // sort key of ReadyIndex, valid while the index holds the job
  intrusive::set_member_hook<> ready_hook;
  intrusive::set_member_hook<> queue_hook;
  intrusive::set_member_hook<> tenant_hook;  // linked if the job has a tenant
};

/// The client of the job for fairness: its tenant, else its queue.
inline ClientId ClientOf(const ScheduledJob& job) {
  return ClientId{job.tenant > 0 ? job.tenant - 1 : kMaxTenants + Raw(job.queue_id)};
}

/// The ready jobs in views. One separates them by class and by whether they have started, each part
/// in the order that the policy asked for. Others separate them by queue, and by tenant those with
/// one, in order of posting. Allocates only in AddQueue and AddTenant.
class ReadyIndex {
 public:
  struct ByKey {
    bool operator()(const ScheduledJob& a, const ScheduledJob& b) const {
      return a.key != b.key ? a.key < b.key : a.id < b.id;
    }
  };
  struct ById {
    bool operator()(const ScheduledJob& a, const ScheduledJob& b) const { return a.id < b.id; }
  };
  template <intrusive::set_member_hook<> ScheduledJob::*Hook, typename Compare>
  using SetBy =
      intrusive::set<ScheduledJob,
                     intrusive::member_hook<ScheduledJob, intrusive::set_member_hook<>, Hook>,
                     intrusive::compare<Compare>>;
  using Set = SetBy<&ScheduledJob::ready_hook, ByKey>;
  using QueueSet = SetBy<&ScheduledJob::queue_hook, ById>;
  using TenantSet = SetBy<&ScheduledJob::tenant_hook, ById>;

  explicit ReadyIndex(JobOrders orders = {}) : orders_{orders.real_time, orders.best_effort} {}

  /// Must be called before a job of the queue is updated.
  void AddQueue(QueueId queue) {
    if (queues_.size() <= Raw(queue)) queues_.resize(Raw(queue) + 1);
  }

  /// Must be called before a job of the tenant is updated.
  void AddTenant(std::uint32_t tenant) {
    if (tenants_.size() < tenant) tenants_.resize(tenant);
  }

  /// Adds the job, removes it, or moves it to its new place after a value that determines the order
  /// has changed. `job.started` must not change while the job is in the index.
  void Update(ScheduledJob& job, bool ready) {
    Set& set = sets_[static_cast<int>(job.job_class)][job.started];
    const bool linked = job.ready_hook.is_linked();
    const std::int64_t key = ready ? KeyOf(orders_[static_cast<int>(job.job_class)], job) : 0;
    if (linked && ready && key == job.key) return;
    if (linked) set.erase(set.iterator_to(job));
    if (linked && !ready) Remove(job);
    if (!ready) return;
    job.key = key;
    set.insert(job);
    if (linked) return;
    queue(job).insert(job);
    if (job.tenant > 0) tenants_[job.tenant - 1].insert(job);
  }

  const Set& jobs(JobClass job_class, bool started) const {
    return sets_[static_cast<int>(job_class)][started];
  }
  const QueueSet& jobs(QueueId queue) const { return queues_[Raw(queue)]; }
  const TenantSet& tenant(std::uint32_t number) const { return tenants_[number - 1]; }
  std::size_t Count(JobClass job_class) const {
    return jobs(job_class, true).size() + jobs(job_class, false).size();
  }
  bool Any(JobClass job_class) const { return Count(job_class) > 0; }

  /// When a job should have ended: at its deadline, else after twice its total time. That serves
  /// short jobs first, and long ones do not starve. In DISB's workload D on two simulated cores the
  /// mean of real-time latency over own time is 1.74 in order of posting, and with 1, 2, 4 and 8
  /// times the total 1.30, 1.25, 1.25 and 1.26.
  static TimePoint DueOf(const ScheduledJob& job) {
    return job.deadline != kNoDeadline ? job.deadline : job.arrival + 2 * job.total;
  }

  static std::int64_t KeyOf(By order, const ScheduledJob& job) {
    switch (order) {
      case By::kArrival:
        return 0;
      case By::kDeadline:
        return job.deadline.time_since_epoch().count();
      case By::kDue:
        return DueOf(job).time_since_epoch().count();
      case By::kSlack:
        return (job.deadline - job.remaining).time_since_epoch().count();
      case By::kTotal:
        return job.total.count();
      case By::kRemaining:
        return job.remaining.count();
      case By::kLeastServed:
        return static_cast<std::int64_t>(job.served);
      case By::kResponseRatio:
        return RatioKey(job.unsubmitted, job.total);
      case By::kTargetRatio: {
        const bool has_target = job.deadline != kNoDeadline;
        return RatioKey(job.unsubmitted, has_target ? job.deadline - job.arrival : job.total);
      }
    }
    return 0;
  }

 private:
  // In units of (64 ns)^2, so that the product fits; times above two minutes count as two minutes.
  static std::int64_t RatioKey(Nanoseconds left, Nanoseconds target) {
    static constexpr std::int64_t kMost = std::int64_t{1} << 31;
    const auto scaled = [](Nanoseconds time) {
      return std::clamp<std::int64_t>(time.count() >> 6, 0, kMost);
    };
    return scaled(left) * scaled(target);
  }

  QueueSet& queue(const ScheduledJob& job) { return queues_[Raw(job.queue_id)]; }
  void Remove(ScheduledJob& job) {
    queue(job).erase(queue(job).iterator_to(job));
    if (job.tenant == 0) return;
    TenantSet& tenant = tenants_[job.tenant - 1];
    tenant.erase(tenant.iterator_to(job));
  }

  By orders_[2];
  Set sets_[2][2];
  std::vector<QueueSet> queues_;
  std::vector<TenantSet> tenants_;  // by number, less 1
};

}  // namespace lagoon
