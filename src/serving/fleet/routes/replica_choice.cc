#include "serving/fleet/routes/replica_choice.h"

namespace lagoon {
namespace {

class Choice {
 public:
  Choice(std::span<const ReplicaState> replicas, std::optional<std::size_t> avoid)
      : replicas_(replicas), avoid_(avoid) {
    for (std::size_t i = 0; i < replicas_.size(); ++i) {
      if (!Usable(i)) continue;
      total_ += replicas_[i].fraction;
      ++usable_;
    }
    equal_ = total_ <= 0;
    if (equal_) total_ = static_cast<double>(usable_);
  }

  bool empty() const { return usable_ == 0; }

  /// `except`: a replica that was drawn before. It is drawn again if there is no other one.
  std::size_t Draw(double draw, std::optional<std::size_t> except = std::nullopt) const {
    double left = draw * (total_ - (except ? Weight(*except) : 0));
    std::size_t last = except.value_or(0);  // rounding may leave a little at the end
    for (std::size_t i = 0; i < replicas_.size(); ++i) {
      if (!Usable(i) || Weight(i) <= 0 || except == i) continue;
      last = i;
      left -= Weight(i);
      if (left < 0) break;
    }
    return last;
  }

  /// Only of a replica that was drawn: its weight is above 0.
  double Load(std::size_t i) const { return static_cast<double>(replicas_[i].queue) / Weight(i); }

 private:
  bool Usable(std::size_t i) const { return replicas_[i].ready && avoid_ != i; }
  double Weight(std::size_t i) const { return equal_ ? 1 : replicas_[i].fraction; }

  const std::span<const ReplicaState> replicas_;
  const std::optional<std::size_t> avoid_;
  std::size_t usable_ = 0;
  double total_ = 0;
  bool equal_ = false;
};

}  // namespace

std::optional<std::size_t> PickReplica(std::span<const ReplicaState> replicas,
                                       std::optional<std::size_t> avoid,
                                       const std::array<double, 2>& draws) {
  const Choice choice(replicas, avoid);
  if (choice.empty()) return std::nullopt;
  const std::size_t first = choice.Draw(draws[0]);
  const std::size_t second = choice.Draw(draws[1], first);
  return choice.Load(second) < choice.Load(first) ? second : first;
}

}  // namespace lagoon
