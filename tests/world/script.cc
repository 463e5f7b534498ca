#include "world/script.h"

#include <algorithm>
#include <array>
#include <sstream>
#include <utility>

#include "world/models.h"

namespace lagoon::world {
namespace {

constexpr std::array kKinds = {"infer", "cancel",  "load", "unload", "switch", "resize",
                               "hold",  "release", "lose", "starve", "look",   "await"};

bool HasModel(Event::Kind kind) {
  return kind == Event::Kind::kInfer || kind == Event::Kind::kLoad ||
         kind == Event::Kind::kUnload || kind == Event::Kind::kResize;
}

std::uint64_t DrawPause(Dice& dice) {
  switch (dice.Below(8)) {
    case 0:
      return 0;
    case 1:
      return static_cast<std::uint64_t>(dice.Between(1, 2'000'000));
    case 2:
    case 3:
      return static_cast<std::uint64_t>(dice.Between(1, 50'000));
    default:
      return static_cast<std::uint64_t>(dice.Between(1, 800));
  }
}

std::uint64_t DrawTimeout(Dice& dice) {
  switch (dice.Below(5)) {
    case 0:
      return static_cast<std::uint64_t>(dice.Between(1, 300));
    case 1:
      return static_cast<std::uint64_t>(dice.Between(300, 20'000));
    case 2:
      return static_cast<std::uint64_t>(dice.Between(20'000, 3'000'000));
    default:
      return 0;
  }
}

/// `starves`: memory runs out in this world.
Event DrawEvent(Dice& dice, const Script& script, bool starves) {
  Event event;
  event.client = static_cast<std::uint32_t>(dice.Below(kClients));
  event.pause_us = DrawPause(dice);
  event.model = script.models[static_cast<std::size_t>(
      dice.Below(static_cast<std::int64_t>(script.models.size())))];
  const std::int64_t what = dice.Below(100);
  event.number = static_cast<std::uint64_t>(dice.Below(what < 66 ? 40 : 1'000'000));
  if (what < 66) {
    event.kind = Event::Kind::kInfer;
    event.first = DrawTimeout(dice);
    event.second = static_cast<std::uint64_t>(dice.Below(3));
  } else if (what < 74) {
    event.kind = Event::Kind::kCancel;
    event.number %= 4;
  } else if (what < 79) {
    event.kind = Event::Kind::kLoad;
  } else if (what < 81) {
    event.kind = Event::Kind::kUnload;
  } else if (what < 84) {
    event.kind = Event::Kind::kSwitch;
    event.number %= SchedulerTexts().size();
  } else if (what < 87) {
    event.kind = Event::Kind::kResize;
    event.number = event.number % 4 * 250;
  } else if (what < 89) {
    event.kind = Event::Kind::kHold;
  } else if (what < 91) {
    event.kind = Event::Kind::kRelease;
    event.pause_us += static_cast<std::uint64_t>(dice.Below(300'000'000));
  } else if (what < 92) {
    event.kind = dice.OneIn(2) ? Event::Kind::kLose : Event::Kind::kLook;
    event.number %= 3;
  } else if (what < 95 && starves) {
    event.kind = Event::Kind::kStarve;
    event.number = 1 + event.number % (event.number % 2 == 0 ? 30 : 2000);
    event.first = static_cast<std::uint64_t>(dice.OneIn(4) ? dice.Between(2, 20) : 1);
  } else if (what < 97) {
    event.kind = Event::Kind::kLook;
  } else {
    event.kind = Event::Kind::kAwait;
  }
  return event;
}

void DrawThreads(Dice& dice, ThreadOptions& threads) {
  static constexpr std::array<std::uint32_t, 5> kPoints = {2, 8, 30, 100, 1000};
  static constexpr std::array<std::uint32_t, 4> kAllocations = {20, 100, 1000, 20'000};
  static constexpr std::array<std::uint32_t, 4> kCosts = {20, 200, 2000, 10'000};
  static constexpr std::array<std::uint32_t, 4> kSlow = {0, 2, 4, 8};
  static constexpr std::array<std::uint32_t, 4> kStalls = {0, 100, 1000, 10'000};
  const auto pick = [&](const auto& values) {
    return values[static_cast<std::size_t>(dice.Below(static_cast<std::int64_t>(values.size())))];
  };
  threads.seed = dice.Draw() >> 16;
  threads.points_per_switch = pick(kPoints);
  threads.allocations_per_switch = pick(kAllocations);
  threads.ns_per_point = pick(kCosts);
  threads.slow_threads = pick(kSlow);
  threads.switches_per_stall = pick(kStalls);
}

}  // namespace

const std::vector<std::string>& SchedulerTexts() {
  static const std::vector<std::string> texts = {"reset",      "reef",       "lagoon",   "wait",
                                                 "fifo",       "shares",     "edf",      "paella",
                                                 "time-slice", "sequential", "weighted", "streams"};
  return texts;
}

Script DrawScript(std::uint64_t seed) {
  Dice dice(seed);
  Script script;
  DrawThreads(dice, script.threads);
  script.devices = dice.OneIn(6) ? 2 : 1;
  script.workers = static_cast<std::uint32_t>(dice.Between(1, script.devices > 1 ? 1 : 3));
  script.scheduler =
      static_cast<std::uint32_t>(dice.Below(static_cast<std::int64_t>(SchedulerTexts().size())));
  script.config = dice.Draw() >> 32;
  std::vector<std::string> names = ModelNames();
  if (script.devices > 1) std::erase(names, "program");  // cannot move
  const std::int64_t models = dice.Between(1, 3);
  for (std::int64_t i = 0; i < models; ++i) {
    const auto at = names.begin() + dice.Below(static_cast<std::int64_t>(names.size()));
    script.models.push_back(*at);
    names.erase(at);
  }
  const std::int64_t events = dice.Between(10, 60);
  // The thread of a job program, and the program, are not made for it.
  const bool program = std::ranges::find(script.models, "program") != script.models.end();
  const bool starves = script.devices == 1 && dice.OneIn(3) && !program;
  for (std::int64_t i = 0; i < events; ++i) {
    script.events.push_back(DrawEvent(dice, script, starves));
  }
  return script;
}

std::string ToText(const Script& script) {
  std::ostringstream text;
  const ThreadOptions& threads = script.threads;
  text << "world " << threads.seed << ' ' << threads.points_per_switch << ' '
       << threads.allocations_per_switch << ' ' << threads.ns_per_point << ' '
       << threads.slow_threads << ' ' << threads.switches_per_stall << ' ' << script.devices << ' '
       << script.workers << ' ' << script.scheduler << ' ' << script.config;
  for (const std::string& model : script.models) text << ' ' << model;
  text << '\n';
  for (const Event& event : script.events) {
    text << event.client << ' ' << event.pause_us << ' '
         << kKinds[static_cast<std::size_t>(event.kind)];
    if (HasModel(event.kind)) text << ' ' << event.model;
    text << ' ' << event.number << ' ' << event.first << ' ' << event.second << '\n';
  }
  return text.str();
}

Result<Script> ParseScript(const std::string& text) {
  Script script;
  std::istringstream lines(text);
  std::string line;
  while (std::getline(lines, line)) {
    if (line.empty() || line.front() == '#') continue;
    std::istringstream words(line);
    const auto wrong = [&] {
      return Fail(ErrorCode::kInvalidArgument, "not a line of a script: '" + line + "'");
    };
    if (line.starts_with("world ")) {
      std::string word;
      ThreadOptions& threads = script.threads;
      words >> word >> threads.seed >> threads.points_per_switch >>
          threads.allocations_per_switch >> threads.ns_per_point >> threads.slow_threads >>
          threads.switches_per_stall >> script.devices >> script.workers >> script.scheduler >>
          script.config;
      if (words.fail()) return wrong();
      while (words >> word) script.models.push_back(word);
      continue;
    }
    Event event;
    std::string kind;
    words >> event.client >> event.pause_us >> kind;
    const auto found = std::ranges::find(kKinds, kind);
    if (found == kKinds.end() || event.client >= kClients) return wrong();
    event.kind = static_cast<Event::Kind>(found - kKinds.begin());
    if (HasModel(event.kind)) words >> event.model;
    words >> event.number >> event.first >> event.second;
    if (words.fail()) return wrong();
    script.events.push_back(std::move(event));
  }
  if (script.models.empty() || script.scheduler >= SchedulerTexts().size()) {
    return Fail(ErrorCode::kInvalidArgument, "the script has no line that begins with 'world'");
  }
  return script;
}

}  // namespace lagoon::world
