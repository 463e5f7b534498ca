#include "serving/python/instance.h"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <utility>

#include "base/guard.h"
#include "base/log.h"
#include "base/thread.h"
#include "serving/core/parameters.h"
#include "serving/python/tensors.h"

namespace lagoon {
namespace {

constexpr std::size_t kMostCalls = 256;  // of a program that are not answered
constexpr Nanoseconds kFinalizeLimit = std::chrono::seconds(10);
constexpr Nanoseconds kBusyLimit = std::chrono::seconds(2);  // the same within execute()
constexpr Nanoseconds kSendLimit = std::chrono::seconds(30);
constexpr Nanoseconds kLasts = std::chrono::minutes(1);  // of a program that is no failure

std::string TextIn(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() || !found->is_string() ? "" : found->get<std::string>();
}

std::uint64_t NumberIn(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() || !found->is_number_unsigned() ? 0 : found->get<std::uint64_t>();
}

bool FlagIn(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_boolean() && found->get<bool>();
}

const nlohmann::json& ListIn(const nlohmann::json& object, const char* key) {
  static const nlohmann::json kNone = nlohmann::json::array();
  const auto found = object.find(key);
  return found == object.end() ? kNone : *found;
}

tl::unexpected<Error> Broken(const std::string& what) {
  return Fail(ErrorCode::kInvalidArgument, what);
}

void LogOfProgram(const std::string& model, const nlohmann::json& object) {
  const std::string level = TextIn(object, "level"), text = TextIn(object, "text").substr(0, 8192);
  if (level == "error") return spdlog::error("model '{}': {}", model, text);
  if (level == "warning") return spdlog::warn("model '{}': {}", model, text);
  if (level == "verbose") return spdlog::debug("model '{}': {}", model, text);
  spdlog::info("model '{}': {}", model, text);
}

}  // namespace

/// What other threads have for the instance's thread. Outlives the instance where calls do.
class PythonInstance::Inbox {
 public:
  struct Result {
    std::uint64_t call = 0;
    lagoon::Result<InferResponse> answer;
    std::function<void()> taken;  // of an answer before the last one: AnswerStream::Give()
  };

  Inbox() : wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

  int wake() const { return wake_.number(); }
  void Wake() const {
    const std::uint64_t one = 1;
    (void)!::write(wake_.number(), &one, sizeof(one));
  }
  /// Where memory runs out, nothing has been moved.
  void Put(std::uint64_t call, lagoon::Result<InferResponse>&& answer,
           std::function<void()>&& taken = {}) {
    {
      const MutexLock lock(mutex_);
      Result& result = results_.emplace_back();
      result.call = call;
      result.answer = std::move(answer);
      result.taken = std::move(taken);
    }
    Wake();
  }
  void Take(std::uint64_t job) {
    {
      const MutexLock lock(mutex_);
      taken_.push_back(job);
    }
    Wake();
  }
  void Read(std::vector<Result>& results, std::vector<std::uint64_t>& taken) {
    const MutexLock lock(mutex_);
    results.swap(results_);
    taken.swap(taken_);
  }

 private:
  const OwnedDescriptor wake_;
  Mutex mutex_;
  std::vector<Result> results_ GUARDED_BY(mutex_);
  std::vector<std::uint64_t> taken_ GUARDED_BY(mutex_);  // a job for each answer
};

/// A request that the program has.
struct PythonInstance::Held {
  std::shared_ptr<PythonJob> job;
  bool of_execution = true;  // which has not returned
  bool told = false;         // that the request was answered without the program
  std::uint32_t untaken = 0;
  TimePoint full_since = kNoDeadline;
  TimePoint heard = {};
};

struct PythonInstance::Call {
  Call() = default;
  Call(Call&&) = default;
  Call& operator=(Call&&) = default;
  ~Call() {
    for (const std::function<void()>& taken : given) taken();
  }

  RequestHandle handle{};
  std::deque<std::function<void()>> given;  // answers that the program has not taken yet
};

/// The answers of a decoupled model that a program has called.
class PythonInstance::CallStream final : public AnswerStream {
 public:
  CallStream(std::shared_ptr<Inbox> inbox, std::uint64_t call)
      : inbox_(std::move(inbox)), call_(call) {}
  void Give(Result<InferResponse> answer, std::function<void()> taken) override {
    UntilMemorySuffices([&] { inbox_->Put(call_, std::move(answer), std::move(taken)); });
  }

