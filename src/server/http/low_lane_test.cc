#include "server/http/low_lane.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace lagoon {
namespace {

class LowLaneTest : public ::testing::Test {
 protected:
  LowLaneTest() { EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends_), 0); }
  ~LowLaneTest() override {
    lane_.Stop();
    pool_.Join();
    for (const int end : ends_) close(end);
  }
  std::shared_ptr<LowLane::Piece> PieceOf(std::vector<std::string>& texts) {
    std::vector<iovec> parts;
    for (std::string& text : texts) parts.push_back({text.data(), text.size()});
    return std::make_shared<LowLane::Piece>(ends_[0], std::move(parts), [this] {
      ++done_;
      done_.notify_all();
    });
  }
  void Send(const std::shared_ptr<LowLane::Piece>& piece) {
    lane_.Post(piece);
    done_.wait(0);
  }

  int ends_[2] = {-1, -1};
  std::atomic<int> done_{0};
  IoPool pool_{1};
  LowLane lane_{pool_};
};

TEST_F(LowLaneTest, SendsManyPartsInOrder) {
  std::vector<std::string> texts;
  std::string all;
  for (int i = 0; i < 100; ++i) all += texts.emplace_back(i, static_cast<char>('a' + i % 26));
  const auto piece = PieceOf(texts);
  Send(piece);
  EXPECT_EQ(piece->sent(), all.size());
  EXPECT_EQ(piece->error(), 0);
  std::string got(all.size() + 1, ' ');
  got.resize(static_cast<std::size_t>(recv(ends_[1], got.data(), got.size(), 0)));
  EXPECT_EQ(got, all);
}

TEST_F(LowLaneTest, ReturnsWhatAFullSocketDoesNotTake) {
  std::vector<std::string> texts(2, std::string(3'000'000, 'x'));
  const auto piece = PieceOf(texts);
  Send(piece);
  EXPECT_GT(piece->sent(), 0u);
  EXPECT_LT(piece->sent(), 6'000'000u);
  EXPECT_EQ(piece->error(), 0);
}

TEST_F(LowLaneTest, TellsThatTheOtherEndIsClosed) {
  close(std::exchange(ends_[1], -1));
  std::vector<std::string> texts = {"x"};
  const auto piece = PieceOf(texts);
  Send(piece);
  EXPECT_EQ(piece->error(), EPIPE);
}

TEST_F(LowLaneTest, APieceIsTakenBackOnlyBeforeTheLaneBeginsIt) {
  std::vector<std::string> texts = {"x"};
  const auto sent = PieceOf(texts);
  Send(sent);
  EXPECT_FALSE(sent->TakeBack());
  const auto never = PieceOf(texts);
  EXPECT_TRUE(never->TakeBack());
  lane_.Post(never);
  done_ = 0;
  Send(PieceOf(texts));  // behind the other
  EXPECT_EQ(done_, 1);
  EXPECT_EQ(never->sent(), 0u);
}

}  // namespace
}  // namespace lagoon
