#pragma once

// A claimed subgraph: its model, and its runs.

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "local/local_model.h"
#include "local/run.h"
#include "ort/graph_to_model.h"
#include "ort/options.h"
#include "ort/ort_abi.h"

namespace lagoon::plugin {

/// Which run of the subgraph this is, and what holds for it.
struct RunOrder {
  std::optional<JobClass> job_class;  // nothing: the model's
  std::optional<TimePoint> due;       // nothing: the model's deadline
  std::string tag;                    // empty: CancelRuns() does not find it
};

/// Copies of inputs that are not aligned to their elements, until the end of a run.
using AlignedCopies = std::vector<std::vector<std::max_align_t>>;

/// Compute: any thread, several at once. Outlives its runs, as ONNX Runtime promises.
class Subgraph {
 public:
  /// `fused`: the node that stands for the subgraph; the names of its inputs and outputs link it to
  /// `graph`. `weights`: of `graph`; borrowed memory is not used after the load. Throws Failed.
  Subgraph(LocalDevice& device, const ConvertedGraph& graph, const Node* fused,
           LocalModelOptions options, const std::shared_ptr<BorrowedWeights>& weights);
  ~Subgraph();
  Subgraph(const Subgraph&) = delete;
  Subgraph& operator=(const Subgraph&) = delete;

  LocalModel& model() const { return *model_; }

  /// Runs, with the tensors of ONNX Runtime, which are neither copied nor kept, and waits. Throws
  /// Failed.
  void Compute(KernelContext* context, const RunOrder& order);

 private:
  class Lent;
  void Bind(Run& run, KernelContext* context, AlignedCopies& copies);
  void Take(Run& run, KernelContext* context);
  [[noreturn]] void Throw(const Run& run, RunCode code) const;

  std::unique_ptr<LocalModel> model_;
  std::vector<std::size_t> inputs_;   // by input of the model: the input of the fused node
  std::vector<std::size_t> outputs_;  // by output of the model: the output of the fused node
  Mutex mutex_;                       // held for nanoseconds
  std::vector<std::unique_ptr<Run>> idle_ GUARDED_BY(mutex_);
  std::size_t lent_ GUARDED_BY(mutex_) = 0;  // runs that are in use
};

/// Cancels the runs under way that have this tag, in all sessions. Any thread.
void CancelRuns(const std::string& tag);

}  // namespace lagoon::plugin
