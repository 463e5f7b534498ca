#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lagoon {

/// Where a request says whose it is.
enum class TenantSource : std::uint8_t {
  kNone,       // nowhere: each model is a client of its own
  kParameter,  // in the parameter lagoon_tenant
  kHeader,     // in the header, or the metadata, lagoon-tenant
};

/// The header or metadata of TenantSource::kHeader.
inline constexpr std::string_view kTenantField = "lagoon-tenant";

struct TenantStatistics {
  std::string name;
  std::uint64_t kernels = 0;  // that are done
};

}  // namespace lagoon
