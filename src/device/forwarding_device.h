#pragma once

#include "device/device.h"

namespace lagoon {

/// Forwards every call to another device, which it borrows. For classes that override a few calls
/// to count, time or spoil them.
class ForwardingDevice : public Device {
 public:
  explicit ForwardingDevice(Device& device) : device_(device) {}

  const DeviceInfo& info() const override { return device_.info(); }
  Result<Buffer> Allocate(std::size_t bytes, MemoryKind kind) override {
    return device_.Allocate(bytes, kind);
  }
  Status Upload(void* to, std::span<const std::byte> from) override {
    return device_.Upload(to, from);
  }
  Result<KernelHandle> Load(const CodeImage& image, const KernelSpec& spec) override {
    return device_.Load(image, spec);
  }
  std::uint32_t LoadedKernels() const override { return device_.LoadedKernels(); }
  std::uint32_t Occupancy(KernelHandle kernel) const override { return device_.Occupancy(kernel); }
  UnitNeed NeedOf(KernelHandle kernel) const override { return device_.NeedOf(kernel); }
  Result<StreamId> CreateStream(const StreamOptions& options) override {
    return device_.CreateStream(options);
  }
  Result<ShareId> CreateShare(const std::string& name, UnitRange units) override {
    return device_.CreateShare(name, units);
  }
  Status PrepareUnits(UnitRange units) override { return device_.PrepareUnits(units); }
  Result<GuardId> CreateGuard() override { return device_.CreateGuard(); }
  const std::atomic<std::uint32_t>* GuardWord(GuardId guard) const override {
    return device_.GuardWord(guard);
  }
  TimePoint Now() const override { return device_.Now(); }
  SubmitResult Submit(const Launch& launch) override { return device_.Submit(launch); }
  SubmitResult Transfer(const Copy& copy) override { return device_.Transfer(copy); }
  SubmitResult Raise(GuardId guard, std::uint32_t value) override {
    return device_.Raise(guard, value);
  }
  Status MoveShare(ShareId share, UnitRange units) override {
    return device_.MoveShare(share, units);
  }
  void HurryBackground(bool hurry) override { device_.HurryBackground(hurry); }
  std::size_t Poll(std::span<DeviceEvent> events) override { return device_.Poll(events); }
  void SetListener(DeviceListener* listener) override { device_.SetListener(listener); }
  void Wait(TimePoint until) override { device_.Wait(until); }
  void WaitForMany(TimePoint until, std::size_t launches) override {
    device_.WaitForMany(until, launches);
  }
  void Wake() override { device_.Wake(); }
  BorrowedUnit BorrowUnit(ShareId share) override { return device_.BorrowUnit(share); }
  void Help(BorrowedUnit unit, const HelpUntil& until) override { device_.Help(unit, until); }
  UnitTimes Times() const override { return device_.Times(); }
  void SetWorkHeld(bool held) override { device_.SetWorkHeld(held); }
  void SetObserver(DeviceObserver* observer) override { device_.SetObserver(observer); }

 protected:
  Device& device_;
};

}  // namespace lagoon
