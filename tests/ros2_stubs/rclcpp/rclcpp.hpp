// What examples/in_process/ros2 uses of rclcpp, for a test without ROS 2. Written after rclcpp's public documentation; the
// signatures are those of ROS 2 Humble. spin() delivers a message to each subscription, then calls each timer kTicks times, on a
// thread each, and prints how many messages each topic got.
#pragma once

#include <chrono>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#define RCLCPP_STUB_LOG(...) (std::fprintf(stderr, __VA_ARGS__), std::fprintf(stderr, "\n"))
#define RCLCPP_WARN_THROTTLE(logger, clock, milliseconds, ...) \
  ((void)(logger), (void)(clock), (void)(milliseconds), RCLCPP_STUB_LOG(__VA_ARGS__))
#define RCLCPP_ERROR_THROTTLE RCLCPP_WARN_THROTTLE

namespace rclcpp {

namespace stub {
constexpr int kTicks = 50;
inline std::map<std::string, std::string>& Parameters() {
  static std::map<std::string, std::string> parameters;
  return parameters;
}
inline void Read(const std::string& text, std::string& to) { to = text; }
inline void Read(const std::string& text, double& to) { to = std::stod(text); }
}  // namespace stub

// Takes "-p NAME:=VALUE".
inline void init(int argc, const char* const* argv) {
  for (int i = 1; i + 1 < argc; ++i) {
    const std::string word = argv[i + 1];
    const std::size_t at = word.find(":=");
    if (std::string(argv[i]) == "-p" && at != std::string::npos) {
      stub::Parameters()[word.substr(0, at)] = word.substr(at + 2);
    }
  }
}
inline bool shutdown() { return true; }

class Logger {};
class Clock {
 public:
  using SharedPtr = std::shared_ptr<Clock>;
};

enum class CallbackGroupType { MutuallyExclusive, Reentrant };
class CallbackGroup {
 public:
  using SharedPtr = std::shared_ptr<CallbackGroup>;
};
struct SubscriptionOptions {
  CallbackGroup::SharedPtr callback_group;
};
class QoS {
 public:
  QoS(std::size_t) {}  // NOLINT: implicit, as rclcpp's
};
class SensorDataQoS : public QoS {
 public:
  SensorDataQoS() : QoS(5) {}
};

class TimerBase {
 public:
  using SharedPtr = std::shared_ptr<TimerBase>;
  std::function<void()> callback;
  std::chrono::nanoseconds period{};
};

class SubscriptionBase {
 public:
  std::function<void()> deliver;
};
template <typename Message>
class Subscription : public SubscriptionBase {
 public:
  using SharedPtr = std::shared_ptr<Subscription>;
};

class PublisherBase {
 public:
  std::string topic;
  std::size_t messages = 0, values = 0;
};
template <typename Message>
class Publisher : public PublisherBase {
 public:
  using SharedPtr = std::shared_ptr<Publisher>;
  void publish(const Message& message) {
    ++messages;
    values = message.data.size();
  }
};

class Node {
 public:
  using SharedPtr = std::shared_ptr<Node>;
  explicit Node(std::string name) : name_(std::move(name)) {}
  virtual ~Node() = default;

  template <typename Value>
  Value declare_parameter(const std::string& name, const Value& other) {
    Value value = other;
    const auto given = stub::Parameters().find(name);
    if (given != stub::Parameters().end()) stub::Read(given->second, value);
    return value;
  }
  template <typename Message>
  typename Publisher<Message>::SharedPtr create_publisher(const std::string& topic, const QoS&) {
    auto publisher = std::make_shared<Publisher<Message>>();
    publisher->topic = topic;
    publishers.push_back(publisher);
    return publisher;
  }
  template <typename Message, typename Callback>
  typename Subscription<Message>::SharedPtr create_subscription(const std::string&, const QoS&,
                                                                Callback callback,
                                                                const SubscriptionOptions&) {
    auto subscription = std::make_shared<Subscription<Message>>();
    subscription->deliver = [callback] {
      callback(std::make_shared<const Message>(Message::Example()));
    };
    subscriptions.push_back(subscription);
    return subscription;
  }
  template <typename Callback>
  TimerBase::SharedPtr create_wall_timer(std::chrono::nanoseconds period, Callback callback,
                                         CallbackGroup::SharedPtr = nullptr) {
    auto timer = std::make_shared<TimerBase>();
    timer->callback = callback;
    timer->period = period;
    timers.push_back(timer);
    return timer;
  }
  CallbackGroup::SharedPtr create_callback_group(CallbackGroupType) {
    return std::make_shared<CallbackGroup>();
  }
  Logger get_logger() const { return {}; }
  Clock::SharedPtr get_clock() { return std::make_shared<Clock>(); }

  // For spin().
  std::vector<std::shared_ptr<PublisherBase>> publishers;
  std::vector<std::shared_ptr<SubscriptionBase>> subscriptions;
  std::vector<TimerBase::SharedPtr> timers;

 private:
  std::string name_;
};

namespace executors {
class MultiThreadedExecutor {
 public:
  void add_node(const Node::SharedPtr& node) { node_ = node; }
  void spin() {
    std::vector<std::thread> threads;
    for (const auto& subscription : node_->subscriptions) threads.emplace_back(subscription->deliver);
    for (const auto& timer : node_->timers) {
      threads.emplace_back([timer] {
        for (int tick = 0; tick < stub::kTicks; ++tick) {
          timer->callback();
          std::this_thread::sleep_for(timer->period);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const auto& publisher : node_->publishers) {
      std::printf("%s: %zu messages of %zu values\n", publisher->topic.c_str(), publisher->messages,
                  publisher->values);
    }
  }

 private:
  Node::SharedPtr node_;
};
}  // namespace executors

}  // namespace rclcpp
