#pragma once

// The folder of models, in Triton's layout: REPOSITORY/MODEL/{config.pbtxt,VERSION/model.onnx}.

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "serving/config/model_config.pb.h"

namespace lagoon {

struct RepositoryModel {
  std::string name;
  std::string directory;               // absolute
  std::vector<std::int64_t> versions;  // those that have a folder, ascending
  std::string problem;                 // not empty: why no version can be served
};

/// Lists the models by name. Files and hidden folders are not models; a folder that cannot be one
/// (bad name, no versions, unreadable) and a link that leads nowhere are listed with their problem.
/// Errors name the path: kNotFound when it does not exist, kInvalidArgument when it is not a
/// readable folder.
Result<std::vector<RepositoryModel>> ScanRepository(const std::string& path);

struct VersionChoice {
  std::vector<std::int64_t> serve;    // ascending
  std::vector<std::int64_t> missing;  // named by the policy, but have no folder
};

/// Applies the policy. Without a policy, the latest version is served.
VersionChoice ChooseVersions(const inference::ModelVersionPolicy& policy,
                             const std::vector<std::int64_t>& available);

/// The file of a model's version. If `filename` is a folder in the version's folder, the file is
/// model.onnx in that folder, with its external data beside it (Triton's layout for large models).
std::string ModelPath(const std::string& version_folder, const std::string& filename);

/// The version that a folder's name stands for: a positive integer without sign or leading zeros.
/// 0: `text` is no such number.
std::int64_t ParseVersion(const std::string& text);

}  // namespace lagoon
