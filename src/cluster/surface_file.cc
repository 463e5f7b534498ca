#include "cluster/surface_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "base/json.h"

namespace lagoon {
namespace {

using nlohmann::json;

tl::unexpected<Error> Invalid(std::string message) {
  return Fail(ErrorCode::kInvalidArgument, std::move(message));
}

// `value` as text for a message, cut after kMost characters.
std::string ShownValue(const json& value) {
  constexpr std::size_t kMost = 60;
  std::string text = DumpJson(value, -1, /*ascii=*/true);
  if (text.size() > kMost) text = text.substr(0, kMost) + "...";
  return text;
}

tl::unexpected<Error> WrongType(std::string_view field, std::string_view wanted,
                                const json& value) {
  return Invalid(fmt::format("'{}' must be {}, is {}", field, wanted, ShownValue(value)));
}

Status CheckFields(std::string_view what, const json& object,
                   std::initializer_list<std::string_view> fields) {
  if (!object.is_object()) return WrongType(what, "an object", object);
  for (const auto& [key, value] : object.items()) {
    if (std::ranges::find(fields, key) == fields.end()) {
      return Invalid(fmt::format("'{}' has the unknown field {}: {}", what, JsonString(key),
                                 ShownValue(value)));
    }
  }
  return {};
}

// `object` is one. A field that is missing is null.
const json& FieldOf(const json& object, const char* field) {
  static const json missing;
  const auto found = object.find(field);
  return found == object.end() ? missing : *found;
}

Result<std::string> Text(const json& object, const char* field) {
  const json& value = FieldOf(object, field);
  if (!value.is_string() || value.get_ref<const std::string&>().empty()) {
    return WrongType(field, "a text that is not empty", value);
  }
  return value.get<std::string>();
}

Result<double> Number(std::string_view field, const json& value) {
  if (!value.is_number()) return WrongType(field, "a number", value);
  return value.get<double>();
}

Result<std::vector<double>> Numbers(std::string_view field, const json& value) {
  if (!value.is_array()) return WrongType(field, "a list of numbers", value);
  std::vector<double> numbers;
  for (const json& entry : value) {
    LAGOON_ASSIGN_OR_RETURN(const double number, Number(field, entry));
    numbers.push_back(number);
  }
  return numbers;
}

struct FormulaField {
  const char* name;
  double SurfaceFormula::*member;
};
constexpr FormulaField kFormulaFields[] = {{"base_ms", &SurfaceFormula::base_ms},
                                           {"row_ms", &SurfaceFormula::row_ms},
                                           {"fixed", &SurfaceFormula::fixed},
                                           {"knee", &SurfaceFormula::knee},
                                           {"growth", &SurfaceFormula::growth}};

Result<Surface> FormulaFrom(const json& value) {
  LAGOON_RETURN_IF_ERROR(
      CheckFields("formula", value, {"base_ms", "row_ms", "fixed", "knee", "growth"}));
  SurfaceFormula formula;
  for (const FormulaField& field : kFormulaFields) {
    LAGOON_ASSIGN_OR_RETURN(formula.*field.member, Number(field.name, FieldOf(value, field.name)));
  }
  return Surface::FromFormula(formula);
}

Result<Surface> PointsFrom(const json& value) {
  LAGOON_RETURN_IF_ERROR(CheckFields("points", value, {"rows", "shares", "latency_ms"}));
  SurfacePoints points;
  const json& rows = FieldOf(value, "rows");
  if (!rows.is_array()) return WrongType("rows", "a list of whole numbers", rows);
  for (const json& entry : rows) {
    if (!entry.is_number_integer()) return WrongType("rows", "a list of whole numbers", rows);
    points.rows.push_back(entry.get<std::int64_t>());
  }
  LAGOON_ASSIGN_OR_RETURN(points.shares, Numbers("shares", FieldOf(value, "shares")));
  const json& times = FieldOf(value, "latency_ms");
  if (!times.is_array()) return WrongType("latency_ms", "a list of lists", times);
  for (const json& line : times) {
    LAGOON_ASSIGN_OR_RETURN(std::vector<double> numbers, Numbers("latency_ms", line));
    points.latency_ms.push_back(std::move(numbers));
  }
  return Surface::FromPoints(std::move(points));
}

Result<Surface> SurfaceFrom(const json& document) {
  const bool has_formula = document.contains("formula");
  if (has_formula == document.contains("points")) {
    return Invalid(has_formula ? "has both 'formula' and 'points', must have one of them"
                               : "has neither 'formula' nor 'points', must have one of them");
  }
  return has_formula ? FormulaFrom(document["formula"]) : PointsFrom(document["points"]);
}

Result<NamedSurface> NamedSurfaceFrom(const json& document) {
  LAGOON_RETURN_IF_ERROR(
      CheckFields("the document", document, {"model", "device", "source", "formula", "points"}));
  LAGOON_ASSIGN_OR_RETURN(std::string model, Text(document, "model"));
  LAGOON_ASSIGN_OR_RETURN(std::string device, Text(document, "device"));
  LAGOON_ASSIGN_OR_RETURN(std::string source, Text(document, "source"));
  LAGOON_ASSIGN_OR_RETURN(Surface surface, SurfaceFrom(document));
  return NamedSurface{std::move(model), std::move(device), std::move(source), std::move(surface)};
}

}  // namespace

Result<NamedSurface> ParseSurface(std::string_view text, const std::string& name) {
  const json document = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (document.is_discarded()) return Invalid(fmt::format("surface '{}': not JSON", name));
  auto surface = NamedSurfaceFrom(document);
  if (!surface) return Annotate(fmt::format("surface '{}'", name), std::move(surface).error());
  return surface;
}

Result<NamedSurface> ReadSurfaceFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (!file || !(text << file.rdbuf())) {
    return Fail(ErrorCode::kNotFound, fmt::format("surface '{}': cannot be read", path));
  }
  return ParseSurface(text.str(), path);
}

std::string SurfaceText(const NamedSurface& named) {
  json document = {{"model", named.model}, {"device", named.device}, {"source", named.source}};
  if (const SurfaceFormula* formula = named.surface.formula()) {
    json& fields = document["formula"];
    for (const FormulaField& field : kFormulaFields) fields[field.name] = formula->*field.member;
  } else {
    const SurfacePoints& points = *named.surface.points();
    document["points"] = {
        {"rows", points.rows}, {"shares", points.shares}, {"latency_ms", points.latency_ms}};
  }
  return DumpJson(document, 1) + "\n";
}

Status WriteSurfaceFile(const std::string& path, const NamedSurface& surface) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << SurfaceText(surface);
  file.close();
  if (file) return {};
  return Fail(ErrorCode::kUnavailable, fmt::format("surface '{}': cannot be written", path));
}

}  // namespace lagoon
