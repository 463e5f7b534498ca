#include "sched/programs/waitlist.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <set>
#include <vector>

namespace lagoon {
namespace {

using Op = Waitlist::Op;
using Ops = std::vector<Op>;

Ops Complete(Waitlist& list, Op op) {
  Ops activated;
  list.Complete(op, activated);
  return activated;
}

TEST(Waitlist, AStreamIsInOrder) {
  Waitlist list;
  const Waitlist::Stream stream = list.AddStream(StreamKind::kBlocking);
  const Op first = list.Add(stream), second = list.Add(stream);
  EXPECT_TRUE(list.active(first));
  EXPECT_FALSE(list.active(second));
  EXPECT_EQ(Complete(list, first), Ops{second});
  EXPECT_TRUE(list.IsComplete(first));
  EXPECT_FALSE(list.IsStreamComplete(stream));
  EXPECT_EQ(Complete(list, second), Ops{});
  EXPECT_TRUE(list.IsStreamComplete(stream));
  EXPECT_TRUE(list.active(list.Add(stream)));
}

TEST(Waitlist, StreamsDoNotWaitForOneAnother) {
  Waitlist list;
  const Waitlist::Stream a = list.AddStream(StreamKind::kBlocking);
  const Waitlist::Stream b = list.AddStream(StreamKind::kBlocking);
  list.Add(a);
  EXPECT_TRUE(list.active(list.Add(b)));
}

TEST(Waitlist, TheDefaultStreamWaitsForBlockingStreamsAndTheyForIt) {
  Waitlist list;
  const Waitlist::Stream a = list.AddStream(StreamKind::kBlocking);
  const Waitlist::Stream b = list.AddStream(StreamKind::kBlocking);
  const Op before_a = list.Add(a), before_b = list.Add(b);
  const Op fence = list.Add(Waitlist::kDefaultStream);
  const Op after_a = list.Add(a), after_b = list.Add(b);
  EXPECT_FALSE(list.active(fence));
  EXPECT_EQ(Complete(list, before_a), Ops{});
  EXPECT_FALSE(list.active(after_a));  // although its own stream is empty before it
  EXPECT_EQ(Complete(list, before_b), Ops{fence});
  EXPECT_EQ(Complete(list, fence), (Ops{after_a, after_b}));
}

TEST(Waitlist, NonBlockingStreamsKnowNothingOfTheDefaultStream) {
  Waitlist list;
  const Waitlist::Stream free = list.AddStream(StreamKind::kNonBlocking);
  const Op before = list.Add(free);
  EXPECT_TRUE(list.active(list.Add(Waitlist::kDefaultStream)));
  Complete(list, before);
  EXPECT_TRUE(list.active(list.Add(free)));
}

TEST(Waitlist, TheDefaultStreamIsInOrderToo) {
  Waitlist list;
  const Op first = list.Add(Waitlist::kDefaultStream);
  const Op second = list.Add(Waitlist::kDefaultStream);
  EXPECT_FALSE(list.active(second));
  EXPECT_EQ(Complete(list, first), Ops{second});
}

TEST(Waitlist, AStreamWaitsForTheLastRecordOfAnEvent) {
  Waitlist list;
  const Waitlist::Stream a = list.AddStream(StreamKind::kNonBlocking);
  const Waitlist::Stream b = list.AddStream(StreamKind::kNonBlocking);
  const Waitlist::Event event = list.AddEvent();
  list.WaitFor(event, b);
  EXPECT_TRUE(list.IsStreamComplete(b)) << "an event that was not recorded holds nothing up";
  const Op first = list.Add(a);
  list.Record(event, a);
  const Op second = list.Add(a);
  const Op before = list.Add(b);
  list.WaitFor(event, b);
  const Op after = list.Add(b);
  EXPECT_TRUE(list.active(before)) << "it was issued before the wait";
  EXPECT_EQ(Complete(list, before), Ops{});
  EXPECT_FALSE(list.active(after));
  EXPECT_EQ(Complete(list, first), (Ops{second, after})) << "in order of issue, without marks";
  EXPECT_EQ(Complete(list, after), Ops{});
  EXPECT_TRUE(list.IsStreamComplete(b));
  list.WaitFor(event, b);
  EXPECT_TRUE(list.active(list.Add(b))) << "the event has happened";
}

TEST(Waitlist, ALaterRecordDoesNotHoldUpWhatWaitsAlready) {
  Waitlist list;
  const Waitlist::Stream a = list.AddStream(StreamKind::kNonBlocking);
  const Waitlist::Stream b = list.AddStream(StreamKind::kNonBlocking);
  const Waitlist::Event event = list.AddEvent();
  const Op first = list.Add(a);
  list.Record(event, a);
  list.WaitFor(event, b);
  const Op waits = list.Add(b);
  const Op second = list.Add(a);
  list.Record(event, a);
  EXPECT_EQ(Complete(list, first), (Ops{waits, second}));
  list.WaitFor(event, b);
  EXPECT_FALSE(list.active(list.Add(b)));
  EXPECT_EQ(list.incomplete(), 5u) << "three operations, a mark and a wait";
}

TEST(Waitlist, AJobHasOnePerThreadStreamThatIsBlocking) {
  Waitlist list;
  const Waitlist::Stream own = list.AddStream(StreamKind::kPerThread);
  EXPECT_NE(own, Waitlist::kDefaultStream);
  EXPECT_EQ(list.AddStream(StreamKind::kPerThread), own);
  EXPECT_EQ(list.streams(), 2u);
  const Op op = list.Add(own);
  EXPECT_FALSE(list.active(list.Add(Waitlist::kDefaultStream)));
  EXPECT_TRUE(list.active(op));
}

// CUDA's rules word by word: an operation may start when all earlier operations that it must not
// overtake are complete.
struct Model {
  struct Issued {
    Waitlist::Stream stream;
    bool complete = false;
    std::optional<Op> also = {};  // the mark of an event that it waits for
    bool marks = false;           // a mark or a wait
  };
  std::vector<StreamKind> kinds{StreamKind::kBlocking};
  std::vector<Issued> ops;
  std::vector<std::optional<Op>> events = std::vector<std::optional<Op>>(3);

