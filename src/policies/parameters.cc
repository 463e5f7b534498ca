#include "policies/parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace lagoon {
namespace {

double Us(Nanoseconds time) { return std::chrono::duration<double, std::micro>(time).count(); }
Nanoseconds FromUs(double us) {
  return std::chrono::round<Nanoseconds>(std::chrono::duration<double, std::micro>(us));
}
std::uint32_t Count(double value) { return static_cast<std::uint32_t>(value); }

constexpr SchedulerParameter kParameters[] = {
    {"admit_by_deadline", 0, 1, true,
     "1: a request that would miss its deadline behind what goes before it is refused at once",
     [](const SchedulerConfig& config) { return config.admit_by_deadline ? 1.0 : 0.0; },
     [](SchedulerConfig& config, double value) { config.admit_by_deadline = value != 0; }},
    {"block_events", 0, 65536, true,
     "blocks of a kernel that begin or end before the device says so; 0: only whole kernels count",
     [](const SchedulerConfig& config) -> double { return config.block_events; },
     [](SchedulerConfig& config, double value) { config.block_events = Count(value); }},
    {"depth", 1, 64, true, "kernels of one job in the device's queue",
     [](const SchedulerConfig& config) -> double { return config.depth; },
     [](SchedulerConfig& config, double value) { config.depth = Count(value); }},
    {"extra_blocks", 0, 65536, true, "blocks submitted beyond what the units hold at once",
     [](const SchedulerConfig& config) -> double { return config.extra_blocks.value_or(0); },
     [](SchedulerConfig& config, double value) { config.extra_blocks = Count(value); }},
    {"fairness_threshold", 0, 1e9, false,
     "kernels that a client may be behind an equal share before it goes first",
     [](const SchedulerConfig& config) { return config.policy.fairness_threshold; },
     [](SchedulerConfig& config, double value) { config.policy.fairness_threshold = value; }},
    {"lend_units", 0, 1, true,
     "1: other models use the units of a model's share while the model does not",
     [](const SchedulerConfig& config) { return config.lend_units ? 1.0 : 0.0; },
     [](SchedulerConfig& config, double value) { config.lend_units = value != 0; }},
    {"max_real_time_jobs", 0, 1024, true,
     "real-time jobs with unfinished kernels on the device at once; 0: no limit",
     [](const SchedulerConfig& config) -> double { return config.max_real_time_jobs; },
     [](SchedulerConfig& config, double value) { config.max_real_time_jobs = Count(value); }},
    {"packed_padding", 0, 1, true,
     "1: padding counts units by the blocks that they hold at once; 0: a unit for each block",
     [](const SchedulerConfig& config) { return config.packed_padding ? 1.0 : 0.0; },
     [](SchedulerConfig& config, double value) { config.packed_padding = value != 0; }},
    {"padding_ahead", 0, 1, true,
     "1: padding waits on the device for the tail or end of a kernel that needs all units",
     [](const SchedulerConfig& config) { return config.padding_ahead ? 1.0 : 0.0; },
     [](SchedulerConfig& config, double value) { config.padding_ahead = value != 0; }},
    {"padding_bandwidth", 0, 1, false,
     "part of the memory bandwidth for real-time work and padding (simulated GPUs); 0: no limit",
     [](const SchedulerConfig& config) { return config.padding_bandwidth; },
     [](SchedulerConfig& config, double value) { config.padding_bandwidth = value; }},
    {"padding_candidates", 0, 65536, true,
     "best-effort jobs that are looked at to fill a room; 0: only the policy's choice",
     [](const SchedulerConfig& config) -> double { return config.padding_candidates; },
     [](SchedulerConfig& config, double value) { config.padding_candidates = Count(value); }},
    {"padding_kernels", 0, 64, true,
     "next kernels of a real-time job beside which best-effort work is planned; 0: no padding",
     [](const SchedulerConfig& config) -> double { return config.padding_kernels; },
     [](SchedulerConfig& config, double value) { config.padding_kernels = Count(value); }},
    {"padding_leaves", 0, 1, true,
     "1: padding leaves when its room ends; 0: blocks that end in it (simulated GPUs)",
     [](const SchedulerConfig& config) { return config.padding_leaves ? 1.0 : 0.0; },
     [](SchedulerConfig& config, double value) { config.padding_leaves = value != 0; }},
    {"padding_versions", 0, 1, true,
     "1: padding may run in another version of its kernel (simulated: under reef, reef-mv)",
     [](const SchedulerConfig& config) { return config.padding_versions ? 1.0 : 0.0; },
     [](SchedulerConfig& config, double value) { config.padding_versions = value != 0; }},
    {"preempt_by_rank", 0, 1, true,
     "1: a best-effort job preempts those of worse rank; 0: it only goes before them",
     [](const SchedulerConfig& config) { return config.preempt_by_rank ? 1.0 : 0.0; },
     [](SchedulerConfig& config, double value) { config.preempt_by_rank = value != 0; }},
    {"elastic", 0, 1, true,
     "1: jobs run whole while arrivals are dense or nearly all of one model (SPLIT 3.3)",
     [](const SchedulerConfig& config) { return config.policy.elastic ? 1.0 : 0.0; },
     [](SchedulerConfig& config, double value) { config.policy.elastic = value != 0; }},
    {"dense", 0.1, 100, false, "load of the last second from which on arrivals are dense",
     [](const SchedulerConfig& config) { return config.policy.dense; },
     [](SchedulerConfig& config, double value) { config.policy.dense = value; }},
    {"patience", 0, 1e6, true,
     "later requests of other models that may pass the oldest request of a model; 0: no limit",
     [](const SchedulerConfig& config) -> double { return config.policy.patience; },
     [](SchedulerConfig& config, double value) { config.policy.patience = Count(value); }},
    {"together", 0, 1, true,
     "1: the answers of a round leave with its last job; 0: each at its end",
     [](const SchedulerConfig& config) { return config.policy.together ? 1.0 : 0.0; },
     [](SchedulerConfig& config, double value) { config.policy.together = value != 0; }},
    {"slice_us", 0, 1e6, false,
     "most time of a slice of a best-effort kernel, but at least a round of blocks; 0: no slices",
     [](const SchedulerConfig& config) { return Us(config.kernel_slice); },
     [](SchedulerConfig& config, double value) { config.kernel_slice = FromUs(value); }},
    {"quantum_us", 0, 1e6, false, "length of a turn in us; 0: one kernel, under time-slice one job",
     [](const SchedulerConfig& config) { return Us(config.policy.quantum); },
     [](SchedulerConfig& config, double value) { config.policy.quantum = FromUs(value); }},
};

tl::unexpected<Error> WrongForm(std::string_view text) {
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("scheduler '{}': the form is NAME or NAME:PARAMETER=NUMBER,"
                          "PARAMETER=NUMBER; `lagoon schedulers` lists the parameters",
                          text));
}

}  // namespace

