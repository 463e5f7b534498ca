#include "bench/measure/windows.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <random>

#include "bench/measure/interval.h"
#include "bench/measure/statistics.h"

namespace lagoon::bench {
namespace {

// Limits, as a part of the window's core time plus a constant for the resolution of /proc (some
// ticks of 10 ms).
constexpr double kMostStolen = 0.02, kMostStolenS = 0.02;
constexpr double kMostForeign = 0.05, kMostForeignS = 0.05;
// The unit of work runs in registers: only another program on the same physical core, or another
// clock rate, makes it slower than usual.
constexpr double kMostSlow = 1.15;
// The limit is twice the usual lateness plus a scheduler's time slice.
constexpr double kMostLate = 2, kMostLateUs = 4'000;
constexpr double kForRounds = 0.8;       // part of the time limit; the rest is for repetitions
constexpr std::size_t kLeastTrials = 3;  // with fewer trials "usual" is unknown
constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

double UsualValue(const std::vector<HostReading>& readings, double HostReading::*member) {
  std::vector<double> values;
  for (const HostReading& reading : readings) {
    if (!std::isnan(reading.*member)) values.push_back(reading.*member);
  }
  return values.size() < kLeastTrials ? kUnknown : Median(std::move(values));
}

// Like std::shuffle, but the same with every standard library.
template <typename T>
void Shuffle(std::vector<T>& items, std::mt19937& random) {
  for (std::size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[random() % i]);
}

class Runner {
 public:
  Runner(const WindowsPlan& plan, HostWatch& watch, const std::function<TimePoint()>& now,
         const MeasureWindow& measure)
      : plan_(plan),
        watch_(watch),
        now_(now),
        measure_(measure),
        begin_(now()),
        random_(plan.seed),
        trials_(plan.groups.size()) {}

  Status MeasureRounds() {
    for (int round = 0; round < plan_.rounds; ++round) {
      if (round > 0 && !Fits(round, kForRounds * plan_.seconds)) return {};
      std::vector<std::size_t> groups(plan_.groups.size());
      std::iota(groups.begin(), groups.end(), std::size_t{0});
      Shuffle(groups, random_);
      for (const std::size_t group : groups) {
        LAGOON_RETURN_IF_ERROR(MeasureTrial(group, static_cast<std::size_t>(round)));
      }
    }
    return {};
  }

  Status RepeatDisturbed() {
    std::size_t all = 0;
    for (const auto& trials : trials_) all += trials.size();
    const auto limit = static_cast<int>(std::ceil(plan_.repeats * static_cast<double>(all)));
    for (;;) {
      JudgeAll();
      std::vector<std::pair<std::size_t, std::size_t>> again;  // group, trial
      for (std::size_t group = 0; group < trials_.size(); ++group) {
        for (std::size_t i = 0; i < trials_[group].size(); ++i) {
          if (trials_[group][i].disturbed && !trials_[group][i].replaced)
            again.push_back({group, i});
        }
      }
      Shuffle(again, random_);
      for (const auto& [group, trial] : again) {
        if (summary_.repeated == limit) break;
        if (!Fits(static_cast<int>(all) + summary_.repeated, plan_.seconds)) {
          JudgeAll();
          return {};
        }
        ++summary_.repeated;
        trials_[group][trial].replaced = true;
        LAGOON_RETURN_IF_ERROR(MeasureTrial(group, trials_[group][trial].round));
      }
      if (again.empty() || summary_.repeated == limit) break;
    }
    JudgeAll();
    return {};
  }

  WindowsResult Finish() {
    WindowsResult result;
    for (std::size_t group = 0; group < trials_.size(); ++group) {
      std::vector<std::size_t>& counted = result.trials.emplace_back();
      for (std::size_t i = 0; i < trials_[group].size(); ++i) {
        Count(trials_[group][i]);
        if (!trials_[group][i].disturbed) counted.push_back(i);
      }
      result.clean.push_back(!counted.empty());
      summary_.thrown_out += static_cast<int>(trials_[group].size() - counted.size());
      if (!counted.empty()) continue;
      summary_.only_disturbed.push_back(plan_.groups[group]);
      counted.resize(trials_[group].size());
      std::iota(counted.begin(), counted.end(), std::size_t{0});
    }
    result.summary = std::move(summary_);
    return result;
  }

 private:
  // Whether one more round (or trial) ends within `seconds` if it takes the mean time of the `done`
  // ones.
  bool Fits(int done, double seconds) const {
    if (plan_.seconds <= 0) return true;
    const double passed = std::chrono::duration<double>(now_() - begin_).count();
    return passed / done * (done + 1) <= seconds;
  }

  struct Trial {
    std::size_t round = 0;
    std::vector<HostReading> readings;  // by window
    std::vector<Disturbance> found;     // by window
    bool disturbed = false;             // at least one window is disturbed
    bool replaced = false;              // a repetition has been measured
  };

