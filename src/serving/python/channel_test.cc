#include "serving/python/channel.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace lagoon {
namespace {

constexpr Nanoseconds kChannelLimit = std::chrono::seconds(20);
constexpr int kNoWake = -1;

class ChannelTest : public ::testing::Test {
 protected:
  ChannelTest() {
    auto ends = ProgramChannel::Pair();
    EXPECT_TRUE(ends);
    one_ = std::make_unique<ProgramChannel>(std::move(ends->first));
    other_ = std::move(ends->second);
  }
  ProgramChannel Other() { return ProgramChannel(std::move(other_)); }
  Result<std::optional<ProgramMessage>> Receive() {
    return one_->Receive(Now() + kChannelLimit, kNoWake);
  }
  void Write(const std::string& bytes) {
    ASSERT_EQ(::write(other_.number(), bytes.data(), bytes.size()),
              static_cast<ssize_t>(bytes.size()));
  }
  static std::string Prefix(std::uint32_t object, std::uint32_t file, std::uint64_t bytes) {
    std::string text(16, '\0');
    std::memcpy(text.data(), &object, 4);
    std::memcpy(text.data() + 4, &file, 4);
    std::memcpy(text.data() + 8, &bytes, 8);
    return text;
  }
  void ExpectBroken(const std::string& words) {
    const auto message = Receive();
    ASSERT_FALSE(message);
    EXPECT_EQ(message.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(message.error().message.find(words), std::string::npos) << message.error().message;
  }

  std::unique_ptr<ProgramChannel> one_;
  OwnedDescriptor other_;
};

TEST_F(ChannelTest, FewAndManyBytesArrive) {
  ProgramChannel other = Other();
  for (const std::size_t size : {std::size_t{0}, std::size_t{5}, kMostInlineBytes,
                                 kMostInlineBytes + 1, std::size_t{3} << 20}) {
    std::vector<std::byte> first(size / 2, std::byte{1}), second(size - size / 2, std::byte{2});
    const std::span<const std::byte> parts[] = {first, second};
    ASSERT_TRUE(other.Send({{"op", "answer"}, {"size", size}}, parts, Now() + kChannelLimit));
    const auto message = Receive();
    ASSERT_TRUE(message && *message);
    EXPECT_EQ((*message)->object["size"], size);
    ASSERT_EQ((*message)->bytes(), size);
    std::vector<std::byte> got(size);
    ASSERT_TRUE((*message)->Read(0, got));
    first.insert(first.end(), second.begin(), second.end());
    EXPECT_EQ(got, first);
  }
}

TEST_F(ChannelTest, AMessageComesInPieces) {
  const std::string text = R"({"op":"done"})";
  const std::string whole = Prefix(static_cast<std::uint32_t>(text.size()), 0, 3) + text + "abc";
  for (const char byte : whole.substr(0, whole.size() - 1)) {
    Write(std::string(1, byte));
    const auto message = one_->Receive(Now(), kNoWake);
    ASSERT_TRUE(message);
    EXPECT_FALSE(*message);
  }
  Write("c");
  const auto message = Receive();
  ASSERT_TRUE(message && *message);
  EXPECT_EQ((*message)->bytes(), 3u);
}

TEST_F(ChannelTest, AFileThatIsTooShortIsAnError) {
  const int file = ::memfd_create("test", 0);
  ASSERT_EQ(::ftruncate(file, 10), 0);
  const std::string text = "{}", prefix = Prefix(2, 1, 100000);
  iovec part{const_cast<char*>(prefix.data()), prefix.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &file, sizeof(int));
  ASSERT_EQ(::sendmsg(other_.number(), &message, 0), 16);
  ::close(file);
  Write(text);
  const auto got = Receive();
  ASSERT_TRUE(got && *got);
  std::vector<std::byte> bytes(100000);
  EXPECT_TRUE((*got)->Read(0, std::span(bytes).first(10)));
  const Status read = (*got)->Read(0, bytes);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, ErrorCode::kInternal);
}

TEST_F(ChannelTest, WhatIsNoMessageIsAnError) {
  Write(Prefix(2, 1, 100) + "{}");
  ExpectBroken("without its file");
}

TEST_F(ChannelTest, HugeSizesAreErrors) {
  Write(Prefix(0xffffffff, 0, 0));
  ExpectBroken("4294967295");
}

TEST_F(ChannelTest, ManyInlineBytesAreAnError) {
  Write(Prefix(2, 0, kMostInlineBytes + 1));
  ExpectBroken("bytes of tensors");
}

TEST_F(ChannelTest, TextThatIsNoObjectIsAnError) {
  Write(Prefix(3, 0, 0) + "[1]");
  ExpectBroken("no JSON object");
}

TEST_F(ChannelTest, AClosedEndIsAnError) {
  other_ = OwnedDescriptor();
  const auto message = Receive();
  ASSERT_FALSE(message);
  EXPECT_EQ(message.error().code, ErrorCode::kUnavailable);
  EXPECT_FALSE(one_->Send({{"op", "end"}}, {}, Now() + kChannelLimit));
}

TEST_F(ChannelTest, AnEndThatDoesNotReadIsAnError) {
  const nlohmann::json object = {{"text", std::string(kMostObjectBytes / 2, 'x')}};
  const Status sent = one_->Send(object, {}, Now() + std::chrono::milliseconds(20));
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().code, ErrorCode::kDeadlineExceeded);
}

// A child of the program holds the socket, where a fork in C keeps it.
TEST_F(ChannelTest, TheEndOfTheProcessIsSeenBehindItsLastWords) {
  auto ends = ProgramChannel::Pair();
  ASSERT_TRUE(ends);
  const OwnedDescriptor ended(::eventfd(0, EFD_CLOEXEC));
  ProgramChannel server(std::move(ends->first), ended.number()), child(std::move(ends->second));
  const auto nothing = server.Receive(Now() + std::chrono::milliseconds(5), kNoWake);
  ASSERT_TRUE(nothing && !*nothing);
  const std::vector<std::byte> bytes(kMostInlineBytes);
  const std::span<const std::byte> parts[] = {bytes};
  ASSERT_TRUE(child.Send({{"op", "answer"}}, parts, Now() + kChannelLimit));
  ASSERT_TRUE(child.Send({{"op", "done"}}, parts, Now() + kChannelLimit));
  ASSERT_EQ(::eventfd_write(ended.number(), 1), 0);
  for (const char* const op : {"answer", "done"}) {
    const auto message = server.Receive(Now() + kChannelLimit, kNoWake);
    ASSERT_TRUE(message && *message);
    EXPECT_EQ((*message)->object["op"], op);
  }
  const auto end = server.Receive(Now() + kChannelLimit, kNoWake);
  ASSERT_FALSE(end);
  EXPECT_EQ(end.error().code, ErrorCode::kUnavailable);
}

TEST_F(ChannelTest, TooMuchIsRefusedBeforeItIsSent) {
  ProgramChannel other = Other();
  const nlohmann::json object = {{"text", std::string(kMostObjectBytes, 'x')}};
  const Status sent = one_->Send(object, {}, Now() + kChannelLimit);
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().code, ErrorCode::kResourceExhausted);
  ASSERT_TRUE(one_->Send({{"op", "end"}}, {}, Now() + kChannelLimit));
  const auto message = other.Receive(Now() + kChannelLimit, kNoWake);
  ASSERT_TRUE(message && *message);
  EXPECT_EQ((*message)->object["op"], "end");
}

}  // namespace
}  // namespace lagoon
