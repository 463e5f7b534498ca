// A node of ROS 2: a policy steps at a fixed rate, and a detector looks at each image, in one
// process:
//   ros2 run lagoon_control control_node --ros-args -p policy:=a.onnx -p detector:=b.onnx
//
// joint_states (sensor_msgs/JointState) -> positions to the policy's first input
// commands (std_msgs/Float64MultiArray) <- the policy's first output, `rate` times a second
// image (sensor_msgs/Image, rgb8)       -> the detector's first input [1, 3, height, width], 0 to 1
// detections (Float64MultiArray)        <- the detector's first output
//
// The detector has a callback group of its own, so that the executor has a thread for each of the
// two. The scheduler then lets the policy's step take the cores from the detector in the middle of
// a kernel. A step without an answer by the next one repeats the last command.

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <mutex>
#include <rclcpp/rclcpp.hpp>
#include <sensor_msgs/msg/image.hpp>
#include <sensor_msgs/msg/joint_state.hpp>
#include <std_msgs/msg/float64_multi_array.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "lagoon_model.h"

namespace lagoon_control {

using sensor_msgs::msg::Image;
using sensor_msgs::msg::JointState;
using std_msgs::msg::Float64MultiArray;

class ControlNode : public rclcpp::Node {
 public:
  ControlNode()
      : Node("lagoon_control"),
        policy_(device_, declare_parameter<std::string>("policy", "policy.onnx"), LAGOON_REAL_TIME),
        detector_(device_, declare_parameter<std::string>("detector", "detector.onnx"),
                  LAGOON_BEST_EFFORT) {
    const double rate = declare_parameter<double>("rate", 500.0);
    if (!(rate > 0)) throw std::runtime_error("parameter 'rate' must be above 0");
    period_ = std::chrono::nanoseconds(static_cast<std::int64_t>(1e9 / rate));
    positions_.resize(policy_.input().size() / sizeof(float));
    commands_ = create_publisher<Float64MultiArray>("commands", 1);
    detections_ = create_publisher<Float64MultiArray>("detections", 1);

    control_group_ = create_callback_group(rclcpp::CallbackGroupType::MutuallyExclusive);
    state_group_ = create_callback_group(rclcpp::CallbackGroupType::MutuallyExclusive);
    image_group_ = create_callback_group(rclcpp::CallbackGroupType::MutuallyExclusive);
    rclcpp::SubscriptionOptions state_options;
    state_options.callback_group = state_group_;
    states_ = create_subscription<JointState>(
        "joint_states", rclcpp::SensorDataQoS(),
        [this](const JointState::ConstSharedPtr& state) { OnState(*state); }, state_options);
    rclcpp::SubscriptionOptions image_options;
    image_options.callback_group = image_group_;
    images_ = create_subscription<Image>(
        "image", rclcpp::SensorDataQoS(),
        [this](const Image::ConstSharedPtr& image) { OnImage(*image); }, image_options);
    timer_ = create_wall_timer(
        period_, [this] { Step(); }, control_group_);
  }

 private:
  void OnState(const JointState& state) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const std::size_t count = std::min(positions_.size(), state.position.size());
    for (std::size_t i = 0; i < count; ++i) positions_[i] = static_cast<float>(state.position[i]);
  }

  void Step() {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      std::memcpy(policy_.input().data(), positions_.data(), positions_.size() * sizeof(float));
    }
    // steady_clock is CLOCK_MONOTONIC.
    const lagoon_code code = policy_.Run(std::chrono::nanoseconds(now + period_).count());
    if (code == LAGOON_OK) {
      std::size_t count = 0;
      const float* const values = policy_.output(&count);
      command_.data.assign(values, values + count);
    } else if (code == LAGOON_DEADLINE_EXCEEDED) {
      RCLCPP_WARN_THROTTLE(get_logger(), *get_clock(), 1000, "%u steps had no answer in time: %s",
                           ++missed_, policy_.result().why_name);
    } else {
      RCLCPP_ERROR_THROTTLE(get_logger(), *get_clock(), 1000, "the policy failed: %s",
                            policy_.error().c_str());
    }
    if (!command_.data.empty()) commands_->publish(command_);
  }

  void OnImage(const Image& image) {
    std::vector<unsigned char>& input = detector_.input();
    const std::size_t pixels = static_cast<std::size_t>(image.height) * image.width;
    const bool fits = image.encoding == "rgb8" && image.step >= 3 * image.width &&
                      image.data.size() >= static_cast<std::size_t>(image.step) * image.height &&
                      input.size() == pixels * 3 * sizeof(float);
    if (!fits) {
      RCLCPP_ERROR_THROTTLE(get_logger(), *get_clock(), 1000,
                            "an image of %u x %u (%s) is not what the detector takes", image.width,
                            image.height, image.encoding.c_str());
      return;
    }
    auto* const planes = reinterpret_cast<float*>(input.data());
    for (std::size_t row = 0; row < image.height; ++row) {
      const unsigned char* const line = &image.data[row * image.step];
      for (std::size_t at = 0; at < image.width; ++at) {
        for (std::size_t colour = 0; colour < 3; ++colour) {
          planes[colour * pixels + row * image.width + at] =
              static_cast<float>(line[3 * at + colour]) / 255;
        }
      }
    }
    if (detector_.Run() != LAGOON_OK) {
      RCLCPP_ERROR_THROTTLE(get_logger(), *get_clock(), 1000, "the detector failed: %s",
                            detector_.error().c_str());
      return;
    }
    std::size_t count = 0;
    const float* const values = detector_.output(&count);
    Float64MultiArray found;
    found.data.assign(values, values + count);
    detections_->publish(found);
  }

  const example::Device device_;
  example::Model policy_;    // of the timer's callback
  example::Model detector_;  // of the images' callback
  std::chrono::nanoseconds period_{};
  Float64MultiArray command_;  // of the timer's callback, as is missed_
  unsigned missed_ = 0;
  std::mutex mutex_;
  std::vector<float> positions_;  // guarded by mutex_

  rclcpp::Publisher<Float64MultiArray>::SharedPtr commands_, detections_;
  rclcpp::CallbackGroup::SharedPtr control_group_, state_group_, image_group_;
  rclcpp::Subscription<JointState>::SharedPtr states_;
  rclcpp::Subscription<Image>::SharedPtr images_;
  rclcpp::TimerBase::SharedPtr timer_;
};

}  // namespace lagoon_control

int main(int argc, char** argv) {
  rclcpp::init(argc, argv);
  const auto node = std::make_shared<lagoon_control::ControlNode>();
  rclcpp::executors::MultiThreadedExecutor executor;
  executor.add_node(node);
  executor.spin();
  rclcpp::shutdown();
  return 0;
}