 private:
  const std::shared_ptr<Inbox> inbox_;
  const std::uint64_t call_;
};

PythonInstance::PythonInstance(Options options)
    : options_(std::move(options)),
      inbox_(std::make_shared<Inbox>()),
      pause_(options_.first_pause) {}

PythonInstance::~PythonInstance() { Stop(); }

void PythonInstance::Start() {
  thread_ = std::jthread([this](const std::stop_token& stop) { Run(stop); });
}

Result<nlohmann::json> PythonInstance::AwaitReady() {
  const MutexLock lock(mutex_);
  while (!first_) started_.Wait(mutex_);
  return *first_;
}

void PythonInstance::Serve(PythonJobs& jobs) {
  jobs_.store(&jobs);
  Wake();
}

void PythonInstance::Stop() {
  if (!thread_.joinable()) return;
  thread_.request_stop();
  Wake();
  thread_.join();
}

void PythonInstance::Wake() { inbox_->Wake(); }

void PythonInstance::Run(const std::stop_token& stop) {
  NameThisThread("lagoon-python");
  Result<nlohmann::json> opened = WithoutExceptions([&] { return Open(stop); });
  const bool ready = opened.has_value();
  {
    const MutexLock lock(mutex_);
    first_.emplace(std::move(opened));
    started_.NotifyAll();
  }
  if (!ready) return;
  while (!stop.stop_requested()) {
    PythonJobs* const jobs = jobs_.load();
    if (jobs == nullptr) {
      (void)AwaitNews(-1, -1, inbox_->wake(), kNoDeadline);
      continue;
    }
    if (process_ == nullptr) {
      Pause(*jobs, stop);
      if (stop.stop_requested()) break;
      Result<nlohmann::json> again = WithoutExceptions([&] { return Open(stop); });
      if (!again) {
        Lose({ErrorCode::kInternal, "cannot be started again: " + again.error().message});
      }
      if (again) spdlog::info("model '{}': its Python process runs again", options_.model);
      continue;
    }
    const Status done = WithoutExceptions([&] { return Step(*jobs); });
    if (!done) UntilMemorySuffices([&] { Lose(done.error()); });
  }
  if (channel_ != nullptr) {
    (void)WithoutExceptions([&] { return AwaitEnd(); });
    channel_.reset();
  }
  if (process_ != nullptr) (void)process_->End(/*gently=*/true);
  process_.reset();
  for (auto& [id, held] : held_) {
    held.job->Fail({ErrorCode::kUnavailable, "the model is being unloaded"});
  }
  held_.clear();
  CancelCalls();
}

/// Waits for a moment until the program has closed its end, behind its finalize(). The channel must
/// stay open meanwhile: a program whose server has gone ends at once.
Status PythonInstance::AwaitEnd() {
  const Nanoseconds limit = executing_ ? kBusyLimit : kFinalizeLimit;
  LAGOON_RETURN_IF_ERROR(channel_->Send({{"op", "end"}}, {}, Now() + limit));
  for (const TimePoint until = Now() + limit; Now() < until;) {
    LAGOON_ASSIGN_OR_RETURN(const std::optional<ProgramMessage> message,
                            channel_->Receive(until, inbox_->wake()));
    if (message && TextIn(message->object, "op") == "log") {
      LogOfProgram(options_.model, message->object);
    }
  }
  spdlog::warn("model '{}': its Python process is killed: {} has not returned within {:.0f} s",
               options_.model, executing_ ? "execute()" : "finalize()",
               ToMilliseconds(limit) / 1000);
  return {};
}

/// Starts the program and waits until it is ready.
Result<nlohmann::json> PythonInstance::Open(const std::stop_token& stop) {
  if (inbox_->wake() < 0) {
    return Fail(ErrorCode::kResourceExhausted, "the server has no descriptors left");
  }
  LAGOON_ASSIGN_OR_RETURN(auto ends, ProgramChannel::Pair());
  LAGOON_ASSIGN_OR_RETURN(process_, options_.start(std::move(ends.second)));
  channel_ = std::make_unique<ProgramChannel>(std::move(ends.first), process_->ended());
  opened_ = Now();
  const TimePoint until = opened_ + options_.start_limit;
  Status problem = channel_->Send(options_.load, {}, opened_ + kSendLimit);
  while (problem && !stop.stop_requested()) {
    Result<std::optional<ProgramMessage>> message = channel_->Receive(until, inbox_->wake());
    if (!message) {
      problem = tl::unexpected<Error>(std::move(message).error());
    } else if (*message) {
      const nlohmann::json& object = (*message)->object;
      const std::string op = TextIn(object, "op");
      if (op == "ready") return object;
      if (op == "log") {
        LogOfProgram(options_.model, object);
      } else if (op == "failed") {
        problem = Fail(ErrorCode::kInvalidArgument, ReadError(ListIn(object, "error")).message);
      } else {
        problem = Broken("has sent no answer to the load");
      }
    } else if (Now() >= until) {
      problem =
          Fail(ErrorCode::kInvalidArgument,
               fmt::format("its program is not ready after {:.0f} s (lagoon.python_start_ms): "
                           "initialize() has not returned",
                           ToMilliseconds(options_.start_limit) / 1000));
    }
  }
  channel_.reset();
  const std::string end = process_->End(/*gently=*/false);
  process_.reset();
  if (problem) return Fail(ErrorCode::kUnavailable, "the server is shutting down");
  if (problem.error().code != ErrorCode::kUnavailable) {
    return tl::unexpected<Error>(std::move(problem).error());
  }
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("its Python process {} before it was ready", end));
}

