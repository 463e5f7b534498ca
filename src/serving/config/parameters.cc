#include "serving/config/parameters.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <iterator>
#include <optional>
#include <system_error>
#include <utility>

#include "plan/parts.h"

namespace lagoon {
namespace {

using Rows = std::vector<ConfigParameter>;
using Text = std::string_view;

constexpr Text kPrecision = "precision";
constexpr double kMostDeadlineMs = 86'400'000;                // a day
constexpr double kLeastSloMs = 0.01, kMostSloMs = 3'600'000;  // an hour
constexpr double kLeastPercent = 0.01, kMostPercent = 100;
constexpr double kLeastWeight = 1e-3, kMostWeight = 1e3;

/// The number that the whole text is; nullopt: it is none, or does not fit.
template <typename Number>
std::optional<Number> ParseNumber(Text text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// The number from `least` to `most` that the whole text is.
template <typename Number>
std::optional<Number> NumberWithin(Text text, Number least, Number most) {
  const auto value = ParseNumber<Number>(text);
  const bool within = value && *value >= least && *value <= most;
  return within ? value : std::nullopt;
}

/// Reads a time above 0 and up to a day. False: it is none.
bool ReadMilliseconds(Text text, Nanoseconds& to) {
  const auto ms = NumberWithin<double>(text, 0, kMostDeadlineMs);
  if (!ms || *ms == 0) return false;
  to = Nanoseconds(std::max(std::llround(*ms * 1e6), 1ll));
  return true;
}

/// Reads "x=1x3x320x320 mask=1x320; x=1x3x640x640 mask=1x640": sets of shapes by input.
std::optional<std::vector<std::map<std::string, Dims>>> ParseShapes(Text text) {
  std::vector<std::map<std::string, Dims>> sets;
  while (!text.empty()) {
    Text set = text.substr(0, text.find(';'));
    text.remove_prefix(std::min(set.size() + 1, text.size()));
    std::map<std::string, Dims> shapes;
    while (!set.empty()) {
      const Text word = set.substr(0, set.find(' '));
      set.remove_prefix(std::min(word.size() + 1, set.size()));
      if (word.empty()) continue;
      const std::size_t equals = word.rfind('=');
      if (equals == Text::npos || equals == 0) return std::nullopt;
      const std::optional<Dims> dims = ParseDims(word.substr(equals + 1));
      if (!dims || !shapes.emplace(word.substr(0, equals), *dims).second) return std::nullopt;
    }
    if (!shapes.empty()) sets.push_back(std::move(shapes));
  }
  return sets;
}

/// Reads "16,32,64": sizes in any order.
std::optional<std::vector<std::int64_t>> ParseBuckets(Text text) {
  std::vector<std::int64_t> sizes;
  while (true) {
    const Text word = text.substr(0, text.find(','));
    const auto size = NumberWithin<std::int64_t>(word, 1, kMaxBucket);
    if (!size || sizes.size() == kMaxBuckets) return {};
    sizes.push_back(*size);
    if (word.size() == text.size()) break;
    text.remove_prefix(word.size() + 1);
  }
  std::ranges::sort(sizes);
  if (sizes.back() == 1 || std::ranges::adjacent_find(sizes) != sizes.end()) return {};
  return sizes;
}

Rows QueueRows() {
  return {
      {"lagoon.deadline_ms", "", "milliseconds above 0, at most a day", "none",
       "deadline of a request that has no `timeout`",
       [](Text, Text value, ModelSettings& settings) {
         return ReadMilliseconds(value, settings.deadline);
       }},
      {"lagoon.overflow", "", "'reject' or 'newest_wins'", "reject",
       "what a full queue does: refuses the new request, or gives up its oldest one",
       [](Text, Text value, ModelSettings& settings) {
         if (value != "reject" && value != "newest_wins") return false;
         settings.overflow = value == "reject" ? Overflow::kReject : Overflow::kNewestWins;
         return true;
       }},
      {"lagoon.max_queue_size", "", fmt::format("a number from 1 to {}", kMaxQueueSize),
       "64; with `dynamic_batching`, `max_batch_size` if that is more",
       "requests that may wait in a queue; wins over `max_queue_size` of a queue policy",
       [](Text, Text value, ModelSettings& settings) {
         const auto size = NumberWithin<std::size_t>(value, 1, kMaxQueueSize);
         if (size) settings.max_queue_size = *size;
         return size.has_value();
       }},
  };
}

Rows BatchRows() {
  return {
      {"lagoon.places", "", fmt::format("a number from 1 to {}", kMaxPlaces), "1",
       "batches of a class that are posted at once",
       [](Text, Text value, ModelSettings& settings) {
         const auto places = NumberWithin<std::uint32_t>(value, 1, kMaxPlaces);
         if (places) settings.batching.places = *places;
         return places.has_value();
       }},
      {"lagoon.slo_ms", "", fmt::format("milliseconds from {} to {}", kLeastSloMs, kMostSloMs),
       "none", "batches are kept so small that they end in time; a tuned share follows it too",
       [](Text, Text value, ModelSettings& settings) {
         const auto ms = NumberWithin(value, kLeastSloMs, kMostSloMs);
         if (!ms) return false;
         const std::chrono::duration<double, std::milli> slo(*ms);
         settings.batching.limit.slo = std::chrono::round<Nanoseconds>(slo);
         return true;
       }},
      {"lagoon.slo_of", "", "request or batch", "request", "what `lagoon.slo_ms` is about",
       [](Text, Text value, ModelSettings& settings) {
         if (value != "request" && value != "batch") return false;
         settings.batching.limit.slo_of = value == "batch" ? SloOf::kBatch : SloOf::kRequest;
         return true;
       }},
      {"lagoon.batching", "", BatchLimiterWords() + " or off", "slab",
       "how the rows of a batch are limited",
       [](Text, Text value, ModelSettings& settings) {
         const bool known = value == BatchLimitSettings::kNoLimiter ||
                            MakeBatchLimiter(value, {.slo = std::chrono::seconds(1)}).has_value();
         if (known) settings.batching.limit.limiter = std::string(value);
         return known;
       }},
  };
}

Rows ShareRows() {
  return {
      {"lagoon.share", "",
       fmt::format("'auto' or percent of the device from {} to {}", kLeastPercent, kMostPercent),
       "the whole device", "the model's part of the device; auto: the server tunes the part",
       [](Text, Text value, ModelSettings& settings) {
         if (value == "auto") return settings.share.automatic = true;
         const auto percent = NumberWithin(value, kLeastPercent, kMostPercent);
         if (percent) settings.share.fixed = *percent / 100;
         return percent.has_value();
       }},
      {"lagoon.weight", "", fmt::format("a number from {} to {}", kLeastWeight, kMostWeight), "1",
       "under the scheduler `weighted`: time of the device in proportion",
       [](Text, Text value, ModelSettings& settings) {
         settings.share.weight = NumberWithin(value, kLeastWeight, kMostWeight);
         return settings.share.weight.has_value();
       }},
  };
}

Rows ShapeRows() {
  return {
      {"lagoon.dimension.", "NAME", "a size of at least 1", "open",
       "fixes the dimension NAME that the model leaves open",
       [](Text rest, Text value, ModelSettings& settings) {
         const auto size = ParseNumber<std::int64_t>(value);
         if (!size || *size < 1) return false;
         settings.dimensions[std::string(rest)] = *size;
         return true;
       }},
      {"lagoon.shapes", "",
       "shapes by input, like 'x=1x3x320x320; x=1x3x640x640': inputs of one set with blanks "
       "between them, sets with semicolons",
       "none", "input shapes whose plans are ready when the server starts",
       [](Text, Text value, ModelSettings& settings) {
         auto shapes = ParseShapes(value);
         if (!shapes || shapes->empty() || shapes->size() > kMaxPlans) return false;
         settings.shapes = *std::move(shapes);
         return true;
       }},
      {"lagoon.buckets.", "NAME",
       fmt::format("up to {} different sizes with commas between them, like '16,32,64', the "
                   "largest from 2 to {}",
                   kMaxBuckets, kMaxBucket),
       "none", "sizes to which the open dimension NAME is rounded up, with zeros",
       [](Text rest, Text value, ModelSettings& settings) {
         auto sizes = ParseBuckets(value);
         if (!sizes) return false;
         settings.buckets[std::string(rest)] = *std::move(sizes);
         return true;
       }},
  };
}

Rows PlanRows() {
  return {
      {"lagoon.other_shapes", "", "'compile' or 'refuse'", "compile",
       "what happens to shapes without a plan",
       [](Text, Text value, ModelSettings& settings) {
         if (value != "compile" && value != "refuse") return false;
         settings.refuse_other_shapes = value == "refuse";
         return true;
       }},
      {"lagoon.max_plans", "", fmt::format("a number from 1 to {}", kMaxPlans), "64",
       "plans that are kept; those of larger batches than 64 rows have room besides",
       [](Text, Text value, ModelSettings& settings) {
         const auto count = NumberWithin<std::size_t>(value, 1, kMaxPlans);
         if (count) settings.max_plans = *count;
         return count.has_value();
       }},
      {"lagoon.parts", "", fmt::format("'auto' or a number from 1 to {}", kMaxPlanParts),
       "those that `lagoon split --save` has kept, else 1", "parts of equal time of each plan",
       [](Text, Text value, ModelSettings& settings) {
         settings.parts =
             value == "auto" ? kAutoParts : NumberWithin<std::uint32_t>(value, 1, kMaxPlanParts);
         return settings.parts.has_value();
       }},
      {"lagoon.restart", "", "'claims', 'group' or 'wait'", "claims",
       "a revoked kernel goes on with other tiles, runs again with its group, or runs to its end",
       [](Text, Text value, ModelSettings& settings) {
         constexpr std::string_view kWords[] = {"claims", "group", "wait"};  // as in Restart
         const auto* word = std::ranges::find(kWords, value);
         if (word == std::end(kWords)) return false;
         settings.restart = static_cast<Restart>(word - kWords);
         return true;
       }},
      {kPrecision, "", "'fp32' or 'bf16'", "fp32",
       "type of the factors in convolutions and products with weights; sums are fp32",
       [](Text, Text value, ModelSettings& settings) {
         const Result<Precision> precision = ParsePrecision(value);
         if (precision) settings.precision = *precision;
         return precision.has_value();
       }},
  };
}

Rows ProgramRows() {
  return {
      {"lagoon.model.", "ROLE", "the name of a model", "",
       "of a job program: the model that plays ROLE",
       [](Text rest, Text value, ModelSettings& settings) {
         settings.models[std::string(rest)] = value;
         return true;
       }},
      {"lagoon.max_unread_ms", "", "milliseconds above 0, at most a day", "10000",
       "a request of a decoupled model ends when its client reads none of eight answers for so "
       "long; 1 s while others wait",
       [](Text, Text value, ModelSettings& settings) {
         return ReadMilliseconds(value, settings.max_unread);
       }},
      {"lagoon.python_timeout_ms", "", "milliseconds above 0, at most a day", "300000",
       "of a model of Python: an execution that takes longer ends the program, which starts again",
       [](Text, Text value, ModelSettings& settings) {
         return ReadMilliseconds(value, settings.python_timeout);
       }},
      {"lagoon.python_start_ms", "", "milliseconds above 0, at most a day", "600000",
       "of a model of Python: the longest time until `initialize` has returned",
       [](Text, Text value, ModelSettings& settings) {
         return ReadMilliseconds(value, settings.python_start);
       }},
      {"job.", "NAME", "any text", "", "of a job program: a parameter of its own",
       [](Text rest, Text value, ModelSettings& settings) {
         settings.parameters[std::string(rest)] = value;
         return true;
       }},
  };
}

const ConfigParameter* Find(Text key) {
  const auto found = std::ranges::find_if(ConfigParameters(), [key](const ConfigParameter& row) {
    if (row.name.empty()) return key == row.key;
    return key.starts_with(row.key) && key.size() > row.key.size();
  });
  return found == ConfigParameters().end() ? nullptr : &*found;
}

}  // namespace

const std::vector<ConfigParameter>& ConfigParameters() {
  static const Rows kRows = [] {
    Rows all;
    for (const auto make : {QueueRows, BatchRows, ShareRows, ShapeRows, PlanRows, ProgramRows}) {
      std::ranges::move(make(), std::back_inserter(all));
    }
    return all;
  }();
  return kRows;
}

bool IsForLagoon(std::string_view key) {
  return key.starts_with("lagoon.") || key.starts_with("job.") || key == kPrecision;
}

Status ReadParameter(std::string_view key, std::string_view value, ModelSettings& settings) {
  const ConfigParameter* row = Find(key);
  if (row == nullptr) {
    std::vector<std::string> words;
    for (const ConfigParameter& known : ConfigParameters()) words.push_back(known.Word());
    return Fail(ErrorCode::kInvalidArgument, fmt::format("parameter '{}' is unknown; Lagoon has {}",
                                                         key, fmt::join(words, ", ")));
  }
  if (row->read(key.substr(row->name.empty() ? 0 : row->key.size()), value, settings)) return {};
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("parameter '{}' is '{}'; it takes {}", key, value, row->takes));
}

}  // namespace lagoon
