#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "cluster/share_tuner.h"
#include "serving/core/share_control.h"
#include "serving/shares/shared_model.h"

namespace lagoon {

class TraceRecorder;

/// Gives each model with a share its part of the device, and lets the parts follow the load
/// (GSLICE 3.2; ShareTuner has the rules). Any thread may call any method. Moves are one after
/// another, so that a move never meets another one.
class ShareKeeper {
 public:
  struct Options {
    ShareKind kind = ShareKind::kUnits;
    std::uint32_t units = 1;         // of the device
    std::uint32_t granule = 1;       // DeviceInfo::share_granule, at least 1
    TraceRecorder* trace = nullptr;  // gets all decisions; outlives the keeper; null: no trace
    // As ShareTuner::Options, where the defaults are the paper's.
    Nanoseconds hold_down{std::chrono::seconds(10)};
    double utilisation = 0.8;
    MaxMinRules::Surplus surplus = MaxMinRules::Surplus::kProportional;
    bool grow_at_once = true;
  };

  /// Without models.
  static Result<std::unique_ptr<ShareKeeper>> Make(const Options& options);

  /// A thread calls Step() once a second from now on, at the time of `device`, which outlives the
  /// keeper. Without it the caller does.
  void Start(const Device& device);
  /// Reads the loads, and moves what is to move. A move that fails is tried again by the next call;
  /// the log gets each reason once.
  void Step(TimePoint now);

  /// `come` take the place of the models `gone`, which are not used any more afterwards; models
  /// that are not known may be among them. A model without lagoon.share has all of the device until
  /// it is resized. The others keep their sizes as far as there is room. kInvalidArgument: the
  /// fixed shares are more than the device; names the model. Else errors of the models. After an
  /// error the models are as before, those of `gone` may have moved, and `come` are not used any
  /// more. Without `come` there is no error.
  Status Replace(std::span<SharedModel* const> gone, std::span<SharedModel* const> come,
                 TimePoint now);

  /// As it was after the last call of another method. Waits for none of them.
  SharesReport Read() const;
  /// kInvalidArgument names the rule and its value; then nothing changes.
  Status SetRules(const SharesRules& rules, TimePoint now);
  /// Moves the share of `model` at once. kUnavailable: the model is not known. kInvalidArgument
  /// says what is wrong with `wanted`, or that the fixed shares would be more than the device; then
  /// nothing changes. Else errors of the models.
  Status Resize(const SharedModel& model, const ShareWanted& wanted, TimePoint now);

 private:
  struct Entry {
    SharedModel* model = nullptr;
    SharedModel::Terms terms;
    std::string key;       // in the tuner
    bool managed = false;  // is in the tuner
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
    std::int64_t ceiling = 0;
    bool tuned = false;  // the demand is from a load
  };
  using Entries = std::list<Entry>;
  using Models = std::span<SharedModel* const>;

  ShareKeeper(const Options& options, ShareTuner tuner)
      : options_(options), tuner_(std::move(tuner)) {}
  void Run(const std::stop_token& stop, const Device& device);
  Status AddAndMove(Models come, TimePoint now) REQUIRES(mutex_);
  Status Add(Models come) REQUIRES(mutex_);
  Entries Remove(Models gone) REQUIRES(mutex_);
  void PutBack(Entries entries) REQUIRES(mutex_);
  void Conclude(const Status& moved, TimePoint now) REQUIRES(mutex_);
  void Warn(const Status& moved) REQUIRES(mutex_);
  void Publish(TimePoint now) REQUIRES(mutex_);
  SharesReport Report() const REQUIRES(mutex_);
  static DemandFrom DemandFromOf(const Entry& entry, bool fixed);
  void Observe(Entry& entry, TimePoint now) REQUIRES(mutex_);
  Status CarryOut(TimePoint now) REQUIRES(mutex_);
  Status CarryOut(const ShareTuner::Move& move, TimePoint now) REQUIRES(mutex_);
  Status UseWeights(const std::vector<double>& weights, TimePoint now) REQUIRES(mutex_);
  Status TakeShare(Entry& entry, TimePoint now) REQUIRES(mutex_);
  void Note(Entry& entry, std::optional<double> share, std::string why, TimePoint now)
      REQUIRES(mutex_);
  Entries::iterator Find(const SharedModel* model) REQUIRES(mutex_);
  Entry& OfKey(const std::string& key) REQUIRES(mutex_);
  Result<double> PartOf(const ShareWanted& wanted) const;
  UnitRange UnitsOf(GranuleRange range) const;

  const Options options_;
  Mutex mutex_;  // held while shares move, which may take long
  ShareTuner tuner_ GUARDED_BY(mutex_);
  Entries entries_ GUARDED_BY(mutex_);
  bool tuning_ GUARDED_BY(mutex_) = true;
  std::string problem_ GUARDED_BY(mutex_);  // why the last moves failed; empty: they did not
  mutable Mutex report_mutex_;              // held for a moment
  std::shared_ptr<const SharesReport> report_ GUARDED_BY(report_mutex_);
  Mutex pause_mutex_;
  CondVar wake_;
  std::jthread thread_;  // last member: stops before what it uses is destroyed
};

}  // namespace lagoon