/// One round: news of other threads, requests for the program, a message of the program. An error:
/// the program is of no use any more.
Status PythonInstance::Step(PythonJobs& jobs) {
  TimePoint until = Look(jobs);
  LAGOON_RETURN_IF_ERROR(Tell());
  if (executing_ && Now() >= execution_ends_) {
    return Broken(
        fmt::format("did not return from execute() for {:.0f} ms "
                    "(lagoon.python_timeout_ms)",
                    ToMilliseconds(options_.limit)));
  }
  TimePoint next = kNoDeadline;
  std::vector<std::shared_ptr<PythonJob>> batch = jobs.Take(!executing_, next);
  if (!batch.empty()) {
    LAGOON_RETURN_IF_ERROR(Execute(batch));
    until = Look(jobs);
  }
  until = std::min(until, next);
  if (executing_) until = std::min(until, execution_ends_);
  LAGOON_ASSIGN_OR_RETURN(const std::optional<ProgramMessage> message,
                          channel_->Receive(until, inbox_->wake()));
  return message ? Handle(*message) : Status{};
}

Status PythonInstance::Execute(const std::vector<std::shared_ptr<PythonJob>>& jobs) {
  const TimePoint taken = Now();
  nlohmann::json list = nlohmann::json::array();
  std::vector<std::span<const std::byte>> parts;
  for (const std::shared_ptr<PythonJob>& job : jobs) {
    list.push_back(job->Describe(parts));
    held_[job->id()] = {.job = job, .heard = taken};
  }
  const Status sent =
      channel_->Send({{"op", "execute"}, {"requests", std::move(list)}}, parts, taken + kSendLimit);
  if (!sent && sent.error().code == ErrorCode::kResourceExhausted) {
    for (const std::shared_ptr<PythonJob>& job : jobs) {
      job->Fail(sent.error());
      held_.erase(job->id());
    }
    return {};
  }
  LAGOON_RETURN_IF_ERROR(sent);
  const TimePoint now = Now();
  for (const std::shared_ptr<PythonJob>& job : jobs) job->Begun(taken, now);
  executing_ = true;
  execution_ends_ = now + options_.limit;
  return {};
}

