#include "serving/request/tenants.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"

namespace lagoon {

Result<std::shared_ptr<const Tenants::Hold>> Tenants::Take(const InferRequest& request) {
  if (source_ == TenantSource::kNone) return nullptr;
  const std::string& name =
      source_ == TenantSource::kHeader ? request.tenant_of_header : request.tenant_of_parameter;
  if (name.empty()) return nullptr;
  if (name.size() > kMostBytes) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("tenant {}...: the name has {} bytes, the limit is {}",
                            Quoted(name.substr(0, kMostBytes)), name.size(), kMostBytes));
  }
  if (!std::ranges::all_of(name, [](char c) { return c >= ' ' && c <= '~'; })) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("tenant {}: a name is printable ASCII", Quoted(name)));
  }
  const MutexLock lock(mutex_);
  LAGOON_ASSIGN_OR_RETURN(const std::uint32_t number, Find(name));
  auto hold = std::make_shared<const Hold>(shared_from_this(), number);
  Tenant& tenant = tenants_[number - 1];
  if (tenant.holds++ == 0) busy_.splice(busy_.end(), idle_, tenant.place);
  return hold;
}

/// A number that is new, or that another tenant had, is in idle_.
Result<std::uint32_t> Tenants::Find(std::string_view view) {
  std::string name(view);
  if (const auto known = numbers_.find(name); known != numbers_.end()) return known->second;
  if (tenants_.size() < kMaxTenants) {
    tenants_.emplace_back();
    const auto number = static_cast<std::uint32_t>(tenants_.size());
    tenants_.back().place = idle_.insert(idle_.begin(), number);
  } else if (idle_.empty()) {
    return Fail(ErrorCode::kUnavailable,
                fmt::format("tenant {}: {} other tenants have requests in flight, which is the "
                            "limit; try again",
                            Quoted(name), kMaxTenants));
  }
  const std::uint32_t number = idle_.front();
  Tenant& tenant = tenants_[number - 1];
  numbers_.emplace(name, number);
  numbers_.erase(tenant.name);
  tenant.name = std::move(name);
  tenant.kernels_before = kernels_(number);
  return number;
}

void Tenants::Release(std::uint32_t number) {
  const MutexLock lock(mutex_);
  Tenant& tenant = tenants_[number - 1];
  if (--tenant.holds == 0) idle_.splice(idle_.end(), busy_, tenant.place);
}

std::vector<TenantStatistics> Tenants::Statistics() const {
  std::vector<TenantStatistics> statistics;
  const MutexLock lock(mutex_);
  for (std::size_t i = 0; i < tenants_.size(); ++i) {
    const Tenant& tenant = tenants_[i];
    const std::uint64_t kernels = kernels_(static_cast<std::uint32_t>(i + 1));
    statistics.push_back({tenant.name, kernels - tenant.kernels_before});
  }
  return statistics;
}

}  // namespace lagoon
