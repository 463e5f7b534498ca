#include "server/io_pool.h"

#include <gtest/gtest.h>

#include <boost/asio/post.hpp>
#include <future>
#include <stdexcept>
#include <thread>

namespace lagoon {
namespace {

// Its only thread is busy, so that a handler runs elsewhere or waits.
class BusyPoolTest : public ::testing::Test {
 protected:
  BusyPoolTest() {
    std::promise<void> busy;
    boost::asio::post(pool_.context(), [&busy, end = end_.get_future().share()] {
      busy.set_value();
      end.wait();
    });
    busy.get_future().wait();
  }
  ~BusyPoolTest() override { end_.set_value(); }

  void Post() {
    boost::asio::post(pool_.context(), [this] {
      ++ran_;
      by_ = std::this_thread::get_id();
      lent_ = LentThread::IsThis();
    });
  }

  std::promise<void> end_;
  int ran_ = 0;
  std::thread::id by_;
  bool lent_ = false;
  IoPool pool_{1};
};

TEST_F(BusyPoolTest, AThreadThatIsLentRunsOneHandlerForEachHelp) {
  const LentThread lent;
  Post();
  Post();
  pool_.Help();
  EXPECT_EQ(ran_, 1);
  EXPECT_EQ(by_, std::this_thread::get_id());
  pool_.Help();
  EXPECT_EQ(ran_, 2);
}

TEST_F(BusyPoolTest, AnotherThreadRunsNone) {
  { const LentThread lent; }
  EXPECT_FALSE(LentThread::IsThis());
  Post();
  pool_.Help();
  EXPECT_EQ(ran_, 0);
  const LentThread lent;
  std::thread([this] {
    EXPECT_FALSE(LentThread::IsThis());
    pool_.Help();
  }).join();
  EXPECT_EQ(ran_, 0);
  pool_.Help();  // or the handler would run when the test's fields are gone
  EXPECT_EQ(ran_, 1);
}

// Handlers that post and help would nest without a bound.
TEST_F(BusyPoolTest, AHandlerThatRunsThereIsNotLentTheThread) {
  const LentThread lent;
  Post();
  pool_.Help();
  EXPECT_FALSE(lent_);
  EXPECT_TRUE(LentThread::IsThis());
}

TEST_F(BusyPoolTest, AnExceptionOfAHandlerDoesNotLeaveHelp) {
  const LentThread lent;
  boost::asio::post(pool_.context(), [] { throw std::runtime_error("out of memory"); });
  pool_.Help();
  EXPECT_TRUE(LentThread::IsThis());
}

}  // namespace
}  // namespace lagoon
