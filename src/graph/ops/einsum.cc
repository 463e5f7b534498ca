#include "graph/ops/einsum.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "base/text.h"
#include "graph/graph.h"

namespace lagoon {
namespace {

constexpr std::size_t kMaxEquation = 256;

tl::unexpected<Error> Invalid(std::string message) {
  return Fail(ErrorCode::kInvalidArgument, std::move(message));
}

std::vector<std::string> Split(std::string_view text, char at) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == at) {
      parts.emplace_back();
    } else {
      parts.back().push_back(c);
    }
  }
  return parts;
}

/// The labels of a term whose ellipsis, if any, stands for `hidden` axes.
Result<std::string> Expand(const std::string& term, std::size_t hidden) {
  std::string labels;
  for (std::size_t i = 0; i < term.size(); ++i) {
    if (std::isalpha(static_cast<unsigned char>(term[i])) != 0) {
      labels.push_back(term[i]);
    } else if (term.compare(i, 3, "...") == 0) {
      for (std::size_t axis = hidden; axis-- > 0;) labels.push_back(static_cast<char>('0' + axis));
      i += 2;
    } else {
      return Invalid(fmt::format("term {} of the equation cannot be read", Quoted(term)));
    }
  }
  return labels;
}

Status AddSizes(const std::string& labels, const Dims& dims, Einsum& einsum) {
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const std::int64_t first = dims[labels.find(labels[i])];
    if (first != dims[i]) {
      return Invalid(fmt::format("label '{}' is {} and {} in one term", labels[i], first, dims[i]));
    }
    const auto [found, added] = einsum.sizes.emplace(labels[i], dims[i]);
    if (added || found->second == dims[i] || dims[i] == 1) continue;
    if (found->second != 1) {
      return Invalid(fmt::format("label '{}' is {} and {}", labels[i], found->second, dims[i]));
    }
    found->second = dims[i];
  }
  return {};
}

/// The output of an equation without an arrow: the hidden axes, then the labels that occur once, in
/// alphabetical order.
std::string ImplicitOutput(const Einsum& einsum, std::size_t hidden) {
  std::string output;
  for (std::size_t axis = hidden; axis-- > 0;) output.push_back(static_cast<char>('0' + axis));
  for (const auto& [label, size] : einsum.sizes) {
    std::ptrdiff_t uses = 0;
    for (const std::string& input : einsum.inputs) {
      uses += std::count(input.begin(), input.end(), label);
    }
    if (std::isalpha(static_cast<unsigned char>(label)) != 0 && uses == 1) output.push_back(label);
  }
  return output;
}

}  // namespace

Dims Einsum::OutputDims() const {
  Dims dims;
  for (const char label : output) dims.push_back(sizes.at(label));
  return dims;
}

Result<Einsum> ParseEinsum(std::string_view equation, const std::vector<Dims>& shapes) {
  std::string text(equation.substr(0, kMaxEquation + 1));
  std::erase(text, ' ');
  if (text.size() > kMaxEquation) return Invalid("the equation is too long");
  const std::size_t arrow = text.find("->");
  const std::vector<std::string> terms = Split(text.substr(0, arrow), ',');
  if (terms.size() != shapes.size()) {
    return Invalid(fmt::format("equation {} has {} terms for {} inputs", Quoted(text), terms.size(),
                               shapes.size()));
  }
  Einsum einsum;
  std::size_t most_hidden = 0;
  for (std::size_t i = 0; i < terms.size(); ++i) {
    const bool dots = terms[i].find("...") != std::string::npos;
    const std::size_t letters = terms[i].size() - (dots ? 3 : 0);
    const std::size_t hidden = dots && shapes[i].size() >= letters ? shapes[i].size() - letters : 0;
    LAGOON_ASSIGN_OR_RETURN(const std::string labels, Expand(terms[i], hidden));
    if (labels.size() != shapes[i].size()) {
      return Invalid(
          fmt::format("term {} does not fit shape {}", Quoted(terms[i]), ToString(shapes[i])));
    }
    LAGOON_RETURN_IF_ERROR(AddSizes(labels, shapes[i], einsum));
    einsum.inputs.push_back(labels);
    most_hidden = std::max(most_hidden, hidden);
  }
  if (arrow == std::string::npos) {
    einsum.output = ImplicitOutput(einsum, most_hidden);
  } else {
    LAGOON_ASSIGN_OR_RETURN(einsum.output, Expand(text.substr(arrow + 2), most_hidden));
  }
  for (const char label : einsum.output) {
    const bool once = std::count(einsum.output.begin(), einsum.output.end(), label) == 1;
    if (once && einsum.sizes.contains(label)) continue;
    return Invalid(fmt::format("label '{}' of the output does not fit the inputs", label));
  }
  if (einsum.output.size() > kMaxRank) return Invalid("the output has too many axes");
  return einsum;
}

}  // namespace lagoon
