#pragma once

// JSON that people and other programs write for us, read by tables of fields: the body of a request
// to the administration, a file with routes or surfaces. A field is listed once, with its name,
// what it takes and where its value goes; unknown, missing and twice given fields, wrong types and
// ranges are refused with messages that come from the same table.

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"

namespace lagoon {

struct JsonField {
  using Json = nlohmann::json;
  using Each = std::function<Status(const Json&)>;

  std::string_view name;
  std::string takes;  // for messages: "a number from 0 to 1"
  /// An error without a message (Misfit) says that the value is not what the field takes.
  Each read;

  static tl::unexpected<Error> Misfit() { return Fail(ErrorCode::kInvalidArgument, ""); }

  static JsonField Text(std::string_view name, std::string& to, std::size_t least = 1);
  static JsonField Flag(std::string_view name, std::function<void(bool)> set);
  static JsonField Number(std::string_view name, double least, double most,
                          std::function<void(double)> set);
  static JsonField Number(std::string_view name, double least, double most, double& to);
  static JsonField Number(std::string_view name, double& to);
  static JsonField Whole(std::string_view name, std::uint64_t least, std::uint64_t most,
                         std::function<void(std::uint64_t)> set);
  template <typename Target>
  static JsonField Whole(std::string_view name, Target& to) {
    return Whole(name, 0, static_cast<std::uint64_t>(std::numeric_limits<Target>::max()),
                 [&to](std::uint64_t value) { to = static_cast<Target>(value); });
  }
  /// A list: each entry is read by `each`, whose errors get the name of the field and the place of
  /// the entry. `of`: "numbers".
  static JsonField List(std::string_view name, std::string_view of, Each each);
};

using JsonFields = std::vector<JsonField>;

/// Reads the fields of `object`. Each of `required` must be there, each of `optional` may be. The
/// error is without a subject ("has no 'name', which is a text"): Annotate() it.
Status ReadFields(const nlohmann::json& object, const JsonFields& required,
                  const JsonFields& optional = {});
/// The same for the text of an object.
Status ReadJson(std::string_view text, const JsonFields& required, const JsonFields& optional = {});
/// Reads the entries of a list, as JsonField::List. Misfit if there is no list.
Status ReadList(const nlohmann::json& list, const JsonField::Each& each);

/// Unlike nlohmann's own parser, refuses a field that an object has twice, a NUL byte, and nesting
/// so deep that code which walks the document could use up its stack. Without a subject, as above.
Result<nlohmann::json> ParseJson(std::string_view text);

/// A value for messages, cut.
std::string ShownJson(const nlohmann::json& value);

}  // namespace lagoon
