#include "policies/deficit.h"

#include <cmath>

#include "base/check.h"

namespace lagoon {
namespace {

// With a larger shift, a double would lose digits when a single kernel is added.
constexpr double kLargestShift = 1e9;

}  // namespace

DeficitCounters::~DeficitCounters() { by_deficit_.clear(); }

void DeficitCounters::OnArrival(ClientId id) {
  while (clients_.size() <= Raw(id)) {
    const ClientId next{static_cast<std::uint32_t>(clients_.size())};
    clients_.emplace_back().id = next;
  }
  Client& client = clients_[Raw(id)];
  if (client.jobs++ > 0) return;
  const bool remembered = served_ - client.left_at < memory_;
  client.base = (remembered ? client.left_with : 0) - shift_;
  by_deficit_.insert(client);
}

void DeficitCounters::OnServed(ClientId id, std::uint32_t kernels) { Charge(id, kernels); }

void DeficitCounters::OnRaised(ClientId id, std::uint32_t kernels) {
  Charge(id, -static_cast<double>(kernels));
}

void DeficitCounters::Charge(ClientId id, double kernels) {
  Client& client = clients_[Raw(id)];
  LAGOON_CHECK(client.hook.is_linked());
  by_deficit_.erase(by_deficit_.iterator_to(client));
  client.base -= kernels;
  by_deficit_.insert(client);
  served_ += kernels;
  shift_ += kernels / static_cast<double>(by_deficit_.size());
  if (std::abs(shift_) > kLargestShift) Renormalise();
}

void DeficitCounters::OnFinished(ClientId id) {
  Client& client = clients_[Raw(id)];
  LAGOON_CHECK(client.jobs > 0);
  if (--client.jobs > 0) return;
  by_deficit_.erase(by_deficit_.iterator_to(client));
  client.left_with = client.base + shift_;
  client.left_at = served_;
}

double DeficitCounters::deficit(ClientId id) const {
  const bool known = Raw(id) < clients_.size() && clients_[Raw(id)].hook.is_linked();
  return known ? clients_[Raw(id)].base + shift_ : 0;
}

// All deficits move by the same amount, so that their order stays.
void DeficitCounters::Renormalise() {
  for (Client& client : by_deficit_) client.base += shift_;
  shift_ = 0;
}

}  // namespace lagoon
