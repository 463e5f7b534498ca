#pragma once

#include <boost/intrusive/set.hpp>
#include <deque>
#include <optional>

#include "sched/policy.h"

namespace lagoon {

/// How far each client is behind an equal share of the device (Paella 6). While n clients have
/// unfinished jobs, a kernel of one client lowers that client's deficit by 1 - 1/n and raises those
/// of the others by 1/n. A client is a tenant, or a queue for jobs without one. A client without
/// jobs has no deficit, so that an idle client saves up nothing. But when it comes back before the
/// others have got `memory` kernels, it has the deficit that it left with: a client that sends its
/// next request when the last one is answered has no jobs for a moment after each answer. 0, as in
/// the paper: it begins anew each time. A kernel costs O(log n), as one shared shift raises all
/// deficits.
class DeficitCounters {
 public:
  explicit DeficitCounters(double memory = 0) : memory_(memory) {}
  ~DeficitCounters();

  void OnArrival(ClientId client);
  void OnServed(ClientId client, std::uint32_t kernels);
  /// Takes back OnServed(): the kernels will be submitted again.
  void OnRaised(ClientId client, std::uint32_t kernels);
  void OnFinished(ClientId client);

  double deficit(ClientId client) const;
  /// Whether a client has a deficit above `threshold`. O(1).
  bool AnyAbove(double threshold) const {
    return !by_deficit_.empty() && by_deficit_.begin()->base + shift_ > threshold;
  }

  /// Calls `accept` for the clients with a deficit above `threshold`, largest deficit first, until
  /// a result is true. Returns that result, or a value-initialised one.
  template <typename Accept>
  auto FirstAbove(double threshold, Accept&& accept) const -> decltype(accept(ClientId{})) {
    for (const Client& client : by_deficit_) {
      if (client.base + shift_ <= threshold) break;
      if (const auto found = accept(client.id)) return found;
    }
    return {};
  }

 private:
  struct Client {
    ClientId id{};
    std::uint32_t jobs = 0;  // number of unfinished jobs
    double base = 0;         // deficit minus shift_
    double left_with = 0;    // deficit when its last job ended
    double left_at = 0;      // served_ then
    boost::intrusive::set_member_hook<> hook;
  };
  struct LargestFirst {
    bool operator()(const Client& a, const Client& b) const {
      return a.base != b.base ? a.base > b.base : a.id < b.id;
    }
  };
  using Hook =
      boost::intrusive::member_hook<Client, boost::intrusive::set_member_hook<>, &Client::hook>;

  void Charge(ClientId client, double kernels);
  void Renormalise();

  const double memory_;
  std::deque<Client> clients_;  // indexed by ClientId
  boost::intrusive::set<Client, Hook, boost::intrusive::compare<LargestFirst>> by_deficit_;
  double shift_ = 0;
  double served_ = 0;  // kernels of all clients
};

}  // namespace lagoon
