#pragma once

#include <string>
#include <string_view>

namespace lagoon {

/// The folder for files that can be made again: $XDG_CACHE_HOME/lagoon/KIND, else
/// ~/.cache/lagoon/KIND. Empty if the environment names neither. Reads the environment: call it at
/// start-up, before other threads exist.
std::string CacheFolder(std::string_view kind);

}  // namespace lagoon
