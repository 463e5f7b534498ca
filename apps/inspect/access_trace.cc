#include "apps/inspect/access_trace.h"

#include <fmt/format.h>

#include <fstream>
#include <limits>
#include <sstream>

#include "base/json_fields.h"

namespace lagoon {
namespace {

using nlohmann::json;

tl::unexpected<Error> Invalid(std::string message) {
  return Fail(ErrorCode::kInvalidArgument, std::move(message));
}

/// A field with ranges, of which the whole trace has at most `left`.
JsonField Ranges(const char* field, std::size_t& left, std::vector<AddressRange>& ranges) {
  return JsonField::List(field, "[address, bytes]", [&](const json& value) -> Status {
    if (!value.is_array() || value.size() != 2 || !value[0].is_number_unsigned() ||
        !value[1].is_number_unsigned()) {
      return Invalid(fmt::format("is {} where [address, bytes] is expected", ShownJson(value)));
    }
    const AddressRange range{value[0].get<std::uint64_t>(), value[1].get<std::uint64_t>()};
    if (range.bytes == 0 || range.bytes > std::numeric_limits<std::uint64_t>::max() - range.begin) {
      return Invalid(fmt::format("is {}, which is empty or beyond 64 bits", ShownJson(value)));
    }
    if (left == 0) {
      return Fail(ErrorCode::kResourceExhausted,
                  fmt::format("more than {} ranges in the trace", kMaxTraceRanges));
    }
    --left;
    ranges.push_back(range);
    return {};
  });
}

}  // namespace

Result<std::vector<AccessSet>> ParseTrace(std::string_view text, const std::string& name) {
  std::vector<AccessSet> sets;
  std::size_t left = kMaxTraceRanges;
  const auto operation = [&](const json& value) -> Status {
    if (sets.size() == kMaxTraceOperations) {
      return Fail(ErrorCode::kResourceExhausted,
                  fmt::format("more than {} operations", kMaxTraceOperations));
    }
    AccessSet& set = sets.emplace_back();
    return ReadFields(
        value, {},
        {JsonField::Text("name", set.name, /*least=*/0), Ranges("reads", left, set.reads),
         Ranges("writes", left, set.writes),
         JsonField::Whole("restarts_from", 0, kMaxTraceOperations - 1, [&](std::uint64_t first) {
           set.restarts_from = static_cast<std::uint32_t>(first);
         })});
  };
  Status read = ReadJson(text, {JsonField::List("operations", "objects", operation)});
  if (read) read = CheckClaims(sets);
  if (!read) return Annotate(name, read.error());
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
