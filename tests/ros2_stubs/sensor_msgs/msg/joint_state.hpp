#pragma once

#include <memory>
#include <vector>

namespace sensor_msgs::msg {
struct JointState {
  using ConstSharedPtr = std::shared_ptr<const JointState>;
  std::vector<double> position;

  static JointState Example() { return {std::vector<double>(6, 0.5)}; }
};
}  // namespace sensor_msgs::msg
