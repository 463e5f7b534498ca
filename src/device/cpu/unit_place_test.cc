#include "device/cpu/unit_place.h"

#include <gtest/gtest.h>

#include <optional>
#include <utility>

#include "device/testing/interleaving.h"

namespace lagoon {
namespace {

using interleaving::Explorer;
using interleaving::Memory;
using interleaving::ModelAtomics;
using ModelPlace = BasicUnitPlace<ModelAtomics>;
using Word = ModelAtomics::Atomic<std::uint32_t>;

constexpr auto kSc = std::memory_order_seq_cst;

// A unit with its worker, a thread that submits a piece of work and then ends all, and one that
// borrows the unit. Whoever has the unit does the work.
class Model {
 public:
  /// `guest_works`: false: it leaves the work, as work that is worse than its own.
  explicit Model(bool guest_works) : guest_works_(guest_works) {
    explorer_.AddThread("worker", [this] { Work(); });
    explorer_.AddThread("caller", [this] { Submit(); });
    explorer_.AddThread("guest", [this] { Help(); });
  }
  Explorer::Outcome Run() { return explorer_.Run(); }

 private:
  void Work() {
    for (;;) {
      Explorer::Checkpoint(0);
      const std::uint32_t seen = epoch_.load(kSc);
      if (stopping_.load(kSc) != 0) return;
      if (DoWork()) continue;
      place_.BeginIdle();
      if (epoch_.load(kSc) != seen && place_.EndIdle()) continue;
      if (place_.FallAsleep() && epoch_.load(kSc) != seen && place_.WakeItself()) continue;
      place_.AwaitTurn();
    }
  }

  void Submit() {
    work_.store(1, kSc);
    epoch_.fetch_add(1, kSc);
    if (sleepers_.load(kSc) != 0) place_.Wake();
    Explorer::Await([&](const Memory& memory) {
      return memory[done_.word()] != 0 && memory[guest_gone_.word()] != 0;
    });
    stopping_.store(1, kSc);
    epoch_.fetch_add(1, kSc);
    place_.End();
  }

  void Help() {
    if (place_.Borrow(/*asleep=*/false) || place_.Borrow(/*asleep=*/true)) {
      if (guest_works_) DoWork();
      place_.GiveBack();
      if (work_.load(kSc) != 0 && sleepers_.load(kSc) != 0) place_.Wake();
    }
    guest_gone_.store(1, kSc);
  }

  // By the thread that has the unit. Few steps, so that there are few states.
  bool DoWork() {
    const bool some = Explorer::Access(1, [this](Memory& memory, unsigned) {
                        Explorer::Require(memory[inside_.word()] == 0, "two threads on a unit");
                        memory[inside_.word()] = 1;
                        const std::uint64_t work = std::exchange(memory[work_.word()], 0);
                        if (work != 0) memory[done_.word()] = 1;
                        return std::optional(work);
                      }) != 0;
    inside_.store(0, kSc);
    return some;
  }

  Explorer explorer_;
  const bool guest_works_;
  Word sleepers_{0}, epoch_{0}, work_{0}, done_{0}, stopping_{0}, guest_gone_{0}, inside_{0};
  ModelPlace place_{sleepers_};
};

TEST(UnitPlace, NoWorkIsForgottenAndNoUnitHasTwoThreads) {
  for (const bool works : {false, true}) {
    const auto outcome = Model(works).Run();
    EXPECT_EQ(outcome.violation, "");
    EXPECT_GT(outcome.states, 500u);
  }
}

TEST(UnitPlace, ALentUnitIsNeitherWokenNorLentAgain) {
  UnitPlace::Count sleepers{0};
  UnitPlace place(sleepers);
  EXPECT_FALSE(place.Borrow(false)) << "its worker is at work";
  EXPECT_FALSE(place.Borrow(true));
  place.BeginIdle();
  EXPECT_FALSE(place.Borrow(true)) << "its worker is awake";
  EXPECT_TRUE(place.FallAsleep());
  EXPECT_EQ(sleepers.load(), 1u);
  EXPECT_TRUE(place.Borrow(true));
  EXPECT_EQ(sleepers.load(), 0u);
  EXPECT_FALSE(place.Wake());
  EXPECT_FALSE(place.Borrow(false) || place.Borrow(true));
  place.GiveBack();
  EXPECT_EQ(sleepers.load(), 1u);
  EXPECT_TRUE(place.Wake());
  EXPECT_EQ(sleepers.load(), 0u);
  EXPECT_FALSE(place.Wake());
  place.AwaitTurn();
}

TEST(UnitPlace, AUnitThatIsLentWhileItsWorkerLooksForWorkKeepsTheWorkerFromIt) {
  UnitPlace::Count sleepers{0};
  UnitPlace place(sleepers);
  place.BeginIdle();
  EXPECT_TRUE(place.idle());
  EXPECT_TRUE(place.Borrow(false));
  EXPECT_FALSE(place.idle());
  EXPECT_FALSE(place.EndIdle());
  EXPECT_FALSE(place.FallAsleep());
  EXPECT_EQ(sleepers.load(), 0u);
  place.GiveBack();
  EXPECT_TRUE(place.Wake());
  place.AwaitTurn();
}

}  // namespace
}  // namespace lagoon
