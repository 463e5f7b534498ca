#include "sim/interference/measured_points.h"

#include <fmt/format.h>

#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <span>
#include <utility>

#include "base/text.h"
#include "cluster/checks.h"

namespace lagoon {
namespace {

constexpr std::size_t kMostNeighbours = 64;
constexpr std::uintmax_t kMostBytes = std::uintmax_t{64} << 20;

using Words = std::vector<std::string_view>;

tl::unexpected<Error> Wrong(std::string message) {
  return Fail(ErrorCode::kInvalidArgument, std::move(message));
}

// The words of `text` between any of `separators`; empty ones are left out for blanks only.
Words Split(std::string_view text, std::string_view separators, bool keep_empty) {
  Words words;
  while (true) {
    const std::size_t end = text.find_first_of(separators);
    const std::string_view word = text.substr(0, end);
    if (keep_empty || !word.empty()) words.push_back(word);
    if (end == std::string_view::npos) return words;
    text.remove_prefix(end + 1);
  }
}

template <typename T>
Result<T> Number(const char* what, std::string_view word, Bounds bounds) {
  T value{};
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size()) {
    return Wrong(fmt::format("{} is {}, must be a number", what, Quoted(std::string(word))));
  }
  LAGOON_RETURN_IF_ERROR(CheckBounds(what, static_cast<double>(value), bounds));
  return value;
}

constexpr Bounds kRowsBounds = {1, 1024}, kShareBounds = {0.001, 1};
constexpr Bounds kMsBounds = {1e-6, 1e9}, kCopyBounds = {0, 1e9}, kLoadBounds = {0, 10};

Result<MeasuredNeighbour> ParseNeighbour(std::string_view word) {
  const Words parts = Split(word, ":", true);
  if (parts.size() != 3 || parts[0].empty()) {
    return Wrong(
        fmt::format("a neighbour is {}, must be MODEL:ROWS:SHARE", Quoted(std::string(word))));
  }
  MeasuredNeighbour neighbour = {.model = std::string(parts[0])};
  LAGOON_ASSIGN_OR_RETURN(neighbour.rows,
                          Number<std::int64_t>("rows of a neighbour", parts[1], kRowsBounds));
  LAGOON_ASSIGN_OR_RETURN(neighbour.share,
                          Number<double>("share of a neighbour", parts[2], kShareBounds));
  return neighbour;
}

// The number of `word`, which begins with `name`.
Result<double> ParseNamed(std::string_view word, std::string_view name, Bounds bounds) {
  if (!word.starts_with(name)) {
    return Wrong(fmt::format("there is {} where {} must follow", Quoted(std::string(word)), name));
  }
  const std::string field(name.substr(0, name.size() - 1));
  return Number<double>(field.c_str(), word.substr(name.size()), bounds);
}

// Two numbers that go together, which are taken from `words`; nothing if those are others.
Result<std::optional<std::pair<double, double>>> ParsePair(std::span<const std::string_view>& words,
                                                           std::string_view first,
                                                           std::string_view second, Bounds bounds) {
  if (words.empty() || !words[0].starts_with(first)) return std::nullopt;
  if (words.size() < 2) return Wrong(fmt::format("{} and {} go together", first, second));
  std::pair<double, double> found;
  LAGOON_ASSIGN_OR_RETURN(found.first, ParseNamed(words[0], first, bounds));
  LAGOON_ASSIGN_OR_RETURN(found.second, ParseNamed(words[1], second, bounds));
  words = words.subspan(2);
  return found;
}

Status CheckCopies(const MeasuredPoint& point) {
  if (!point.copies) return {};
  LAGOON_RETURN_IF_ERROR(CheckBounds("up", point.copies->up_ms, kCopyBounds));
  LAGOON_RETURN_IF_ERROR(CheckBounds("down", point.copies->down_ms, kCopyBounds));
  const double sum = point.copies->up_ms + point.copies->down_ms;
  if (sum < point.latency_ms) return {};
  return Wrong(fmt::format("up and down are {} together, must be below latency_ms, which is {}",
                           sum, point.latency_ms));
}

Result<MeasuredPoint> ParsePoint(std::span<const std::string_view> words) {
  if (words.size() < 4) {
    return Wrong(fmt::format("has {} fields, must have at least 4: model rows share latency_ms",
                             words.size()));
  }
  MeasuredPoint point = {.model = std::string(words[0])};
  if (point.model.find(':') != std::string::npos) {
    return Wrong(fmt::format("model {} has a ':' in its name", Quoted(point.model)));
  }
  LAGOON_ASSIGN_OR_RETURN(point.rows, Number<std::int64_t>("rows", words[1], kRowsBounds));
  LAGOON_ASSIGN_OR_RETURN(point.share, Number<double>("share", words[2], kShareBounds));
  LAGOON_ASSIGN_OR_RETURN(point.latency_ms, Number<double>("latency_ms", words[3], kMsBounds));
  words = words.subspan(4);
  LAGOON_ASSIGN_OR_RETURN(const auto load, ParsePair(words, "cache=", "dram=", kLoadBounds));
  if (load) point.load = {load->first, load->second};
  LAGOON_ASSIGN_OR_RETURN(const auto copies, ParsePair(words, "up=", "down=", kCopyBounds));
  if (copies) point.copies = {copies->first, copies->second};
  LAGOON_RETURN_IF_ERROR(CheckCopies(point));
  if (words.empty()) return point;
  if (words[0] != "beside" || words.size() < 2 || words.size() > kMostNeighbours + 1) {
    return Wrong(
        fmt::format("ends in {}; cache= dram=, up= down=, then 'beside' and 1 to {} neighbours may "
                    "stand there",
                    Quoted(std::string(words[0])), kMostNeighbours));
  }
  for (const std::string_view word : words.subspan(1)) {
    LAGOON_ASSIGN_OR_RETURN(MeasuredNeighbour neighbour, ParseNeighbour(word));
    point.neighbours.push_back(std::move(neighbour));
  }
  return point;
}

}  // namespace

