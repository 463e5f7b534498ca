#pragma once

// For tests: a shared memory object, as a client makes it.

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <vector>

namespace lagoon {

class SharedObject {
 public:
  explicit SharedObject(std::size_t bytes)
      : key_(fmt::format("/lagoon-test-{}-{}", ::getpid(), ++last_)),
        descriptor_(::shm_open(key_.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600)) {
    EXPECT_GE(descriptor_, 0);
    Resize(bytes);
  }
  ~SharedObject() {
    ::close(descriptor_);
    Unlink();
  }
  SharedObject(const SharedObject&) = delete;
  SharedObject& operator=(const SharedObject&) = delete;

  const std::string& key() const { return key_; }
  void Resize(std::size_t bytes) {
    EXPECT_EQ(::ftruncate(descriptor_, static_cast<off_t>(bytes)), 0);
  }
  void Unlink() { ::shm_unlink(key_.c_str()); }

  void Write(std::size_t offset, const std::vector<float>& values) {
    const std::size_t bytes = values.size() * sizeof(float);
    EXPECT_EQ(::pwrite(descriptor_, values.data(), bytes, static_cast<off_t>(offset)),
              static_cast<ssize_t>(bytes));
  }
  std::vector<float> Read(std::size_t offset, std::size_t count) const {
    std::vector<float> values(count);
    const std::size_t bytes = count * sizeof(float);
    EXPECT_EQ(::pread(descriptor_, values.data(), bytes, static_cast<off_t>(offset)),
              static_cast<ssize_t>(bytes));
    return values;
  }

 private:
  static inline std::atomic<int> last_{0};
  const std::string key_;
  const int descriptor_;
};

}  // namespace lagoon
