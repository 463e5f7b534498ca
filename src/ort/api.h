#pragma once

// Calls of ONNX Runtime whose errors are exceptions, and the border at which exceptions end.

#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "ort/ort_abi.h"

namespace lagoon::plugin {

/// An error on its way to the border (Guarded). Exceptions stay inside this layer: a function of
/// the ABI calls ONNX Runtime dozens of times, each call may fail, and memory may run out.
struct Failed {
  StatusCode code = kFail;
  std::string message;
};

/// The main table, with errors as exceptions.
class Api {
 public:
  Api() = default;
  explicit Api(Table table) : table_(table) {}

  const Table& table() const { return table_; }

  /// Calls F. Throws Failed with ONNX Runtime's message.
  template <typename F, typename... Args>
  void Do(Args... args) const {
    Check(table_.Call<F>(args...));
  }

  /// Calls F, whose last argument takes the result.
  template <typename F, typename T, typename... Args>
  T Get(Args... args) const {
    T value{};
    Do<F>(args..., &value);
    return value;
  }

  /// All objects of a list: Count says how many there are.
  template <typename Count, typename List, typename T, typename Of>
  std::vector<const T*> All(const Of* of) const {
    std::vector<const T*> all(Get<Count, std::size_t>(of));
    if (!all.empty()) Do<List>(of, all.data(), all.size());
    return all;
  }

  /// Throws if `status` is an error, and releases it.
  void Check(AbiStatus* status) const {
    if (status == nullptr) return;
    Failed failed{kFail, table_.Call<GetErrorMessage>(static_cast<const AbiStatus*>(status))};
    table_.Call<ReleaseStatus>(status);
    throw failed;
  }

 private:
  Table table_;
};

/// The one table of this copy of the plug-in. Set by CreateEpFactories, before everything else.
Api& TheApi();
/// The table of execution providers.
Table& TheEpApi();
/// ONNX Runtime 1.x: x. A later version than 1 counts as the newest. Set as above.
int& TheOrtMinor();

/// For an error of Lagoon: arguments are ORT_INVALID_ARGUMENT, what Lagoon does not do is
/// ORT_NOT_IMPLEMENTED, everything else ORT_FAIL. The message begins with "lagoon: ".
Failed AsFailed(const Error& error);

/// Runs `f` and turns what it throws into an AbiStatus. Null: all went well. Never throws itself.
template <typename F>
AbiStatus* Guarded(F&& f) noexcept {
  const Table& table = TheApi().table();
  try {
    std::forward<F>(f)();
    return nullptr;
  } catch (const Failed& failed) {
    return table.Call<CreateStatus>(static_cast<int>(failed.code), failed.message.c_str());
  } catch (const std::exception& error) {
    return table.Call<CreateStatus>(int{kFail}, error.what());
  }
}

}  // namespace lagoon::plugin
