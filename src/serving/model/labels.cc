#include "serving/model/labels.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <sstream>

#include "base/text.h"
#include "serving/model/model_folder.h"

namespace lagoon {

Labels ParseLabels(const std::string& text) {
  Labels labels;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.ends_with('\r')) line.pop_back();
    labels.push_back(std::move(line));
  }
  return labels;
}

Status ReadLabels(const std::string& folder, const inference::ModelConfig& config,
                  Signature& signature) {
  signature.labels.resize(signature.outputs.size());
  for (const auto& output : config.output()) {
    if (output.label_filename().empty()) continue;
    Result<std::string> text = ReadModelFile(folder, output.label_filename(), kMaxLabelFileBytes);
    if (!text) {
      return Annotate(fmt::format("output {}: label_filename", Quoted(output.name())),
                      std::move(text).error());
    }
    const auto at = std::ranges::find(signature.outputs, output.name(), &TensorSpec::name);
    signature.labels[static_cast<std::size_t>(at - signature.outputs.begin())] =
        std::make_shared<const Labels>(ParseLabels(*text));
  }
  return {};
}

}  // namespace lagoon
