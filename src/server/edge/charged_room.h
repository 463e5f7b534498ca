#pragma once

#include <memory>
#include <utility>

#include "base/time.h"
#include "server/memory_budget.h"
#include "serving/core/request.h"

namespace lagoon {

/// Charges outputs to the connection from when the core allocates them.
class ChargedRoom final : public AnswerRoom {
 public:
  explicit ChargedRoom(std::shared_ptr<MemoryCharge> charge) : charge_(std::move(charge)) {}

  Status Take(std::size_t bytes) override {
    if (charge_->Hold(bytes, Now())) return {};
    return tl::unexpected<Error>(charge_->NoRoom(bytes));
  }

 private:
  const std::shared_ptr<MemoryCharge> charge_;
};

}  // namespace lagoon
