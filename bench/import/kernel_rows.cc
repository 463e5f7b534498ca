#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <optional>
#include <span>
#include <utility>

#include "base/text.h"
#include "bench/import/kernel_files.h"
#include "bench/import/traced_kernels.h"

namespace lagoon {
namespace {

constexpr std::size_t kMostHeaderLine = 100;  // lines before it are text of the profiler

std::string Trimmed(const std::string& text) {
  constexpr std::string_view kBlanks = " \t";
  const std::size_t first = text.find_first_not_of(kBlanks);
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

// Splits a line at commas outside of quotes. A quote inside of a quoted field is doubled. Blanks
// around a field are left out.
std::vector<std::string> SplitRow(std::string_view line) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quoted && c == '"' && i + 1 < line.size() && line[i + 1] == '"') {
      fields.back() += c;
      ++i;
    } else if (c == '"') {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      fields.emplace_back();
    } else {
      fields.back() += c;
    }
  }
  std::ranges::transform(fields, fields.begin(), Trimmed);
  return fields;
}

// "Duration (ns)" as "duration" and "ns"; without a unit the second is empty.
std::pair<std::string, std::string> NameAndUnit(const std::string& title) {
  std::string name, unit;
  std::string* to = &name;
  for (const char c : title) {
    if (c == '(') {
      to = &unit;
    } else if (c != ')' && std::isspace(static_cast<unsigned char>(c)) == 0) {
      *to += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  }
  return {name, unit};
}

// How many nanoseconds or bytes a unit has; nothing: the unit is unknown.
std::optional<double> ScaleOf(const std::string& unit) {
  struct Scale {
    std::string_view unit;
    double factor;
  };
  static constexpr std::array kScales{Scale{"", 1},       Scale{"ns", 1},     Scale{"nsec", 1},
                                      Scale{"us", 1e3},   Scale{"usec", 1e3}, Scale{"ms", 1e6},
                                      Scale{"msec", 1e6}, Scale{"s", 1e9},    Scale{"sec", 1e9},
                                      Scale{"b", 1},      Scale{"bytes", 1},  Scale{"kb", 1e3},
                                      Scale{"mb", 1e6}};
  const auto* const found = std::ranges::find(kScales, unit, &Scale::unit);
  if (found == kScales.end()) return std::nullopt;
  return found->factor;
}

// What a column means. Several columns of a field are multiplied (GrdX, GrdY, GrdZ) or added.
struct Column {
  std::string_view name;
  double TracedKernel::*field = nullptr;  // of a number; nullptr: Put() says which member it is
  enum class Joins : std::uint8_t { kSets, kMultiplies, kAdds } joins = Joins::kSets;
  double scale = 1;
  bool needed = true;
};
using Joins = Column::Joins;

constexpr std::string_view kRestart = "restart";  // a column of text
constexpr std::string_view kName = "name";        // of the kernel: not read
constexpr std::string_view kDevice = "device";    // a column of text

constexpr std::array kOurs{
    Column{"blocks", &TracedKernel::blocks},
    Column{"time_us", &TracedKernel::time_ns, Joins::kSets, 1e3},
    Column{"block_us", nullptr, Joins::kSets, 1e3, false},
    Column{"threads", &TracedKernel::threads, Joins::kSets, 1, false},
    Column{"registers_per_thread", &TracedKernel::registers_per_thread, Joins::kSets, 1, false},
    Column{"shared_bytes", &TracedKernel::shared_bytes, Joins::kSets, 1, false},
    Column{"memory_bytes", &TracedKernel::memory_bytes, Joins::kSets, 1, false},
    Column{kRestart, nullptr, Joins::kSets, 1, false},
    Column{kName, nullptr, Joins::kSets, 1, false},
};
constexpr std::array kNsight{
    Column{"start", &TracedKernel::start_ns},
    Column{"duration", &TracedKernel::time_ns},
    Column{"grdx", &TracedKernel::blocks, Joins::kMultiplies},
    Column{"grdy", &TracedKernel::blocks, Joins::kMultiplies},
    Column{"grdz", &TracedKernel::blocks, Joins::kMultiplies},
    Column{"blkx", &TracedKernel::threads, Joins::kMultiplies},
    Column{"blky", &TracedKernel::threads, Joins::kMultiplies},
    Column{"blkz", &TracedKernel::threads, Joins::kMultiplies},
    Column{"reg/trd", &TracedKernel::registers_per_thread, Joins::kSets, 1, false},
    Column{"stcsmem", &TracedKernel::shared_bytes, Joins::kAdds, 1, false},
    Column{"dymsmem", &TracedKernel::shared_bytes, Joins::kAdds, 1, false},
    Column{kDevice, nullptr, Joins::kSets, 1, false},
    Column{kRestart, nullptr, Joins::kSets, 1, false},
};

class RowReader {
 public:
  // Whether the line is a header: it has all columns that one of the two formats needs.
  Result<bool> TakeHeader(const std::vector<std::string>& titles) {
    for (const std::span<const Column> columns :
         {std::span<const Column>(kOurs), std::span<const Column>(kNsight)}) {
      LAGOON_ASSIGN_OR_RETURN(const bool fits, Takes(columns, titles));
      if (!fits) continue;
      nsight_ = columns.data() == kNsight.data();
      // Reports of Nsight Systems have columns that are not needed here.
      if (!nsight_) LAGOON_RETURN_IF_ERROR(RefuseUnknown(titles));
      return true;
    }
    return false;
  }

  // Nothing: a row of Nsight Systems that is no kernel.
  Result<std::optional<TracedKernel>> Read(const std::vector<std::string>& row, std::size_t line) {
    TracedKernel kernel;
    kernel.where = fmt::format("line {}", line);
    if (row.size() != width_) {
      return Fail(ErrorCode::kInvalidArgument, fmt::format("{} has {} fields, the header has {}",
                                                           kernel.where, row.size(), width_));
    }
    if (nsight_) kernel.blocks = kernel.threads = 1;
    for (const Place& place : places_) {
      const std::string& text = row[place.index];
      if (text.empty() && nsight_ && place.column->joins == Joins::kMultiplies) {
        return std::optional<TracedKernel>();  // a copy or a fill has no grid
      }
      if (place.column->name == kName) continue;
      if (place.column->name == kRestart) {
        kernel.restart = text;
        continue;
      }
      if (place.column->name == kDevice) {
        kernel.device = text;
        continue;
      }
      if (text.empty() && !place.column->needed) continue;
      double value = 0;
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
      if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) {
        return Fail(ErrorCode::kInvalidArgument,
                    fmt::format("{}: '{}' is {}, it must be a number", kernel.where,
                                place.column->name, Quoted(text)));
      }
      Put(*place.column, value * place.scale, kernel);
    }
    return std::optional(std::move(kernel));
  }

 private:
  struct Place {
    const Column* column;
    std::size_t index;
    double scale;
  };

  Result<bool> Takes(std::span<const Column> columns, const std::vector<std::string>& titles) {
    places_.clear();
    width_ = titles.size();
    for (std::size_t i = 0; i < titles.size(); ++i) {
      const auto [name, unit] = NameAndUnit(titles[i]);
      const auto column = std::ranges::find(columns, name, &Column::name);
      if (column == columns.end()) continue;
      const std::optional<double> scale = ScaleOf(unit);
      if (!scale) {
        return Fail(ErrorCode::kInvalidArgument,
                    fmt::format("column {} has an unknown unit", Quoted(titles[i])));
      }
      if (std::ranges::find(places_, &*column, &Place::column) != places_.end()) {
        return Fail(ErrorCode::kInvalidArgument, fmt::format("has column '{}' twice", name));
      }
      places_.push_back({&*column, i, *scale * column->scale});
    }
    return std::ranges::all_of(columns, [&](const Column& column) {
      return !column.needed || std::ranges::find(places_, &column, &Place::column) != places_.end();
    });
  }

  static Status RefuseUnknown(const std::vector<std::string>& titles) {
    for (const std::string& title : titles) {
      if (std::ranges::find(kOurs, NameAndUnit(title).first, &Column::name) != kOurs.end()) {
        continue;
      }
      std::string known;
      for (const Column& column : kOurs) {
        known += fmt::format("{}{}", known.empty() ? "" : ", ", column.name);
      }
      return Fail(
          ErrorCode::kInvalidArgument,
          fmt::format("has an unknown column {}; the columns are {}", Quoted(title), known));
    }
    return {};
  }

  static void Put(const Column& column, double value, TracedKernel& kernel) {
    if (column.field == nullptr) {
      kernel.block_ns = value;
      return;
    }
    double& to = kernel.*column.field;
    switch (column.joins) {
      case Joins::kSets:
        to = value;
        break;
      case Joins::kMultiplies:
        to *= value;
        break;
      case Joins::kAdds:
        to += value;
        break;
    }
  }

  std::vector<Place> places_;
  std::size_t width_ = 0;
  bool nsight_ = false;
};

}  // namespace

Result<std::vector<TracedKernel>> ReadKernelRows(std::string_view text) {
  RowReader reader;
  std::vector<TracedKernel> kernels;
  bool header = false;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text = end == text.npos ? std::string_view() : text.substr(end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.find_first_not_of(" \t") == line.npos) continue;
    const std::vector<std::string> fields = SplitRow(line);
    if (!header) {
      LAGOON_ASSIGN_OR_RETURN(header, reader.TakeHeader(fields));
      if (!header && number == kMostHeaderLine) break;
      continue;
    }
    LAGOON_ASSIGN_OR_RETURN(std::optional<TracedKernel> kernel, reader.Read(fields, number));
    if (kernel) kernels.push_back(*std::move(kernel));
    if (kernels.size() > kMostListKernels) break;  // the caller refuses the list
  }
  if (!header) {
    return Fail(ErrorCode::kInvalidArgument,
                "has no header with the columns blocks and time_us, with commas, nor with those of "
                "`nsys stats "
                "--report cuda_gpu_trace` (Start, Duration, GrdX, ...)");
  }
  return kernels;
}

}  // namespace lagoon
