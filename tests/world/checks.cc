// Checks of what must hold in a city.

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "local/plans/failed_plans.h"
#include "serving/config/model_config.pb.h"
#include "serving/core/scheduler_control.h"
#include "serving/core/share_control.h"
#include "serving/core_options.h"
#include "world/allocations.h"
#include "world/city.h"
#include "world/log.h"
#include "world/threads.h"

namespace lagoon::world {
namespace {

// How long an answer may come after its deadline. Threads of the world stall for seconds.
constexpr Nanoseconds kMostLate = std::chrono::minutes(1);
// How long anything may take once nothing holds it up.
constexpr Nanoseconds kPatience = std::chrono::hours(2);

std::string Text(const std::vector<OutputTensor>& outputs) {
  std::string text;
  for (const OutputTensor& output : outputs) {
    std::vector<float> values(output.data.size() / sizeof(float));
    if (!values.empty()) std::memcpy(values.data(), output.data.data(), output.data.size());
    text += fmt::format("{} [{}] {{{}}} ", output.name, fmt::join(output.dims, ","),
                        fmt::join(values, ","));
  }
  return text;
}

bool SameShares(const SharesReport& a, const SharesReport& b) {
  return std::ranges::equal(a.models, b.models, [](const ModelShare& x, const ModelShare& y) {
    return x.model == y.model && x.units == y.units && x.moves == y.moves;
  });
}

}  // namespace

// ---- Answers

void City::Answered(Sent& sent, const Result<InferResponse>& answer) {
  const MutexLock lock(mutex_);
  ++sent.answers;
  if (sent.answers > 1) Violation(fmt::format("{}: a request is answered twice", sent.model));
  const TimePoint now = Now();
  const Traits traits = TraitsOf(sent.model);
  const bool bounded = !traits.batches && !traits.opaque && sent.deadline != kNoDeadline;
  if (bounded && now - sent.deadline > kMostLate) {
    Violation(
        fmt::format("{}: an answer comes {:.1f} s after the deadline, which was {:.3f} s "
                    "after the request",
                    sent.model, ToMilliseconds(now - sent.deadline) / 1000,
                    ToMilliseconds(sent.deadline - sent.at) / 1000));
  }
  if (answer) {
    ++report_.right;
    CheckRight(sent, *answer);
  } else {
    ++report_.refused;
    CheckRefusal(sent, answer.error());
  }
  Note(answer ? 0 : 1 + static_cast<std::uint64_t>(answer.error().code));
  ModelHistory& state = models_[sent.model];
  if (state.outstanding > kMostWaiting) state.full_at = now;
  --state.outstanding;
  --outstanding_;
  news_.NotifyAll();
}

bool City::IsRight(const Sent& sent, const InferResponse& response, float constant) const {
  const std::vector<Output> right = sent.ask.right(constant);
  if (response.outputs.size() != right.size()) return false;
  for (std::size_t i = 0; i < right.size(); ++i) {
    const OutputTensor& output = response.outputs[i];
    if (output.name != right[i].name || output.dims != right[i].dims) return false;
    if (output.data.size() != right[i].values.size() * sizeof(float)) return false;
    if (!output.data.empty() &&
        std::memcmp(output.data.data(), right[i].values.data(), output.data.size()) != 0) {
      return false;
    }
  }
  return true;
}

void City::CheckRight(const Sent& sent, const InferResponse& response) {
  if (!sent.ask.wrong.empty()) {
    Violation(fmt::format("{}: a request is answered although {}", sent.model, sent.ask.wrong));
  }
  const ModelHistory& state = models_[sent.model];
  const TimePoint now = Now();
  for (const ModelHistory::Constant& constant : state.constants) {
    const bool may_be = losses_ > 0 || (constant.from <= now && constant.to >= sent.at);
    if (may_be && IsRight(sent, response, constant.value)) return;
  }
  const std::vector<Output> right = sent.ask.right(state.constants.back().value);
  Violation(fmt::format("{}: a wrong answer: {}, right is [{}] {{{}}} with the last constant",
                        sent.model, Text(response.outputs), fmt::join(right[0].dims, ","),
                        fmt::join(right[0].values, ",")));
}

void City::CheckRefusal(const Sent& sent, const Error& error) {
  bool is_true = false;
  switch (error.code) {
    case ErrorCode::kDeadlineExceeded:
      // A request that would be late may be answered before its deadline.
      is_true = sent.deadline != kNoDeadline;
      break;
    case ErrorCode::kCancelled:
      is_true = sent.cancelled;
      break;
    case ErrorCode::kInvalidArgument:
      is_true = !sent.ask.wrong.empty();
      break;
    case ErrorCode::kNotFound:
      is_true = losses_ > 0 && MayBeUnloaded(sent);
      break;
    case ErrorCode::kResourceExhausted:
      is_true = FailedAllocations() > sent.failed_allocations;
      break;
    case ErrorCode::kUnavailable:
      is_true = MayBeUnavailable(sent, error.message);
      break;
    default:
      break;
  }
  if (is_true) return;
  Violation(fmt::format("{}: a request is refused for a reason that is not so: {}", sent.model,
                        error.message));
}

bool City::MayBeUnloaded(const Sent& sent) const {
  const ModelHistory& state = models_.at(sent.model);
  return !state.loaded || state.unloads > 0 || state.loaded_since >= sent.at;
}

bool City::MayBeUnavailable(const Sent& sent, const std::string& why) const {
  const ModelHistory& state = models_.at(sent.model);
  if (closing_ || lost_at_ >= sent.at || MayBeUnloaded(sent)) return true;
  const auto says = [&](const char* words) { return why.find(words) != std::string::npos; };
  const bool full = state.outstanding > kMostWaiting || state.full_at >= sent.at;
  if (says("is full") || says("are waiting") || says("requests wait") || says("shapes wait")) {
    return full;
  }
  if (says("superseded")) return full && sent.model == "newest";
  if (says("would be late")) return sent.deadline != kNoDeadline;
  // A model that could not be loaded when the device came back.
  if (says("is not served")) return losses_ > 0 && FailedAllocations() > 0;
  if (says("had no time for the request")) return Now() - sent.at >= CoreOptions().max_wait;
  return false;
}

// ---- Changes

void City::Changed(const ModelChange& change, const Status& done) {
  const MutexLock lock(mutex_);
  const auto& [model, constant, load, failed_allocations] = change;
  ModelHistory& state = models_[model];
  Note(done.has_value() ? 77 : 78);
  if (!load) --state.unloads;
  if (done) {
    if (load && !state.loaded) state.loaded_since = Now();
    if (!load) state.loaded_since = Now();
    state.loaded = load;
    for (std::size_t i = 0; load && i < constant; ++i) {
      state.constants[i].to = std::min(state.constants[i].to, Now());
    }
  } else {
    const ErrorCode code = done.error().code;
    // A share that a client has made larger may leave none for a configuration that wants one.
    const bool no_room =
        resized_ && done.error().message.find("make the fixed share") != std::string::npos;
    const bool memory = code == ErrorCode::kResourceExhausted ||
                        done.error().message.find("out of memory") != std::string::npos;
    const bool is_true = (memory && FailedAllocations() > failed_allocations) || closing_ ||
                         losses_ > 0 || no_room || TraitsOf(model).program ||
                         (!load && code == ErrorCode::kNotFound && !state.loaded);
    if (!is_true) {
      Violation(fmt::format("{}: {} fails: {}", model, load ? "loading" : "unloading",
                            done.error().message));
    }
  }
  --changes_;
  news_.NotifyAll();
}

// ---- What can be read

void City::Look() {
  static_cast<void>(core_->Statistics("", ""));
  static_cast<void>(core_->schedulers()->SchedulerStatistics());
  for (const ModelStatus& status : core_->Models()) {
    static_cast<void>(core_->Metadata(status.name, ""));
    static_cast<void>(core_->Config(status.name, ""));
  }
  CheckShares();
}

/// The shares are where the report says, apart from the time of a move: the report is made after
/// it, and the thread that moves may stall meanwhile.
void City::CheckShares() const {
  if (script_.devices > 1) return;
  constexpr int kTries = 3000;  // of 20 ms
  std::string wrong = WrongShare();
  for (int i = 0; i < kTries && !wrong.empty(); ++i) {
    SleepFor(20'000'000);
    wrong = WrongShare();
  }
  if (!wrong.empty()) Violation(wrong);
}

/// What is wrong with a share; empty if nothing is, or if shares are being changed.
std::string City::WrongShare() const {
  const Result<SharesReport> before = core_->shares()->ReadShares();
  const std::vector<UnitRange> ranges = const_cast<Devices&>(devices_).Shares();
  const Result<SharesReport> after = core_->shares()->ReadShares();
  if (!before || !after || !SameShares(*before, *after)) return "";
  if (before->kind != ShareKind::kUnits) return "";
  {
    const MutexLock lock(mutex_);
    if (changes_ > 0 || lost_at_ == kNoDeadline) return "";
  }
  for (const ModelShare& share : before->models) {
    if (share.units.count == 0 || std::ranges::find(ranges, share.units) != ranges.end()) continue;
    return fmt::format(
        "{}: its share is units {} to {}, says the report, but no share of the "
        "device is there",
        share.model, share.units.first, share.units.end());
  }
  return "";
}

// ---- The end

void City::AwaitQuiet() {
  const TimePoint until = Now() + kPatience;
  const MutexLock lock(mutex_);
  while (outstanding_ > 0 || changes_ > 0) {
    if (Now() >= until) {
      std::string left;
      for (const Sent& sent : sent_) {
        if (sent.answers == 0) left += " " + sent.model;
      }
      Violation(fmt::format("{} requests are never answered, {} changes never done:{}",
                            outstanding_, changes_, left));
    }
    news_.WaitUntil(mutex_, until);
  }
}

/// A request to an idle server gets the right answer.
void City::Probe(const std::string& model) {
  Sent* sent = nullptr;
  {
    const MutexLock lock(mutex_);
    if (!models_[model].loaded) return;
    sent = &sent_.emplace_back();
    sent->model = model;
    sent->client = kClients;
    std::uint64_t number = 0;
    do {
      sent->ask = MakeAsk(model, number++);
    } while (!sent->ask.wrong.empty());
  }
  Send(*sent);
  AwaitQuiet();
}

/// A plan that cannot be made is tried again after a pause only. A model that is loaded anew does
/// not know of the failures before.
void City::CheckFailedAttempts() {
  if (script_.devices > 1 || FailedAllocations() > 0) return;
  std::map<std::string, TimePoint> last;
  std::map<std::string, std::size_t> early;  // attempts of each plan
  for (const FailedAttempt& attempt : FailedAttempts()) {
    if (attempt.text.find("device of the world") != std::string::npos) continue;  // it was lost
    const auto [before, first] = last.insert({attempt.text, attempt.at});
    if (!first && attempt.at - before->second < FailedPlans::kFirstPause) ++early[attempt.text];
    before->second = attempt.at;
  }
  const MutexLock lock(mutex_);
  for (const auto& [model, state] : models_) {
    const std::size_t loads = state.constants.size() - 1 + static_cast<std::size_t>(losses_);
    for (const auto& [text, count] : early) {
      if (!text.starts_with(fmt::format("model '{}':", model)) || count <= loads) continue;
      Violation(fmt::format("a plan that cannot be made is tried again at once, {} times: {}",
                            count, text));
    }
  }
}

void City::CheckQuiet() {
  for (const std::string& model : script_.models) Probe(model);
  const Result<std::vector<ModelStatistics>> statistics = core_->Statistics("", "");
  if (!statistics) Violation("no statistics: " + statistics.error().message);
  for (const ModelStatistics& model : *statistics) {
    if (model.pending != 0) {
      Violation(
          fmt::format("{}: {} requests wait, but all are answered", model.name, model.pending));
    }
  }
  CheckFailedAttempts();
  Look();
}

void City::Reload(const std::string& model) {
  Event event;
  event.kind = Event::Kind::kLoad;
  event.model = model;
  event.number = script_.config;
  Change(event);
  AwaitQuiet();
}

void City::LoadAllAgain() {
  engine_->loaded.clear();  // it keeps all models
  for (const std::string& model : script_.models) {
    if (!TraitsOf(model).program) Reload(model);
    Probe(model);
    const MutexLock lock(mutex_);
    if (!sent_.empty() && sent_.back().client == kClients) sent_.pop_back();
    if (models_[model].constants.size() > 1) models_[model].constants.pop_front();
  }
}

/// Models that are loaded again, and requests, take the same each time. Some rounds may take more:
/// a queue keeps the streams that the largest of its models needed.
void City::CheckGrowth() {
  if (script_.devices > 1) return;
  constexpr int kRounds = 8, kMustRest = 4;  // of so many rounds in a row, one takes no more
  struct Count {
    const char* name;
    std::function<std::int64_t()> read;
    std::int64_t last = 0;
    int grows = 0;  // rounds in a row
  };
  Count counts[] = {
      {"allocations", [] { return LiveAllocations() - static_cast<std::int64_t>(ThreadsSoFar()); }},
      {"buffers", [this] { return devices_.Buffers(); }},
      {"streams, shares and guards", [this] { return devices_.Created(); }},
  };
  for (int round = 0; round < kRounds; ++round) {
    LoadAllAgain();
    // Statistics of the last minute hold nothing any more.
    SleepFor(static_cast<std::uint64_t>(Nanoseconds(std::chrono::minutes(2)).count()));
    for (Count& count : counts) {
      const std::int64_t now = count.read();
      count.grows = now > count.last ? count.grows + 1 : 0;
      count.last = now;
    }
  }
  for (const Count& count : counts) {
    if (count.grows < kMustRest) continue;
    Violation(
        fmt::format("loading the same models again takes more {} each time, {} rounds in a row",
                    count.name, count.grows));
  }
}

}  // namespace lagoon::world
