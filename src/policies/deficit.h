#pragma once

#include <boost/intrusive/set.hpp>
#include <deque>
#include <optional>

#include "sched/policy.h"

namespace lagoon {

/// Who was served less than an equal share (Paella 6): a kernel of one client lowers that client's
/// deficit by 1 - 1/n and raises the others' by 1/n, where n clients have unfinished jobs. A client
/// is a queue; one without jobs has no deficit, so that nobody saves up. A kernel costs O(log n):
/// the raise of all is one shared shift.
class DeficitCounters {
 public:
  ~DeficitCounters();

  void OnArrival(QueueId client);
  void OnServed(QueueId client, std::uint32_t kernels);
  void OnFinished(QueueId client);

  double deficit(QueueId client) const;

  /// Of the clients whose deficit is above `threshold`, largest first: the first that `accept`
  /// takes, with what it returned.
  template <typename Accept>
  auto FirstAbove(double threshold, Accept&& accept) const -> decltype(accept(QueueId{})) {
    for (const Client& client : by_deficit_) {
      if (client.base + shift_ <= threshold) break;
      if (const auto found = accept(client.id)) return found;
    }
    return {};
  }

 private:
  struct Client {
    QueueId id{};
    std::uint32_t jobs = 0;  // unfinished
    double base = 0;         // deficit less the shift of all
    boost::intrusive::set_member_hook<> hook;
  };
  struct LargestFirst {
    bool operator()(const Client& a, const Client& b) const {
      return a.base != b.base ? a.base > b.base : a.id < b.id;
    }
  };
  using Hook =
      boost::intrusive::member_hook<Client, boost::intrusive::set_member_hook<>, &Client::hook>;

  void Renormalise();

  std::deque<Client> clients_;  // by queue
  boost::intrusive::set<Client, Hook, boost::intrusive::compare<LargestFirst>> by_deficit_;
  double shift_ = 0;
};

}  // namespace lagoon