  // Marks and waits that may start are complete.
  void Settle() {
    for (Op op = 0; op < ops.size(); ++op) {
      if (ops[op].marks && MayStart(op)) ops[op].complete = true;
    }
  }
  bool MayStart(Op op) const {
    const Waitlist::Stream mine = ops[op].stream;
    if (ops[op].also && !ops[*ops[op].also].complete) return false;
    for (Op before = 0; before < op; ++before) {
      if (ops[before].complete) continue;
      const Waitlist::Stream theirs = ops[before].stream;
      const bool meets_default =
          mine == Waitlist::kDefaultStream || theirs == Waitlist::kDefaultStream;
      const bool both_block =
          kinds[mine] == StreamKind::kBlocking && kinds[theirs] == StreamKind::kBlocking;
      if (mine == theirs || (meets_default && both_block)) return false;
    }
    return true;
  }
};

TEST(Waitlist, KeepsCudasRulesInAnyOrderOfEvents) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    Waitlist list;
    Model model;
    std::set<Op> active;
    for (std::size_t i = 0; i < model.events.size(); ++i) list.AddEvent();
    for (int step = 0; step < 80; ++step) {
      if (model.kinds.size() < 5 && random() % 8 == 0) {
        model.kinds.push_back(random() % 3 == 0 ? StreamKind::kNonBlocking : StreamKind::kBlocking);
        list.AddStream(model.kinds.back());
      }
      if (random() % 4 == 0) {
        const auto stream = static_cast<Waitlist::Stream>(random() % model.kinds.size());
        const auto event = static_cast<Waitlist::Event>(random() % model.events.size());
        std::optional<Op>& mark = model.events[event];
        if (random() % 2 == 0) {
          list.Record(event, stream);
          mark = model.ops.size();
          model.ops.push_back({stream, false, std::nullopt, true});
        } else {
          list.WaitFor(event, stream);
          if (mark && !model.ops[*mark].complete) model.ops.push_back({stream, false, mark, true});
        }
        model.Settle();
      } else if (active.empty() || random() % 2 == 0) {
        const auto stream = static_cast<Waitlist::Stream>(random() % model.kinds.size());
        const Op op = list.Add(stream);
        ASSERT_EQ(op, model.ops.size());
        model.ops.push_back({stream});
        if (list.active(op)) active.insert(op);
      } else {
        const Op op = *std::next(active.begin(), static_cast<long>(random() % active.size()));
        active.erase(op);
        model.ops[op].complete = true;
        model.Settle();
        for (const Op next : Complete(list, op)) active.insert(next);
      }
      for (Op op = 0; op < model.ops.size(); ++op) {
        if (model.ops[op].complete || model.ops[op].marks) continue;
        ASSERT_EQ(active.contains(op), model.MayStart(op)) << "seed " << seed << ", op " << op;
      }
    }
  }
}

}  // namespace
}  // namespace lagoon