Status CheckMeasuredPoint(const MeasuredPoint& point) {
  LAGOON_RETURN_IF_ERROR(CheckBounds("rows", static_cast<double>(point.rows), kRowsBounds));
  LAGOON_RETURN_IF_ERROR(CheckBounds("share", point.share, kShareBounds));
  LAGOON_RETURN_IF_ERROR(CheckBounds("latency_ms", point.latency_ms, kMsBounds));
  if (point.load) {
    LAGOON_RETURN_IF_ERROR(CheckBounds("cache", point.load->cache, kLoadBounds));
    LAGOON_RETURN_IF_ERROR(CheckBounds("dram", point.load->dram, kLoadBounds));
  }
  LAGOON_RETURN_IF_ERROR(CheckCopies(point));
  for (const MeasuredNeighbour& neighbour : point.neighbours) {
    LAGOON_RETURN_IF_ERROR(
        CheckBounds("rows of a neighbour", static_cast<double>(neighbour.rows), kRowsBounds));
    LAGOON_RETURN_IF_ERROR(CheckBounds("share of a neighbour", neighbour.share, kShareBounds));
  }
  return {};
}

Result<std::vector<MeasuredPoint>> ParseMeasuredPoints(std::string_view text,
                                                       const std::string& name) {
  std::vector<MeasuredPoint> points;
  std::size_t number = 0;
  for (const std::string_view line : Split(text, "\n", true)) {
    ++number;
    const Words words = Split(line.substr(0, line.find('#')), " \t\r", false);
    if (words.empty()) continue;
    auto point = ParsePoint(words);
    if (!point) return Annotate(fmt::format("{}:{}", name, number), point.error());
    points.push_back(*std::move(point));
  }
  if (points.empty()) return Wrong(fmt::format("{}: there are no points", name));
  return points;
}

Result<std::vector<MeasuredPoint>> ReadMeasuredPoints(const std::string& path) {
  std::error_code error;
  const std::uintmax_t bytes = std::filesystem::file_size(path, error);
  std::ifstream file(path, std::ios::binary);
  if (error || !file) {
    return Fail(ErrorCode::kNotFound, fmt::format("cannot read {}", Quoted(path)));
  }
  if (bytes > kMostBytes) {
    return Fail(ErrorCode::kResourceExhausted,
                fmt::format("{} has {} bytes, more than {}", Quoted(path), bytes, kMostBytes));
  }
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  return ParseMeasuredPoints(text, path);
}

std::string MeasuredPointsText(const std::vector<MeasuredPoint>& points) {
  std::string text =
      "# model rows share latency_ms [cache=X dram=Y] [beside MODEL:ROWS:SHARE...]\n";
  for (const MeasuredPoint& point : points) {
    text += fmt::format("{} {} {} {}", point.model, point.rows, point.share, point.latency_ms);
    if (point.load) text += fmt::format(" cache={} dram={}", point.load->cache, point.load->dram);
    if (point.copies) {
      text += fmt::format(" up={} down={}", point.copies->up_ms, point.copies->down_ms);
    }
    if (!point.neighbours.empty()) text += " beside";
    for (const MeasuredNeighbour& neighbour : point.neighbours) {
      text += fmt::format(" {}:{}:{}", neighbour.model, neighbour.rows, neighbour.share);
    }
    text += '\n';
  }
  return text;
}

Status WriteMeasuredPoints(const std::string& path, const std::vector<MeasuredPoint>& points) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << MeasuredPointsText(points);
  file.close();
  if (file) return {};
  return Fail(ErrorCode::kUnavailable, fmt::format("cannot write {}", Quoted(path)));
}

}  // namespace lagoon
