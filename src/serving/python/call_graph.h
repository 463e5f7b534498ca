#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"

namespace lagoon {

/// Which models wait for answers of which others, as programs have called them so far. A call that
/// would close a circle is refused: the instances of the models on it could wait for each other for
/// ever. Any thread.
class CallGraph {
 public:
  /// `caller` calls `callee`, which runs `steps` if it is an ensemble. kInvalidArgument names the
  /// models of the circle.
  Status Add(const std::string& caller, const std::string& callee,
             const std::vector<std::string>& steps);
  /// The model is loaded anew or gone: forgets whom it calls.
  void Forget(const std::string& model);

 private:
  bool FindPath(const std::string& from, const std::string& to, std::set<std::string>& seen,
                std::vector<std::string>& path) const REQUIRES(mutex_);

  Mutex mutex_;
  std::map<std::string, std::set<std::string>> callees_ GUARDED_BY(mutex_);
};

}  // namespace lagoon
