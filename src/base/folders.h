#pragma once

#include <string>
#include <string_view>

namespace lagoon {

/// `text` without the folders of this machine: "/srv/models/m/config.pbtxt:3: ..." becomes
/// "config.pbtxt:3: ...". Words that begin with a slash but with no folder of this machine stay,
/// because names in models do. Relative paths stay. For messages of remote clients.
std::string WithoutFolders(std::string_view text);

}  // namespace lagoon
