#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"

namespace lagoon::bench {

/// A model repository of links to some models of a zoo; removed with this object.
class TemporaryRepository {
 public:
  /// kNotFound names the model that the zoo lacks and how to make it.
  static Result<TemporaryRepository> Link(const std::string& zoo,
                                          const std::vector<std::string>& models);
  ~TemporaryRepository();
  TemporaryRepository(TemporaryRepository&& other) noexcept : path_(std::move(other.path_)) {
    other.path_.clear();
  }
  TemporaryRepository& operator=(TemporaryRepository&&) = delete;

  const std::string& path() const { return path_; }

  /// Adds a model that computes next to nothing: the mean of each channel of `dims` [1,C,H,W].
  Status AddChannelMeans(const std::string& name, std::span<const std::int64_t> dims);

 private:
  TemporaryRepository() = default;
  std::string path_;
};

}  // namespace lagoon::bench