/// Looks at the requests that the program has: those that were answered without it, whose deadlines
/// have passed, or whose clients do not read. Returns when to look again.
TimePoint PythonInstance::Look(const PythonJobs& jobs) {
  const TimePoint now = Now();
  TimePoint next = kNoDeadline;
  const bool others_wait = executing_ && jobs.Waiting() > 0;
  for (auto& [id, held] : held_) {
    PythonJob& job = *held.job;
    const Nanoseconds max_unread =
        held.of_execution && others_wait
            ? std::min(options_.max_unread, options_.max_unread_before_others)
            : options_.max_unread;
    if (job.deadline() <= now) job.Expire();
    const bool unread = held.full_since != kNoDeadline;
    if (unread && now - held.full_since >= max_unread) {
      job.Fail(
          {ErrorCode::kDeadlineExceeded,
           fmt::format("the client has read none of {} answers for {:.0f} ms ({})",
                       AnswerStream::kMostUntaken, ToMilliseconds(max_unread),
                       max_unread < options_.max_unread ? "others wait" : "lagoon.max_unread_ms")});
    }
    if (!held.of_execution && !unread && now - held.heard >= options_.limit) {
      job.Fail({ErrorCode::kUnavailable,
                fmt::format("the program gave no answer for {:.0f} ms after execute() "
                            "(lagoon.python_timeout_ms)",
                            ToMilliseconds(options_.limit))});
    }
    if (job.answered()) continue;
    next = std::min(next, job.deadline());
    if (unread) next = std::min(next, held.full_since + max_unread);
    if (!held.of_execution && !unread) next = std::min(next, held.heard + options_.limit);
  }
  return next;
}

/// Tells the program what has happened in other threads.
Status PythonInstance::Tell() {
  std::vector<Inbox::Result> results;
  std::vector<std::uint64_t> taken;
  inbox_->Read(results, taken);
  for (Inbox::Result& result : results) {
    const bool more = result.taken != nullptr;
    const auto call = calls_.find(result.call);
    if (call == calls_.end()) {  // of a program before, or one that the program has left
      if (more) result.taken();
      continue;
    }
    if (more) {
      call->second.given.push_back(std::move(result.taken));
    } else {
      calls_.erase(call);
    }
    nlohmann::json object = {{"op", "result"}, {"call", result.call}, {"more", more}};
    std::vector<std::span<const std::byte>> parts;
    if (!result.answer) object["error"] = ErrorObject(result.answer.error());
    if (result.answer) {
      object["parameters"] = ParametersObject(result.answer->parameters);
      nlohmann::json list = nlohmann::json::array();
      for (const OutputTensor& output : result.answer->outputs) {
        list.push_back(TensorObject(output.name, output.type, output.dims, output.data.size()));
        parts.emplace_back(output.data.data(), output.data.size());
      }
      object["outputs"] = std::move(list);
    }
    Status sent = channel_->Send(object, parts, Now() + kSendLimit);
    if (!sent && sent.error().code == ErrorCode::kResourceExhausted) {
      sent = channel_->Send({{"op", "result"},
                             {"call", result.call},
                             {"more", more},
                             {"error", ErrorObject(sent.error())}},
                            {}, Now() + kSendLimit);
    }
    LAGOON_RETURN_IF_ERROR(sent);
  }
  for (const std::uint64_t id : taken) {
    const auto held = held_.find(id);
    if (held == held_.end()) continue;
    held->second.untaken -= std::min(held->second.untaken, 1u);
    held->second.full_since = kNoDeadline;
    held->second.heard = Now();
    LAGOON_RETURN_IF_ERROR(channel_->Send({{"op", "taken"}, {"id", id}}, {}, Now() + kSendLimit));
  }
  bool any = false;
  for (auto& [id, held] : held_) {
    any = any || !held.job->answered();
    if (!held.job->answered() || std::exchange(held.told, true)) continue;
    held.job->Forget();
    LAGOON_RETURN_IF_ERROR(channel_->Send({{"op", "cancel"}, {"id", id}}, {}, Now() + kSendLimit));
  }
  if (!any && !held_.empty()) CancelCalls();  // nothing needs their answers
  return {};
}

Status PythonInstance::Handle(const ProgramMessage& message) {
  const std::string op = TextIn(message.object, "op");
  if (op == "answer") return HandleAnswer(message);
  if (op == "done") return HandleDone(message);
  if (op == "call") return HandleCall(message);
  if (op == "took" || op == "leave") {
    TakeAnswer(NumberIn(message.object, "call"), op == "leave");
    return {};
  }
  if (op != "log") return Broken("has sent a message of an unknown kind");
  LogOfProgram(options_.model, message.object);
  return {};
}

