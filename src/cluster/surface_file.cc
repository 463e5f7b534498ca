#include "cluster/surface_file.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>
#include <vector>

#include "base/json_fields.h"

namespace lagoon {
namespace {

using nlohmann::json;

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
  SurfaceFormula formula;
  JsonFields fields;
  for (const FormulaField& field : kFormulaFields) {
    fields.push_back(JsonField::Number(field.name, formula.*field.member));
  }
  LAGOON_RETURN_IF_ERROR(ReadFields(value, fields));
  return Surface::FromFormula(formula);
}

Result<Surface> PointsFrom(const json& value) {
  SurfacePoints points;
  const auto row = [&](const json& entry) -> Status {
    if (!entry.is_number_integer()) return JsonField::Misfit();
    points.rows.push_back(entry.get<std::int64_t>());
    return {};
  };
  const auto numbers = [](std::vector<double>& to) {
    return [&to](const json& entry) -> Status {
      if (!entry.is_number()) return JsonField::Misfit();
      to.push_back(entry.get<double>());
      return {};
    };
  };
  const auto line = [&](const json& entry) {
    return ReadList(entry, numbers(points.latency_ms.emplace_back()));
  };
  LAGOON_RETURN_IF_ERROR(
      ReadFields(value, {JsonField::List("rows", "whole numbers", row),
                         JsonField::List("shares", "numbers", numbers(points.shares)),
                         JsonField::List("latency_ms", "lists of numbers", line)}));
  return Surface::FromPoints(std::move(points));
}

/// The fields of a surface, and the surfaces that they give.
JsonFields SurfaceFields(std::vector<Surface>& surfaces) {
  const auto add = [&surfaces](Result<Surface> (*from)(const json&)) {
    return [&surfaces, from](const json& value) -> Status {
      LAGOON_ASSIGN_OR_RETURN(Surface surface, from(value));
      surfaces.push_back(std::move(surface));
      return {};
    };
  };
  return {{"formula", "an object", add(FormulaFrom)}, {"points", "an object", add(PointsFrom)}};
}

Result<Surface> OneOf(std::vector<Surface> surfaces) {
  if (surfaces.size() == 1) return std::move(surfaces.front());
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("has {} 'formula' {} 'points', must have one of them",
                          surfaces.empty() ? "neither" : "both", surfaces.empty() ? "nor" : "and"));
}

Result<NamedSurface> NamedSurfaceFrom(std::string_view text) {
  std::string model, device, source;
  std::vector<Surface> surfaces;
  LAGOON_RETURN_IF_ERROR(
      ReadJson(text,
               {JsonField::Text("model", model), JsonField::Text("device", device),
                JsonField::Text("source", source)},
               SurfaceFields(surfaces)));
  LAGOON_ASSIGN_OR_RETURN(Surface surface, OneOf(std::move(surfaces)));
  return NamedSurface{std::move(model), std::move(device), std::move(source), std::move(surface)};
}

}  // namespace

Result<NamedSurface> ParseSurface(std::string_view text, const std::string& name) {
  auto surface = NamedSurfaceFrom(text);
  if (!surface) return Annotate(fmt::format("surface '{}'", name), std::move(surface).error());
  return surface;
}

json SurfaceJson(const Surface& surface) {
  json value;
  if (const SurfaceFormula* formula = surface.formula()) {
    json& fields = value["formula"];
    for (const FormulaField& field : kFormulaFields) fields[field.name] = formula->*field.member;
    return value;
  }
  const SurfacePoints& points = *surface.points();
  value["points"] = {
      {"rows", points.rows}, {"shares", points.shares}, {"latency_ms", points.latency_ms}};
  return value;
}

Result<Surface> SurfaceFrom(const json& value) {
  std::vector<Surface> surfaces;
  LAGOON_RETURN_IF_ERROR(ReadFields(value, {}, SurfaceFields(surfaces)));
  return OneOf(std::move(surfaces));
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
  json document = SurfaceJson(named.surface);
  document["model"] = named.model;
  document["device"] = named.device;
  document["source"] = named.source;
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
