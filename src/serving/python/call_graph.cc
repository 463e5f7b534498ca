#include "serving/python/call_graph.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

namespace lagoon {

/// Adds to `path` the models after `from`, up to `to`. False: there is no path.
bool CallGraph::FindPath(const std::string& from, const std::string& to,
                         std::set<std::string>& seen, std::vector<std::string>& path) const {
  if (from == to) return true;
  if (!seen.insert(from).second) return false;
  const auto callees = callees_.find(from);
  if (callees == callees_.end()) return false;
  for (const std::string& next : callees->second) {
    path.push_back(next);
    if (FindPath(next, to, seen, path)) return true;
    path.pop_back();
  }
  return false;
}

Status CallGraph::Add(const std::string& caller, const std::string& callee,
                      const std::vector<std::string>& steps) {
  const MutexLock lock(mutex_);
  if (!steps.empty()) callees_[callee] = {steps.begin(), steps.end()};
  std::set<std::string> seen;
  std::vector<std::string> path = {caller, callee};
  if (FindPath(callee, caller, seen, path)) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("models that call each other in a circle may wait for each other for "
                            "ever: {}",
                            fmt::join(path, " -> ")));
  }
  callees_[caller].insert(callee);
  return {};
}

void CallGraph::Forget(const std::string& model) {
  const MutexLock lock(mutex_);
  callees_.erase(model);
}

}  // namespace lagoon
