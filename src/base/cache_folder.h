#pragma once

#include <string>
#include <string_view>

namespace lagoon {

/// Where what can be made again is kept: $XDG_CACHE_HOME/lagoon/KIND, else ~/.cache/lagoon/KIND;
/// empty when the environment names neither. Reads the environment: call it at start-up, before
/// there are other threads.
std::string CacheFolder(std::string_view kind);

}  // namespace lagoon