  Status MeasureTrial(std::size_t group, std::size_t round) {
    Trial trial;
    trial.round = round;
    trial.readings.resize(plan_.windows.size());
    std::vector<std::size_t> windows(plan_.windows.size());
    std::iota(windows.begin(), windows.end(), std::size_t{0});
    Shuffle(windows, random_);
    if (plan_.prepare) LAGOON_RETURN_IF_ERROR(plan_.prepare(group));
    for (const std::size_t window : windows) {
      watch_.Begin();
      LAGOON_RETURN_IF_ERROR(measure_({group, window, trials_[group].size(), round}));
      trial.readings[window] = watch_.End();
    }
    trials_[group].push_back(std::move(trial));
    return {};
  }

  // Judges all trials again, as each new trial makes the usual values better known.
  void JudgeAll() {
    for (std::vector<Trial>& trials : trials_) {
      for (Trial& trial : trials) {
        trial.found.assign(plan_.windows.size(), Disturbance::kNone);
        trial.disturbed = false;
      }
      for (std::size_t window = 0; window < plan_.windows.size(); ++window) {
        std::vector<HostReading> readings;
        for (const Trial& trial : trials) readings.push_back(trial.readings[window]);
        HostReading usual;
        usual.unit_us = UsualValue(readings, &HostReading::unit_us);
        usual.late_us = UsualValue(readings, &HostReading::late_us);
        for (Trial& trial : trials) {
          trial.found[window] = Judge(trial.readings[window], usual);
          trial.disturbed = trial.disturbed || trial.found[window] != Disturbance::kNone;
        }
      }
    }
  }

  void Count(const Trial& trial) {
    for (std::size_t window = 0; window < trial.readings.size(); ++window) {
      const HostReading& reading = trial.readings[window];
      ++summary_.windows;
      summary_.core_seconds += reading.core_seconds;
      if (!std::isnan(reading.stolen_s)) summary_.stolen_s += reading.stolen_s;
      if (!std::isnan(reading.foreign_s)) summary_.foreign_s += reading.foreign_s;
      summary_.probe_s += reading.probe_s;
      if (trial.found[window] == Disturbance::kNone) continue;
      ++summary_.disturbed;
      ++(trial.found[window] == Disturbance::kStolen    ? summary_.stolen
         : trial.found[window] == Disturbance::kForeign ? summary_.foreign
         : trial.found[window] == Disturbance::kSlow    ? summary_.slow
                                                        : summary_.late);
    }
  }

  const WindowsPlan& plan_;
  HostWatch& watch_;
  const std::function<TimePoint()>& now_;
  const MeasureWindow& measure_;
  const TimePoint begin_;
  std::mt19937 random_;
  std::vector<std::vector<Trial>> trials_;  // by group
  WindowsSummary summary_;
};

}  // namespace

// Comparisons with NaN are false: unknown values never count as a disturbance.
Disturbance Judge(const HostReading& reading, const HostReading& usual) {
  if (reading.stolen_s > kMostStolenS + kMostStolen * reading.core_seconds) {
    return Disturbance::kStolen;
  }
  if (reading.foreign_s > kMostForeignS + kMostForeign * reading.core_seconds) {
    return Disturbance::kForeign;
  }
  if (reading.unit_us > kMostSlow * usual.unit_us) return Disturbance::kSlow;
  if (reading.late_us > kMostLate * usual.late_us + kMostLateUs) return Disturbance::kLate;
  return Disturbance::kNone;
}

void WindowsSummary::Add(const WindowsSummary& other) {
  windows += other.windows;
  disturbed += other.disturbed;
  stolen += other.stolen;
  foreign += other.foreign;
  slow += other.slow;
  late += other.late;
  repeated += other.repeated;
  thrown_out += other.thrown_out;
  core_seconds += other.core_seconds;
  stolen_s += other.stolen_s;
  foreign_s += other.foreign_s;
  probe_s += other.probe_s;
  only_disturbed.insert(only_disturbed.end(), other.only_disturbed.begin(),
                        other.only_disturbed.end());
}

nlohmann::json WindowsSummary::Json() const {
  const auto part = [&](double seconds) { return core_seconds > 0 ? seconds / core_seconds : 0; };
  return {
      {"windows", windows},
      {"disturbed", disturbed},
      {"disturbed_by", {{"steal", stolen}, {"foreign", foreign}, {"slow", slow}, {"late", late}}},
      {"trials_repeated", repeated},
      {"trials_thrown_out", thrown_out},
      {"only_disturbed", only_disturbed},
      {"steal_fraction", part(stolen_s)},
      {"foreign_fraction", part(foreign_s)},
      {"probe_fraction", part(probe_s)}};
}

Result<WindowsResult> MeasureWindows(const WindowsPlan& plan, HostWatch& watch,
                                     const std::function<TimePoint()>& now,
                                     const MeasureWindow& measure) {
  Runner runner(plan, watch, now, measure);
  LAGOON_RETURN_IF_ERROR(runner.MeasureRounds());
  LAGOON_RETURN_IF_ERROR(runner.RepeatDisturbed());
  return runner.Finish();
}

}  // namespace lagoon::bench
