#pragma once

#include <sys/types.h>

#include <string>

// What must not outlive this process, however it ends: child processes and temporary folders. A
// process of its own, which the first of these calls starts, kills and removes what is left as soon
// as this process is gone, also where a signal ended it that no program can handle. Any thread.

namespace lagoon::bench {

void KeepChild(pid_t child);
/// It has ended, and was waited for.
void ReleaseChild(pid_t child);

void KeepFolder(const std::string& path);
void ReleaseFolder(const std::string& path);

}  // namespace lagoon::bench