/// An answer to a request. Those to requests that the program does not have are ignored.
Status PythonInstance::HandleAnswer(const ProgramMessage& message) {
  const nlohmann::json& object = message.object;
  const std::uint64_t id = NumberIn(object, "id");
  const auto found = held_.find(id);
  if (found == held_.end()) return {};
  Held& held = found->second;
  PythonJob& job = *held.job;
  const bool last = FlagIn(object, "final");
  held.heard = Now();
  const auto error = object.find("error");
  const bool answers = error != object.end() || object.contains("outputs");
  Status given;
  if (options_.decoupled && !last) {
    if (answers && !job.answered()) given = Give(message, id, held);
  } else if (error != object.end()) {
    FlagIn(*error, "own") ? job.Refuse(ReadError(*error)) : job.Fail(ReadError(*error));
  } else if (answers || !options_.decoupled) {
    given = job.Answer(message);
  }
  if (!given) job.Fail(given.error());
  if (!last) return {};
  if (options_.decoupled) job.End();
  Release(id);
  return {};
}

/// An answer of a decoupled model before the last one.
Status PythonInstance::Give(const ProgramMessage& message, std::uint64_t id, Held& held) {
  if (held.untaken >= AnswerStream::kMostUntaken) {
    return Fail(ErrorCode::kInternal, "the program sends more answers than there is room for");
  }
  if (++held.untaken == AnswerStream::kMostUntaken) held.full_since = held.heard;
  return held.job->Give(message, [inbox = inbox_, id] { inbox->Take(id); });
}

/// The program is done with the request.
void PythonInstance::Release(std::uint64_t id) {
  const auto found = held_.find(id);
  if (found == held_.end()) return;
  found->second.job->Fail({ErrorCode::kInternal, "the program has given no answer"});
  held_.erase(found);
}

/// execute() has returned or thrown. A decoupled model may answer its requests later.
Status PythonInstance::HandleDone(const ProgramMessage& message) {
  executing_ = false;
  const bool failed = message.object.contains("error");
  std::vector<std::uint64_t> ended;
  for (auto& [id, held] : held_) {
    if (!std::exchange(held.of_execution, false)) continue;
    held.heard = Now();
    if (failed) held.job->Fail(ReadError(message.object["error"]));
    if (failed || !options_.decoupled) ended.push_back(id);
  }
  for (const std::uint64_t id : ended) Release(id);
  return {};
}

// ---- Calls of other models

Status PythonInstance::HandleCall(const ProgramMessage& message) {
  const nlohmann::json& object = message.object;
  const std::uint64_t call = NumberIn(object, "call");
  if (calls_.contains(call)) return Broken("has used the number of a call twice");
  calls_.try_emplace(call);
  const auto refuse = [&](Error error) {
    inbox_->Put(call, tl::unexpected<Error>(std::move(error)));
    return Status();
  };
  if (calls_.size() > kMostCalls) {
    return refuse({ErrorCode::kUnavailable,
                   fmt::format("{} calls of other models are not answered yet", kMostCalls)});
  }
  if (options_.calls == nullptr) {
    return refuse({ErrorCode::kUnimplemented, "this server calls no models"});
  }
  Result<std::vector<ProgramTensor>> tensors =
      ReadTensors(ListIn(object, "inputs"), message.bytes());
  if (!tensors) return refuse(std::move(tensors).error());
  InferRequest request;
  if (const auto parameters = object.find("parameters"); parameters != object.end()) {
    auto read = ReadRequestParameters(*parameters);
    if (!read) return refuse(std::move(read).error());
    request.parameters = *std::move(read);
  }
  request.model = TextIn(object, "model");
  request.version = TextIn(object, "version");
  request.id = TextIn(object, "id");
  request.priority = NumberIn(object, "priority");
  if (request.priority == 0 && AllLowered()) request.priority = 2;
  request.sequence.number = NumberIn(object, "sequence");
  request.sequence.text = TextIn(object, "sequence");
  const std::uint64_t flags = NumberIn(object, "flags");
  request.sequence.start = (flags & 1) != 0;
  request.sequence.end = (flags & 2) != 0;
  if (FlagIn(object, "decoupled")) request.stream = std::make_shared<CallStream>(inbox_, call);
  request.arrival = Now();
  const auto payload = std::make_shared<UnfilledBytes>(message.bytes());
  LAGOON_RETURN_IF_ERROR(message.Read(0, {payload->data(), payload->size()}));
  for (ProgramTensor& tensor : *tensors) {
    request.inputs.push_back({std::move(tensor.name),
                              tensor.type,
                              std::move(tensor.dims),
                              {payload->data() + tensor.offset, tensor.bytes}});
  }
  request.payload = payload;
  for (const nlohmann::json& output : ListIn(object, "outputs")) {
    if (output.is_string()) request.outputs.push_back(output.get<std::string>());
  }
  TimePoint deadline = DeadlineOfCalls();
  const std::uint64_t timeout_us = NumberIn(object, "timeout_us");
  if (timeout_us > 0 && timeout_us < std::uint64_t{1} << 40) {
    deadline = std::min(deadline, request.arrival + std::chrono::microseconds(timeout_us));
  }
  const RequestHandle handle =
      options_.calls->Call(options_.model, std::move(request), deadline,
                           [inbox = inbox_, call](Result<InferResponse> answer) {
                             UntilMemorySuffices([&] { inbox->Put(call, std::move(answer)); });
                           });
  calls_[call].handle = handle;
  return {};
}

