#pragma once

// What the opaque handles of lagoon.h are.

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "lagoon/lagoon.h"
#include "local/host_log.h"
#include "local/local_device.h"
#include "local/local_model.h"
#include "local/run.h"

namespace lagoon::capi {

class KeptDevice;
class KeptModel;

/// Runs under way, and whether more may begin. Any thread.
class Gate {
 public:
  /// False: closed.
  bool Enter();
  void Leave();
  /// No run begins any more.
  void Close() { word_.fetch_or(kClosed); }
  bool closed() const { return (word_.load(std::memory_order_acquire) & kClosed) != 0; }
  /// After Close(): waits until all have left, or until `until`.
  void AwaitEmpty(TimePoint until) const;

 private:
  static constexpr std::uint32_t kClosed = std::uint32_t{1} << 31;  // below: how many have entered
  std::atomic<std::uint32_t> word_{0};
};

/// A device until all handles of it and of its models and runs are freed.
class KeptDevice {
 public:
  KeptDevice(std::unique_ptr<HostLog> log_in, std::unique_ptr<LocalDevice> device_in)
      : log(std::move(log_in)), device(std::move(device_in)) {}

  /// Its models' runs are cancelled, and have ended, or `until` has come.
  void Close(TimePoint until);
  void Add(KeptModel& model);
  void Remove(KeptModel& model);
  std::vector<std::shared_ptr<KeptModel>> Models();

  std::unique_ptr<HostLog> log;  // null: there is none
  const std::unique_ptr<LocalDevice> device;
  std::atomic<bool> closed{false};

 private:
  Mutex mutex_;
  std::vector<std::pair<KeptModel*, std::weak_ptr<KeptModel>>> models_ GUARDED_BY(mutex_);
};

/// A model until all handles of it and of its runs are freed.
class KeptModel : public std::enable_shared_from_this<KeptModel> {
 public:
  KeptModel(std::shared_ptr<KeptDevice> device_in, std::unique_ptr<LocalModel> model_in)
      : device(std::move(device_in)), model(std::move(model_in)) {}
  ~KeptModel() { device->Remove(*this); }

  void CancelAll();
  void Add(lagoon_run& run);
  void Remove(lagoon_run& run);
  std::size_t runs();

  const std::shared_ptr<KeptDevice> device;
  const std::unique_ptr<LocalModel> model;
  Gate gate;

 private:
  Mutex mutex_;
  std::vector<lagoon_run*> runs_ GUARDED_BY(mutex_);
};

/// The error of a call for a model that is freed, or whose device is closed or forked.
Status Closed(const KeptModel& model);

/// An enum of a caller in C, which may have any number: to read that as the enum is undefined.
template <typename Enum>
int NumberOf(const Enum& from) {
  int number = 0;
  static_assert(sizeof(from) == sizeof(number));
  std::memcpy(&number, &from, sizeof(number));
  return number;
}

// Conversions.
lagoon_code ToCode(RunCode code);
lagoon_code ToCode(ErrorCode code);
lagoon_type ToType(DataType type);
std::optional<DataType> FromType(int type);
/// nullopt: `due` is for the model to decide.
std::optional<TimePoint> ToTime(std::int64_t due_ns);
std::int64_t FromTime(TimePoint time);

/// Fills `error`, which may be null.
lagoon_code Report(lagoon_error* error, lagoon_code code, const std::string& message) noexcept;

/// Runs `work`, which returns a Status, and lets nothing be thrown across the border.
template <typename F>
lagoon_code Call(lagoon_error* error, F&& work) noexcept {
  try {
    Status done = work();
    if (done) {
      if (error != nullptr) {
        error->code = LAGOON_OK;
        error->message[0] = '\0';
      }
      return LAGOON_OK;
    }
    return Report(error, ToCode(done.error().code), done.error().message);
  } catch (const std::bad_alloc&) {
    return Report(error, LAGOON_RESOURCE_EXHAUSTED, "out of memory");
  } catch (const std::exception& thrown) {
    return Report(error, LAGOON_INTERNAL, thrown.what());
  } catch (...) {
    return Report(error, LAGOON_INTERNAL, "an unknown exception");
  }
}

/// The same for functions without an error.
template <typename F>
void Quietly(F&& work) noexcept {
  (void)Call(nullptr, [&]() -> Status {
    work();
    return {};
  });
}

inline Status Null(const char* what) {
  return Fail(ErrorCode::kInvalidArgument, std::string(what) + " is NULL");
}

/// The options in this library's form. Members that the caller's form has not are zero; those that
/// only the caller's form has must be zero.
template <typename Options>
Status ReadOptions(const Options* from, const char* name, Options& to) {
  to = Options{};
  if (from == nullptr) return {};
  constexpr std::size_t kMost = 4096;
  if (from->size < sizeof(from->size) || from->size > kMost) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{} has size {}: set it up with its _INIT macro", name, from->size));
  }
  const auto* const bytes = reinterpret_cast<const unsigned char*>(from);
  for (std::size_t i = sizeof(Options); i < from->size; ++i) {
    if (bytes[i] == 0) continue;
    return Fail(ErrorCode::kInvalidArgument,
                std::string(name) +
                    " has an option that this library does not know: the program "
                    "was built with a newer lagoon.h");
  }
  std::memcpy(&to, from, std::min(from->size, sizeof(Options)));
  return {};
}

/// Writes as much of `from` as the caller's form has.
template <typename Made>
Status WriteResult(Made from, const char* name, Made* to) {
  if (to == nullptr) return Null(name);
  if (to->size < sizeof(to->size)) {
    return Fail(ErrorCode::kInvalidArgument,
                std::string(name) + " has size 0: set it up with its _INIT macro");
  }
  from.size = to->size;
  std::memcpy(to, &from, std::min(from.size, sizeof(Made)));
  return {};
}

}  // namespace lagoon::capi

struct lagoon_device {
  std::shared_ptr<lagoon::capi::KeptDevice> open;
};

struct lagoon_model {
  std::shared_ptr<lagoon::capi::KeptModel> open;
};

struct lagoon_run {
  explicit lagoon_run(std::shared_ptr<lagoon::capi::KeptModel> of) : open(std::move(of)) {
    run.emplace(*open->model);
    open->Add(*this);
  }
  ~lagoon_run() {
    open->Remove(*this);
    run.reset();
  }
  lagoon_run(const lagoon_run&) = delete;
  lagoon_run& operator=(const lagoon_run&) = delete;

  const std::shared_ptr<lagoon::capi::KeptModel> open;
  std::optional<lagoon::Run> run;
  /// Why the last call failed here, before it came to the run. Null: see the run. Atomic, as a call
  /// is refused while `done` of the run reads this.
  std::atomic<const lagoon::RunRefusal*> refusal = nullptr;
  void (*done)(void*, lagoon_run*) = nullptr;
  void* argument = nullptr;
};
