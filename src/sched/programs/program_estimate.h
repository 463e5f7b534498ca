#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>

#include "base/ids.h"
#include "base/time.h"
#include "device/device.h"

namespace lagoon {

/// How long the jobs of one program go on, from the mean number of operations of each kind that
/// its jobs had (Paella 6). Copies take no time and are not counted. Not thread-safe: belongs to
/// the state of a ProgramHost.
class ProgramEstimate {
 public:
  /// Most kinds of operations that an estimate, or the counts of a job, know. Further ones do not
  /// count: such a program looks shorter than it is.
  static constexpr std::size_t kMostKinds = 256;

  /// A kernel with so many blocks, or a model.
  struct Kind {
    bool model = false;
    std::uint64_t number = 0;                       // the kernel's handle, or the model's index
    std::uint32_t blocks = 0;                       // 0 for a model
    auto operator<=>(const Kind&) const = default;  // NOLINT(modernize-use-nullptr): not ours
  };
  static Kind Of(KernelHandle kernel, std::uint32_t blocks) { return {false, Raw(kernel), blocks}; }
  static Kind OfModel(std::uint32_t index) { return {true, index, 0}; }

  /// The operations that one job has posted.
  class Counts {
   public:
    void Add(const Kind& kind) {
      if (counts_.size() < kMostKinds || counts_.contains(kind)) ++counts_[kind];
    }
    std::uint32_t of(const Kind& kind) const {
      const auto found = counts_.find(kind);
      return found == counts_.end() ? 0 : found->second;
    }

   private:
    friend class ProgramEstimate;
    std::map<Kind, std::uint32_t> counts_;
  };

  /// Mean time of an operation of the kind, alone on the device. The last call counts.
  void SetTime(const Kind& kind, Nanoseconds time);
  /// A job that posted these operations has come to its end. One job moves a mean by an eighth of
  /// the difference; the first one sets all means.
  void OnEnded(const Counts& counts);

  /// The expected time of the operations that a job has not posted yet: of each kind those that it
  /// is short of the mean, and none if it has passed the mean. At least 0, at most kMost.
  Nanoseconds Ahead(const Counts& posted) const;
  static constexpr Nanoseconds kMost = std::chrono::hours(24);

 private:
  struct Entry {
    double mean = 0;
    Nanoseconds time{0};
  };
  Entry* Find(const Kind& kind);

  std::map<Kind, Entry> kinds_;
  bool any_ended_ = false;
};

}  // namespace lagoon