/// The program has read an answer to a call that has several, or wants no more of them.
void PythonInstance::TakeAnswer(std::uint64_t number, bool leaves) {
  const auto call = calls_.find(number);
  if (call == calls_.end()) return;  // it has ended meanwhile
  if (leaves) {
    if (options_.calls != nullptr) options_.calls->CancelCall(call->second.handle);
    calls_.erase(call);
  } else if (auto& given = call->second.given; !given.empty()) {
    const std::function<void()> taken = std::move(given.front());
    given.pop_front();
    taken();
  }
}

/// The latest deadline of the requests that the program has.
TimePoint PythonInstance::DeadlineOfCalls() const {
  TimePoint latest{};
  for (const auto& [id, held] : held_) latest = std::max(latest, held.job->deadline());
  return held_.empty() ? kNoDeadline : latest;
}

bool PythonInstance::AllLowered() const {
  return !held_.empty() &&
         std::ranges::all_of(held_, [](const auto& held) { return held.second.job->lowered(); });
}

void PythonInstance::CancelCalls() {
  for (const auto& [call, one] : calls_) {
    if (options_.calls != nullptr) options_.calls->CancelCall(one.handle);
  }
}

// ---- The end of a program

/// Ends the program and answers its requests. `why` completes "its Python process ...".
void PythonInstance::Lose(const Error& why) {
  channel_.reset();  // a program that goes on ends by itself then
  const bool closed = why.code == ErrorCode::kUnavailable;
  const std::string end = process_ == nullptr ? "" : process_->End(/*gently=*/closed);
  const std::string reason = closed && !end.empty() ? end : why.message;
  process_.reset();
  executing_ = false;
  spdlog::error("model '{}': its Python process {}; starts again in {:.1f} s", options_.model,
                reason, ToMilliseconds(pause_) / 1000);
  for (auto& [id, held] : held_) {
    // Not kUnavailable, which fronts and clients send once more: the request may have ended it.
    held.job->Fail({ErrorCode::kInternal,
                    fmt::format("its Python process {}; it is being started again", reason)});
  }
  held_.clear();
  CancelCalls();
  calls_.clear();
}

/// Before the program is started again.
void PythonInstance::Pause(PythonJobs& jobs, const std::stop_token& stop) {
  if (Now() - opened_ > kLasts) pause_ = options_.first_pause;
  const TimePoint until = Now() + pause_;
  pause_ = std::min(2 * pause_, options_.longest_pause);
  while (Now() < until && !stop.stop_requested()) {
    TimePoint next = kNoDeadline;
    (void)WithoutExceptions([&] {
      jobs.Take(/*wants=*/false, next);  // some may have waited for too long
      return Status();
    });
    (void)AwaitNews(-1, -1, inbox_->wake(), std::min(until, next));
  }
}

}  // namespace lagoon
