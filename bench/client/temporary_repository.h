#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "bench/client/temporary_folder.h"

namespace lagoon::bench {

/// A model repository of links to some models of a zoo. The destructor removes the repository.
class TemporaryRepository {
 public:
  /// Fails with kNotFound, naming a model that the zoo lacks and how to make that model.
  static Result<TemporaryRepository> Link(const std::string& zoo,
                                          const std::vector<std::string>& models);
  const std::string& path() const { return folder_.path(); }

  /// Adds the ONNX file as a model with this configuration. kNotFound: there is no such file.
  Status AddFile(const std::string& name, const std::string& file, const std::string& config = "");
  /// Adds a model that computes next to nothing: the mean of each channel. `dims`: shape of the
  /// input, [N,C,H,W]; -1: any batch.
  Status AddChannelMeans(const std::string& name, std::span<const std::int64_t> dims,
                         const std::string& config = "");

 private:
  explicit TemporaryRepository(TemporaryFolder folder) : folder_(std::move(folder)) {}
  TemporaryFolder folder_;
};

}  // namespace lagoon::bench
