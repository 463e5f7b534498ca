#pragma once

#include "device/forwarding_device.h"

namespace lagoon::bench {

/// Sits between a dispatcher and its simulated device, and counts the real time that is spent in
/// the device and in the dispatcher's listener. One thread.
class TimedDevice final : public ForwardingDevice, private DeviceListener {
 public:
  using ForwardingDevice::ForwardingDevice;

  /// Real time in all calls that change the device or read its events.
  Nanoseconds inside() const { return inside_; }
  /// Real time in the listener; the part of it in calls of the device; the launches made there.
  Nanoseconds listening() const { return listening_; }
  Nanoseconds inside_while_listening() const { return inside_while_listening_; }
  std::uint64_t launches_while_listening() const { return launches_; }

  SubmitResult Submit(const Launch& launch) override {
    const Timer timer(inside_);
    const SubmitResult result = device_.Submit(launch);
    if (is_listening_ && result == SubmitResult::kOk) ++launches_;
    return result;
  }
  SubmitResult Transfer(const Copy& copy) override {
    const Timer timer(inside_);
    return device_.Transfer(copy);
  }
  SubmitResult Raise(GuardId guard, std::uint32_t value) override {
    const Timer timer(inside_);
    return device_.Raise(guard, value);
  }
  std::size_t Poll(std::span<DeviceEvent> events) override {
    const Timer timer(inside_);
    return device_.Poll(events);
  }
  void SetListener(DeviceListener* listener) override {
    device_.SetListener(nullptr);  // no call reads `listener_` after this
    listener_ = listener;
    if (listener != nullptr) device_.SetListener(this);
  }
  void SetWorkHeld(bool held) override {
    const Timer timer(inside_);
    device_.SetWorkHeld(held);
  }

 private:
  class Timer {
   public:
    explicit Timer(Nanoseconds& total) : total_(total), start_(lagoon::Now()) {}
    ~Timer() { total_ += lagoon::Now() - start_; }
    Timer(const Timer&) = delete;
    Timer& operator=(const Timer&) = delete;

   private:
    Nanoseconds& total_;
    const TimePoint start_;
  };

  void OnDeviceNews() override {
    const Nanoseconds before = inside_;
    is_listening_ = true;
    const TimePoint start = lagoon::Now();
    listener_->OnDeviceNews();
    listening_ += lagoon::Now() - start;
    is_listening_ = false;
    inside_while_listening_ += inside_ - before;
  }

  DeviceListener* listener_ = nullptr;
  bool is_listening_ = false;
  Nanoseconds inside_{0}, listening_{0}, inside_while_listening_{0};
  std::uint64_t launches_ = 0;
};

}  // namespace lagoon::bench