std::span<const SchedulerParameter> SchedulerParameterTable() { return kParameters; }

Result<SchedulerChoice> SchedulerChoice::Parse(std::string_view text) {
  const std::size_t colon = text.find(':');
  SchedulerChoice choice{std::string(text.substr(0, colon))};
  if (choice.name.empty()) return WrongForm(text);
  std::string_view rest = colon == text.npos ? "" : text.substr(colon + 1);
  if (colon != text.npos && rest.empty()) return WrongForm(text);
  while (!rest.empty()) {
    const std::size_t comma = rest.find(',');
    const std::string_view one = rest.substr(0, comma);
    if (comma == rest.size() - 1) return WrongForm(text);
    rest = comma == rest.npos ? "" : rest.substr(comma + 1);
    const std::size_t equals = one.find('=');
    if (equals == one.npos || equals == 0) return WrongForm(text);
    const std::string_view digits = one.substr(equals + 1);
    double value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc() || end != digits.data() + digits.size()) return WrongForm(text);
    const std::string_view name = one.substr(0, equals);
    if (std::ranges::any_of(choice.parameters,
                            [&](const auto& set) { return set.first == name; })) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("scheduler '{}': '{}' is set twice", text, name));
    }
    choice.parameters.emplace_back(name, value);
  }
  return choice;
}

std::string SchedulerChoice::Text() const {
  std::string text = name;
  char separator = ':';
  for (const auto& [parameter, value] : parameters) {
    text += fmt::format("{}{}={}", separator, parameter, ValueText(value));
    separator = ',';
  }
  return text;
}

std::vector<std::string> SplitSchedulers(std::string_view list) {
  std::vector<std::string> schedulers;
  while (true) {
    const std::size_t comma = list.find(',');
    const std::string_view one = list.substr(0, comma);
    const bool parameter = one.find('=') != one.npos && one.find(':') == one.npos;
    if (parameter && !schedulers.empty()) {
      schedulers.back() += fmt::format(",{}", one);
    } else {
      schedulers.emplace_back(one);
    }
    if (comma == list.npos) return schedulers;
    list.remove_prefix(comma + 1);
  }
}

std::string ValueText(double value) { return fmt::format("{}", value); }

}  // namespace lagoon
