#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "program/lower/builder.h"

namespace lagoon {

/// One constant of a model that is compiled for several batch sizes, whichever programs use it.
struct SharedConstant {
  std::size_t bytes = 0;
  std::function<void(std::byte*)> fill;  // empty: computed by a load op
  bool stays = false;                    // an op of a plan reads it, not only load ops
};

/// A load op whose results no earlier load op computes.
struct SharedLoadOp {
  const LoweredOp* op = nullptr;
  std::size_t program = 0;
};

/// Finds the constants that are equal in several `programs`: by their keys, by their bytes, or
/// because the same kernel computes them from the same constants. Takes the buffers' `fill`
/// functions.
class SharedConstants {
 public:
  /// Borrows `programs` for the object's lifetime.
  explicit SharedConstants(std::span<LoweredProgram> programs);

  std::vector<SharedConstant>& constants() { return constants_; }
  /// In an order in which the load ops can run.
  const std::vector<SharedLoadOp>& load_ops() const { return load_ops_; }
  /// Index into constants(); only for a buffer that is constant.
  std::size_t IndexOf(std::size_t program, BufferId buffer) const {
    return index_[program][static_cast<std::size_t>(buffer)];
  }

 private:
  void AddFilled(std::size_t program, LoweredBuffer& buffer, std::size_t id);
  void AddComputed(std::size_t program, const LoweredOp& op);
  std::string KeyOf(std::size_t program, const LoweredOp& op) const;

  std::vector<SharedConstant> constants_;
  std::vector<SharedLoadOp> load_ops_;
  std::vector<std::vector<std::size_t>> index_;         // by program and BufferId
  std::unordered_map<std::string, std::size_t> known_;  // by the text that identifies a constant
  std::span<LoweredProgram> programs_;
};

}  // namespace lagoon
