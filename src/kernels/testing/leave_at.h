#pragma once

#include "device/block.h"

namespace lagoon::testing {

/// Counts guard checks, and leaves at check number `check` (counted from 1; 0: never).
class LeaveAt final : public CheckProbe {
 public:
  explicit LeaveAt(int check = 0) : leave_at_(check) {}
  bool OnCheck() override { return ++checks_ == leave_at_; }
  int checks() const { return checks_; }

 private:
  int leave_at_;
  int checks_ = 0;
};

}  // namespace lagoon::testing
