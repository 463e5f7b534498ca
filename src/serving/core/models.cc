#include "serving/core/models.h"

namespace lagoon {

bool IsModelName(std::string_view name) {
  constexpr std::string_view kAllowed =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
  return !name.empty() && name.front() != '.' && name.size() <= kMostModelNameBytes &&
         name.find_first_not_of(kAllowed) == name.npos;
}

bool IsVersion(std::string_view text) {
  constexpr std::size_t kMostDigits = 19;  // of 64 bits
  return !text.empty() && text.size() <= kMostDigits &&
         text.find_first_not_of("0123456789") == text.npos;
}

}  // namespace lagoon
