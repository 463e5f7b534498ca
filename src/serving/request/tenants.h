#pragma once

// Clients that share the models of a server, by names (`--tenants`).

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "sched/job.h"
#include "serving/core/request.h"
#include "serving/core/tenant_statistics.h"

namespace lagoon {

/// Gives each tenant with requests in flight a number (JobSpec::tenant). A number stays with its
/// name until another tenant needs it, and none has been idle for longer: at most kMaxTenants names
/// are kept, however many clients send. Any thread may call any method.
class Tenants : public std::enable_shared_from_this<Tenants> {
 public:
  static constexpr std::size_t kMostBytes = 64;  // of a name

  /// A request in flight of a tenant: the number is the tenant's until this is destroyed.
  class Hold {
   public:
    Hold(std::shared_ptr<Tenants> tenants, std::uint32_t number)
        : tenants_(std::move(tenants)), number_(number) {}
    ~Hold() { tenants_->Release(number_); }
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;
    std::uint32_t number() const { return number_; }

   private:
    const std::shared_ptr<Tenants> tenants_;
    const std::uint32_t number_;
  };

  /// `kernels`: how many kernels of a tenant's number are done (Dispatcher). Not called by Hold.
  /// The table is owned by a shared_ptr.
  Tenants(TenantSource source, std::function<std::uint64_t(std::uint32_t)> kernels)
      : source_(source), kernels_(std::move(kernels)) {}

  /// The request's tenant. Null: it has none, or names do not count (TenantSource::kNone). Errors:
  /// kInvalidArgument: the name is too long, or is not printable ASCII. kUnavailable: kMaxTenants
  /// others have requests in flight.
  Result<std::shared_ptr<const Hold>> Take(const InferRequest& request);

  /// The tenants that have a number.
  std::vector<TenantStatistics> Statistics() const;

 private:
  struct Tenant {
    std::string name;
    std::size_t holds = 0;
    std::uint64_t kernels_before = 0;          // of the number, when the tenant got it
    std::list<std::uint32_t>::iterator place;  // in idle_ or busy_
  };

  Result<std::uint32_t> Find(std::string_view name) REQUIRES(mutex_);
  void Release(std::uint32_t number);

  const TenantSource source_;
  const std::function<std::uint64_t(std::uint32_t)> kernels_;
  mutable Mutex mutex_;
  std::vector<Tenant> tenants_ GUARDED_BY(mutex_);  // by number, less 1
  std::unordered_map<std::string, std::uint32_t> numbers_ GUARDED_BY(mutex_);
  // Numbers without holds, the one that has been so longest first, and those with holds.
  std::list<std::uint32_t> idle_ GUARDED_BY(mutex_), busy_ GUARDED_BY(mutex_);
};

}  // namespace lagoon
