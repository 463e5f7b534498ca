#include "device/host/listener_slot.h"

#include <gtest/gtest.h>

#include <functional>
#include <thread>
#include <vector>

#include "device/testing/interleaving.h"

namespace lagoon {
namespace {

using interleaving::Explorer;
using interleaving::Memory;
using interleaving::ModelAtomics;
using ModelSlot = BasicListenerSlot<ModelAtomics>;

struct Listener final : DeviceListener {
  explicit Listener(std::function<void()> on_news_in) : on_news(std::move(on_news_in)) {}
  void OnDeviceNews() override { on_news(); }
  std::function<void()> on_news;
};

TEST(ListenerSlot, CallsTheListenerThatIsSet) {
  ListenerSlot slot;
  int first = 0, second = 0;
  Listener one([&] { ++first; }), two([&] { ++second; });
  slot.Tell();
  slot.Set(&one);
  slot.Tell();
  slot.Set(&two);
  slot.Tell();
  slot.Tell();
  slot.Set(nullptr);
  slot.Tell();
  EXPECT_EQ(first, 1);
  EXPECT_EQ(second, 2);
}

TEST(ListenerSlot, AListenerMayClearOrReplaceItselfInsideItsCall) {
  ListenerSlot slot;
  int first = 0, second = 0;
  Listener two([&] {
    ++second;
    slot.Set(nullptr);
  });
  Listener one([&] {
    ++first;
    slot.Set(&two);
    slot.Tell();  // a call inside a call
  });
  slot.Set(&one);
  slot.Tell();
  slot.Tell();
  EXPECT_EQ(first, 1);
  EXPECT_EQ(second, 1);
}

TEST(ListenerSlot, ACallOfAnotherSlotIsWaitedForInsideACall) {
  ListenerSlot slot, other;
  std::atomic<bool> entered{false}, open{false}, left{false};
  Listener gate([&] {
    entered.store(true);
    entered.notify_all();
    open.wait(false);
    left.store(true);
  });
  other.Set(&gate);
  std::jthread teller([&] { other.Tell(); });
  entered.wait(false);
  Listener clears([&] {
    std::jthread opener([&] {
      open.store(true);
      open.notify_all();
    });
    other.Set(nullptr);
    EXPECT_TRUE(left.load());
  });
  slot.Set(&clears);
  slot.Tell();
}

// All interleavings of two threads that call Tell() and one that sets, clears and destroys a
// listener.
class SlotModel {
 public:
  /// `clears_itself`: the listener calls Set(nullptr) inside its call, too.
  explicit SlotModel(bool clears_itself) : clears_itself_(clears_itself) {
    explorer_.AddThread("a", [this] {
      slot_.Tell();
      slot_.Tell();
    });
    explorer_.AddThread("b", [this] { slot_.Tell(); });
    explorer_.AddThread("owner", [this] {
      slot_.Set(&listener_);
      slot_.Set(nullptr);
      Step([this](Memory& memory) {
        Explorer::Require(memory[inside_] == 0, "Set(nullptr) returned during a call");
        memory[destroyed_] = 1;
      });
    });
  }

  Explorer::Outcome Run() { return explorer_.Run(); }

 private:
  void OnNews() {
    Step([this](Memory& memory) {
      Explorer::Require(memory[destroyed_] == 0, "a call began after Set(nullptr)");
      ++memory[inside_];
    });
    if (clears_itself_) slot_.Set(nullptr);
    Step([this](Memory& memory) { --memory[inside_]; });
  }

  template <typename F>
  static void Step(F change) {
    Explorer::Access(1, [&](Memory& memory, unsigned) {
      change(memory);
      return std::optional<std::uint64_t>(0);
    });
  }

  const bool clears_itself_;
  Explorer explorer_;
  ModelSlot slot_;
  std::size_t inside_ = explorer_.AddWord(0), destroyed_ = explorer_.AddWord(0);
  Listener listener_{[this] { OnNews(); }};
};

TEST(ListenerSlotModel, NoInterleavingCallsADestroyedListenerOrWaitsForEver) {
  const Explorer::Outcome outcome = SlotModel(/*clears_itself=*/false).Run();
  EXPECT_EQ(outcome.violation, "");
  EXPECT_GT(outcome.endings, 0u);
  EXPECT_GT(outcome.states, 1000u);
}

TEST(ListenerSlotModel, NorDoesOneInWhichTheListenerClearsItself) {
  const Explorer::Outcome outcome = SlotModel(/*clears_itself=*/true).Run();
  EXPECT_EQ(outcome.violation, "");
  EXPECT_GT(outcome.endings, 0u);
}

}  // namespace
}  // namespace lagoon
