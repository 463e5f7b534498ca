#include "base/folders.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

namespace lagoon {
namespace {

constexpr std::string_view kEndsOfPaths = " \t\n'\"():,;=";

/// The length of the longest folder of this machine that `text` begins with, with the slash behind
/// it. 0: there is none. Names of folders may have any character.
std::size_t FolderAtBegin(std::string_view text) {
  if (!text.starts_with('/')) return 0;
  std::size_t length = 0;
  for (std::size_t end = text.find('/', 1); end != text.npos; end = text.find('/', end + 1)) {
    std::error_code error;
    const bool named = text[end - 1] != '/';
    if (!named || !std::filesystem::is_directory(std::string(text.substr(0, end)), error)) break;
    length = end + 1;
  }
  return length;
}

}  // namespace

std::string WithoutFolders(std::string_view text) {
  std::string shown;
  while (!text.empty()) {
    const std::size_t folder = FolderAtBegin(text);
    text.remove_prefix(folder);
    const std::size_t length = std::min(text.find_first_of(kEndsOfPaths), text.size());
    const std::string_view word = text.substr(0, length);
    // Behind a folder that is there, one may be named that is not.
    shown += folder > 0 ? word.substr(word.rfind('/') + 1) : word;
    shown += text.substr(length, 1);
    text.remove_prefix(std::min(length + 1, text.size()));
  }
  return shown;
}

}  // namespace lagoon
