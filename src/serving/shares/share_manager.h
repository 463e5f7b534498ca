#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "cluster/share_tuner.h"
#include "serving/config/share_settings.h"
#include "serving/core/share_control.h"

namespace lagoon {

/// What a ShareManager needs of the server. Models are named by SharedModel::id. Called under the
/// manager's mutex; may block.
class ShareHost {
 public:
  virtual ~ShareHost() = default;
  /// No units: the model has all of the device. Loads nothing and fails no request.
  virtual Status Move(std::size_t model, UnitRange units) = 0;
  virtual Status SetWeight(std::size_t model, double weight) = 0;
  virtual LoadReading ReadLoad(std::size_t model, TimePoint now) = 0;
  /// The times of the model's batches so far mean nothing any more: its share has moved.
  virtual void ForgetTimes(std::size_t model) = 0;
  virtual BatchNotice TakeNotice(std::size_t model) = 0;
  virtual std::int64_t MostRows(std::size_t model) const = 0;  // ModelShare::most_rows
  /// The model has another share from now on. No units: the share is a weight.
  virtual void OnChange(std::size_t model, const ShareChange& change, UnitRange units) = 0;
};

struct SharedModel {
  std::string name, version;
  ShareSettings share;
  Nanoseconds slo{0};  // 0: only the arrivals decide how much the model needs
  SloOf slo_of = SloOf::kRequest;
  std::size_t id = 0;  // the caller's; no two models of a manager have the same
};

struct ShareManagerOptions {
  ShareKind kind = ShareKind::kUnits;
  std::uint32_t units = 1;  // of the device
  /// DeviceInfo::share_granule; 1 or more with ShareKind::kUnits.
  std::uint32_t granule = 1;
  double trigger = 0.05;                            // ShareTunerOptions
  Nanoseconds hold_down{std::chrono::seconds(10)};  // ShareTunerOptions
};

/// Gives each model with a share its part of the device, and lets the parts follow the load
/// (GSLICE 3.2; ShareTuner has the rules). No clock and no thread: the caller calls Step() once a
/// second. Any thread may call any method. Moves are one after another, so that a move never meets
/// another one.
class ShareManager {
 public:
  /// Without models. `host` is borrowed.
  static Result<std::unique_ptr<ShareManager>> Make(const ShareManagerOptions& options,
                                                    ShareHost& host);

  /// The models `gone` leave, and the models `come` get shares; the others make room or get more.
  /// Afterwards no call of the host names a model that is gone. kInvalidArgument: the fixed shares
  /// are more than the device; names the model. Else errors of the host. After an error the models
  /// are as before, and those of `gone` may have moved. Without `come` there is no error.
  Status Replace(std::span<const std::size_t> gone, std::vector<SharedModel> come, TimePoint now);

  /// Reads the loads, and moves what is to move. A move that fails is tried again by the next call;
  /// the log gets each reason once.
  void Step(TimePoint now);

  /// As it was after the last call of another method. Waits for none of them.
  SharesReport Read() const;
  /// kInvalidArgument names the rule and its value; then nothing changes.
  Status SetRules(const SharesRules& rules, TimePoint now);
  /// Moves the share of the model with this id at once. kNotFound: there is no such model.
  /// kInvalidArgument says what is wrong with `wanted`, or that the fixed shares would be more than
  /// the device; then nothing changes. Else errors of the host.
  Status Resize(std::size_t id, const ShareWanted& wanted, TimePoint now);

 private:
  struct Entry {
    SharedModel model;
    std::string key;  // in the tuner
    bool managed = false;
    UnitRange units;
    double weight = 1;
    std::optional<double> share;
    double demand = 0;   // of an entry that was removed: as in the tuner
    bool fixed = false;  // the same
    ShareLoad load;      // as last told to the tuner
    BatchNotice notice = BatchNotice::kNone;
    std::uint64_t moves = 0;
    std::optional<ShareChange> last;
    LoadReading reading;
    std::int64_t most_rows = 0;
  };
  using Entries = std::list<Entry>;

  ShareManager(const ShareManagerOptions& options, ShareTuner tuner, ShareHost& host)
      : options_(options), host_(host), tuner_(std::move(tuner)) {}
  Status AddAndMove(std::vector<SharedModel> come, TimePoint now) REQUIRES(mutex_);
  Status Add(std::vector<SharedModel> models) REQUIRES(mutex_);
  Entries Remove(std::span<const std::size_t> ids) REQUIRES(mutex_);
  void PutBack(Entries entries) REQUIRES(mutex_);
  void Conclude(const Status& moved, TimePoint now) REQUIRES(mutex_);
  void Warn(const Status& moved) REQUIRES(mutex_);
  void Publish(TimePoint now) REQUIRES(mutex_);
  SharesReport Report() const REQUIRES(mutex_);
  void Observe(Entry& entry, TimePoint now) REQUIRES(mutex_);
  Status CarryOut(TimePoint now) REQUIRES(mutex_);
  Status CarryOut(const ShareMove& move, TimePoint now) REQUIRES(mutex_);
  Status UseWeights(const std::vector<double>& weights, TimePoint now) REQUIRES(mutex_);
  void Note(Entry& entry, double share, std::string why, TimePoint now) REQUIRES(mutex_);
  Entry& Find(const std::string& key) REQUIRES(mutex_);
  Result<double> PartOf(const ShareWanted& wanted) const;
  UnitRange UnitsOf(GranuleRange range) const;

  const ShareManagerOptions options_;
  ShareHost& host_;
  Mutex mutex_;  // held while shares move, which may take long
  ShareTuner tuner_ GUARDED_BY(mutex_);
  Entries entries_ GUARDED_BY(mutex_);
  bool tuning_ GUARDED_BY(mutex_) = true;
  std::string problem_ GUARDED_BY(mutex_);  // why the last moves failed; empty: they did not
  mutable Mutex report_mutex_;              // held for a moment
  std::shared_ptr<const SharesReport> report_ GUARDED_BY(report_mutex_);
};

}  // namespace lagoon
