#include "program/split/apply_parts.h"

#include <fmt/format.h>

#include "plan/parts.h"
#include "program/split/choose.h"

namespace lagoon {
namespace {

bool AreThere(std::uint32_t parts, const Plan& plan) {
  if (plan.part_ends.empty()) return parts == 1;
  return parts == kAutoParts || parts == plan.part_ends.size();
}

}  // namespace

Status ApplyParts(std::optional<std::uint32_t> parts, bool several, Plan& plan) {
  if (!parts) return {};
  const std::string parameter =
      fmt::format("parameter 'lagoon.parts' is '{}'",
                  *parts == kAutoParts ? std::string("auto") : std::to_string(*parts));
  if (several && *parts != 1) {
    plan.part_ends.clear();
    return Fail(ErrorCode::kUnimplemented,
                fmt::format("{}, but data decide shapes of model '{}', so that it runs as several "
                            "plans, which are not cut; leave the parameter out",
                            parameter, plan.model));
  }
  if (AreThere(*parts, plan)) return {};
  Status set = SetParts(plan, *parts);
  if (!set) return Annotate(parameter, std::move(set).error());
  return {};
}

void CutIfLong(Nanoseconds longest, bool several, Plan& plan) {
  const bool is_long = longest > Nanoseconds(0) && plan.standalone > longest;
  if (!is_long || several || !plan.part_ends.empty()) return;
  if (!SetParts(plan, kAutoParts)) plan.part_ends.clear();
}

}  // namespace lagoon
