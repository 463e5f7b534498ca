#include "base/json_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/text.h"

namespace lagoon {
namespace {

using Json = nlohmann::json;

constexpr int kMostLevels = 64;

tl::unexpected<Error> Wrong(std::string message) {
  return Fail(ErrorCode::kInvalidArgument, std::move(message));
}

// `{"name": a text, "fraction": a number from 0 to 1}`
std::string FormOf(const JsonFields& required, const JsonFields& optional) {
  std::string form;
  for (const JsonFields* fields : {&required, &optional}) {
    for (const JsonField& field : *fields) {
      form += fmt::format("{}\"{}\": {}", form.empty() ? "" : ", ", field.name, field.takes);
    }
  }
  return fmt::format("{{{}}}{}", form, required.empty() ? ", each optional" : "");
}

std::string NamesOf(const JsonFields& required, const JsonFields& optional) {
  std::string names;
  for (const JsonFields* fields : {&required, &optional}) {
    for (const JsonField& field : *fields)
      names += (names.empty() ? "" : ", ") + std::string(field.name);
  }
  return names;
}

const JsonField* Find(const JsonFields& fields, std::string_view name) {
  const auto found = std::ranges::find(fields, name, &JsonField::name);
  return found == fields.end() ? nullptr : &*found;
}

Status ReadField(const JsonField& field, const Json& value) {
  Status read = field.read(value);
  if (read) return read;
  const std::string name = fmt::format("'{}'", field.name);
  if (!read.error().message.empty()) return Annotate(name, std::move(read).error());
  return Wrong(fmt::format("{} is {}; it takes {}", name, ShownJson(value), field.takes));
}

}  // namespace

JsonField JsonField::Text(std::string_view name, std::string& to, std::size_t least) {
  return {name, least > 0 ? "a text that is not empty" : "a text",
          [&to, least](const Json& value) -> Status {
            if (!value.is_string() || value.get_ref<const std::string&>().size() < least) {
              return Misfit();
            }
            to = value.get<std::string>();
            return {};
          }};
}

JsonField JsonField::Flag(std::string_view name, std::function<void(bool)> set) {
  return {name, "true or false", [set = std::move(set)](const Json& value) -> Status {
            if (!value.is_boolean()) return Misfit();
            set(value.get<bool>());
            return {};
          }};
}

JsonField JsonField::Number(std::string_view name, double least, double most,
                            std::function<void(double)> set) {
  return {name, fmt::format("a number from {} to {}", least, most),
          [least, most, set = std::move(set)](const Json& value) -> Status {
            if (!value.is_number()) return Misfit();
            const auto number = value.get<double>();
            if (!(number >= least && number <= most)) return Misfit();
            set(number);
            return {};
          }};
}

JsonField JsonField::Number(std::string_view name, double least, double most, double& to) {
  return Number(name, least, most, [&to](double value) { to = value; });
}

JsonField JsonField::Number(std::string_view name, double& to) {
  constexpr double kMost = std::numeric_limits<double>::max();
  JsonField field = Number(name, -kMost, kMost, to);
  field.takes = "a number";
  return field;
}

JsonField JsonField::Whole(std::string_view name, std::uint64_t least, std::uint64_t most,
                           std::function<void(std::uint64_t)> set) {
  return {name, fmt::format("a whole number from {} to {}", least, most),
          [least, most, set = std::move(set)](const Json& value) -> Status {
            if (!value.is_number_unsigned()) return Misfit();
            const auto number = value.get<std::uint64_t>();
            if (number < least || number > most) return Misfit();
            set(number);
            return {};
          }};
}

JsonField JsonField::List(std::string_view name, std::string_view of, Each each) {
  return {name, fmt::format("a list of {}", of),
          [each = std::move(each)](const Json& value) { return ReadList(value, each); }};
}

Status ReadFields(const Json& object, const JsonFields& required, const JsonFields& optional) {
  if (!object.is_object()) {
    return Wrong(
        fmt::format("is {}, not an object: {}", ShownJson(object), FormOf(required, optional)));
  }
  for (const auto& [key, value] : object.items()) {
    if (Find(required, key) == nullptr && Find(optional, key) == nullptr) {
      return Wrong(fmt::format("has the unknown field {}, which is {}; there are {}", Quoted(key),
                               ShownJson(value), NamesOf(required, optional)));
    }
  }
  for (const JsonField& field : required) {
    const auto found = object.find(field.name);
    if (found == object.end()) {
      return Wrong(fmt::format("has no '{}', which is {}", field.name, field.takes));
    }
    LAGOON_RETURN_IF_ERROR(ReadField(field, *found));
  }
  for (const JsonField& field : optional) {
    const auto found = object.find(field.name);
    if (found != object.end()) LAGOON_RETURN_IF_ERROR(ReadField(field, *found));
  }
  return {};
}

Status ReadJson(std::string_view text, const JsonFields& required, const JsonFields& optional) {
  const Result<Json> json = ParseJson(text);
  if (json) return ReadFields(*json, required, optional);
  return Wrong(fmt::format("{}: {}; it takes {}", json.error().message, Quoted(text),
                           FormOf(required, optional)));
}

Status ReadList(const Json& list, const JsonField::Each& each) {
  if (!list.is_array()) return JsonField::Misfit();
  for (std::size_t i = 0; i < list.size(); ++i) {
    Status read = each(list[i]);
    if (read) continue;
    if (read.error().message.empty()) return read;
    return Annotate(fmt::format("entry {}", i), std::move(read).error());
  }
  return {};
}

Result<Json> ParseJson(std::string_view text) {
  std::vector<std::set<std::string>> seen;  // fields of the objects that are open
  std::string twice;
  bool deep = false;
  const auto watch = [&](int depth, Json::parse_event_t event, Json& parsed) {
    deep = deep || depth > kMostLevels;
    if (deep || !twice.empty()) return false;  // nothing more is kept
    if (event == Json::parse_event_t::object_start) seen.emplace_back();
    if (event == Json::parse_event_t::object_end) seen.pop_back();
    if (event == Json::parse_event_t::key) {
      const auto& key = parsed.get_ref<const std::string&>();
      if (!seen.back().insert(key).second) twice = key;
    }
    return true;
  };
  Json json = Json::parse(text, watch, /*allow_exceptions=*/false);
  if (deep) return Wrong(fmt::format("is nested more than {} levels deep", kMostLevels));
  if (!twice.empty()) return Wrong(fmt::format("has {} twice", Quoted(twice)));
  // The parser takes a NUL byte for the end of the text.
  if (json.is_discarded() || text.find('\0') != text.npos) return Wrong("is not JSON");
  return json;
}

std::string ShownJson(const Json& value) { return Quoted(DumpJson(value)); }

}  // namespace lagoon
