#include "device/cuda/note_ring.h"

#include <gtest/gtest.h>

#include "base/testing/paths.h"
#include "device/cuda/gpu/protocol.cuh"
#include "device/cuda/testing/fake_device.h"
#include "simt/emulator.h"

namespace lagoon::cuda {
namespace {

std::unique_ptr<NoteRing> MakeRing(std::uint32_t capacity) {
  fake::OpenFake().Reset(fake::EmulatedSettings(1));
  auto driver = Driver::Load(FakeCudaLibrary());
  EXPECT_TRUE(driver.has_value());
  auto session = GpuSession::Open(*driver, 0);
  EXPECT_TRUE(session.has_value());
  auto ring = NoteRing::Create(*session, capacity);
  EXPECT_TRUE(ring.has_value());
  return *std::move(ring);
}

// The GPU's side. The test runs it itself, so that it takes the head where the host finds it.
void PostNotes(const NoteRing& ring, std::uint32_t first, std::uint32_t count) {
  RingRef ref = ring.ref();
  ref.head =
      reinterpret_cast<u64*>(fake::OpenFake().OnHost(reinterpret_cast<std::uint64_t>(ref.head)));
  simt::Emulator emulator;
  const Status posted =
      emulator.Run({.name = "post", .grid = {1, 1, 1}, .block = {1, 1, 1}, .kernel = [&] {
                      for (std::uint32_t i = first; i < first + count; ++i) {
                        Post(ref, NoteEntry(Note::kCount, i, i));
                      }
                    }});
  ASSERT_TRUE(posted.has_value()) << posted.error().message;
}

TEST(NoteRing, NotesComeInOrderLapAfterLap) {
  const std::unique_ptr<NoteRing> ring = MakeRing(8);
  EXPECT_FALSE(ring->Waiting());
  EXPECT_FALSE(ring->Take().has_value());
  std::uint32_t next = 5;
  for (int round = 0; round < 20; ++round) {
    const std::uint32_t count = round % 8 + 1;
    PostNotes(*ring, next, count);
    EXPECT_TRUE(ring->Waiting());
    for (std::uint32_t i = 0; i < count; ++i, ++next) {
      const std::optional<NoteSeen> note = ring->Take();
      ASSERT_TRUE(note.has_value()) << "note " << next;
      EXPECT_EQ(note->kind, Note::kCount);
      EXPECT_EQ(note->issue, next);
      EXPECT_EQ(note->value, next);
    }
    EXPECT_FALSE(ring->Take().has_value()) << "an entry of the lap before";
    EXPECT_FALSE(ring->Waiting());
  }
}

TEST(NoteRing, NoMoreRoomIsReservedThanThereIs) {
  const std::unique_ptr<NoteRing> ring = MakeRing(8);
  EXPECT_TRUE(ring->Reserve(5));
  EXPECT_FALSE(ring->Reserve(4));
  EXPECT_TRUE(ring->Reserve(3));
  EXPECT_FALSE(ring->Reserve(1));
  ring->Release(5);
  EXPECT_TRUE(ring->Reserve(5));
}

}  // namespace
}  // namespace lagoon::cuda
