#include "apps/inspect/access_trace.h"

#include <fmt/format.h>

#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/json.h"

namespace lagoon {
namespace {

using nlohmann::json;

tl::unexpected<Error> Invalid(std::string message) {
  return Fail(ErrorCode::kInvalidArgument, std::move(message));
}

Result<AddressRange> ParseRange(const json& value) {
  if (!value.is_array() || value.size() != 2 || !value[0].is_number_unsigned() ||
      !value[1].is_number_unsigned()) {
    return Invalid(fmt::format("has {} where [address, bytes] is expected", DumpJson(value)));
  }
  const AddressRange range{value[0].get<std::uint64_t>(), value[1].get<std::uint64_t>()};
  if (range.bytes == 0 || range.bytes > std::numeric_limits<std::uint64_t>::max() - range.begin) {
    return Invalid(fmt::format("has {}, which is empty or beyond 64 bits", DumpJson(value)));
  }
  return range;
}

Status ParseRanges(const json& operation, const char* field, std::size_t& left,
                   std::vector<AddressRange>& ranges) {
  const auto found = operation.find(field);
  if (found == operation.end()) return {};
  if (!found->is_array()) return Invalid(fmt::format("'{}' is not a list", field));
  if (found->size() > left) {
    return Fail(ErrorCode::kResourceExhausted,
                fmt::format("more than {} ranges in the trace", kMaxTraceRanges));
  }
  left -= found->size();
  for (const json& value : *found) {
    auto range = ParseRange(value);
    if (!range) return Annotate(fmt::format("'{}'", field), std::move(range).error());
    ranges.push_back(*range);
  }
  return {};
}

Result<AccessSet> ParseOperation(const json& value, std::size_t& left) {
  if (!value.is_object()) return Invalid("is not an object");
  for (const auto& [key, unused] : value.items()) {
    if (key != "name" && key != "reads" && key != "writes") {
      return Invalid(fmt::format("has the unknown field '{}'", key));
    }
  }
  AccessSet set;
  if (const auto name = value.find("name"); name != value.end()) {
    if (!name->is_string()) return Invalid("'name' is not a string");
    set.name = name->get<std::string>();
  }
  LAGOON_RETURN_IF_ERROR(ParseRanges(value, "reads", left, set.reads));
  LAGOON_RETURN_IF_ERROR(ParseRanges(value, "writes", left, set.writes));
  return set;
}

Result<std::vector<AccessSet>> ParseOperations(const json& document) {
  const auto operations = document.is_object() ? document.find("operations") : document.end();
  if (operations == document.end() || !operations->is_array()) {
    return Invalid("no list 'operations'");
  }
  if (operations->size() > kMaxTraceOperations) {
    return Fail(
        ErrorCode::kResourceExhausted,
        fmt::format("{} operations, more than {}", operations->size(), kMaxTraceOperations));
  }
  std::vector<AccessSet> sets;
  std::size_t left = kMaxTraceRanges;
  for (std::size_t i = 0; i < operations->size(); ++i) {
    auto set = ParseOperation((*operations)[i], left);
    if (!set) return Annotate(fmt::format("operation {}", i), std::move(set).error());
    sets.push_back(*std::move(set));
  }
  return sets;
}

}  // namespace

Result<std::vector<AccessSet>> ParseTrace(std::string_view text, const std::string& name) {
  const json document = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (document.is_discarded()) return Invalid(fmt::format("{}: not JSON", name));
  auto sets = ParseOperations(document);
  if (!sets) return Annotate(name, std::move(sets).error());
  return sets;
}

Result<std::vector<AccessSet>> ReadTraceFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (!file || !(text << file.rdbuf())) {
    return Fail(ErrorCode::kNotFound, fmt::format("{}: cannot be read", path));
  }
  return ParseTrace(text.str(), path);
}

}  // namespace lagoon
