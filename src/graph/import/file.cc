#include "graph/import/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/text.h"

namespace lagoon {
namespace {

namespace fs = std::filesystem;

// O_NONBLOCK: opening a pipe must not wait for a writer.
constexpr int kOpenFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK;

std::string Reason(int error) { return std::generic_category().message(error); }

Error ErrnoError(const std::string& shown, int error) {
  const ErrorCode code =
      error == ENOENT || error == ENOTDIR ? ErrorCode::kNotFound : ErrorCode::kInvalidArgument;
  std::string why = Reason(error);
  if (error == ELOOP) why = "it is a symbolic link that leads to no file";
  if (error == EXDEV) {
    why =
        "it is a symbolic link that leaves the model's folder, and does not lead to the folder in "
        "which the model's file itself lies";
  }
  return {code, fmt::format("cannot open {}: {}", shown, why)};
}

Result<std::vector<std::string>> SplitLocation(const std::string& location) {
  const auto refuse = [&](const char* why) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("external data location {} {}", Quoted(location), why));
  };
  if (location.empty()) return refuse("is empty");
  if (location.find('\0') != std::string::npos) return refuse("contains a zero byte");
  if (location.front() == '/') return refuse("is absolute; it must lie beside the model");
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= location.size();) {
    const std::size_t end = std::min(location.find('/', begin), location.size());
    const std::string part = location.substr(begin, end - begin);
    begin = end + 1;
    if (part == "..") {
      if (parts.empty()) return refuse("leaves the model's folder");
      parts.pop_back();
    } else if (!part.empty() && part != ".") {
      parts.push_back(part);
    }
  }
  if (parts.empty()) return refuse("names no file");
  return parts;
}

/// Opens the path of `parts` below `folder`. Follows symbolic links that do not leave the folder;
/// none where the kernel has no openat2 (before Linux 5.6). Negative: errno says why not.
int OpenInside(int folder, const std::vector<std::string>& parts) {
  struct open_how how = {};
  how.flags = kOpenFlags;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
  const std::string path = fmt::format("{}", fmt::join(parts, "/"));
  const long opened = ::syscall(SYS_openat2, folder, path.c_str(), &how, sizeof(how));
  if (opened >= 0 || (errno != ENOSYS && errno != EPERM)) return static_cast<int>(opened);
  int current = folder;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const int kind = O_NOFOLLOW | (i + 1 == parts.size() ? 0 : O_DIRECTORY);
    const int next = ::openat(current, parts[i].c_str(), kOpenFlags | kind);
    const int error = errno;
    if (current != folder) ::close(current);
    errno = error;
    if (next < 0) return next;
    current = next;
  }
  return current;
}

/// Opens what the links on the path of `parts` lead to, if it lies where File::OpenExternal() says.
/// Negative: errno says why not.
int OpenBehindLinks(const ExternalPlace& place, const std::vector<std::string>& parts) {
  std::error_code error;
  const fs::path real =
      fs::canonical(fs::path(place.folder) / fmt::format("{}", fmt::join(parts, "/")), error);
  std::vector<fs::path> folders;
  if (!error) folders.push_back(fs::canonical(place.folder, error));
  if (!error && !place.model.empty()) {
    folders.push_back(fs::canonical(place.model, error).parent_path());
  }
  errno = error ? error.value() : EXDEV;
  if (error) return -1;
  for (const fs::path& folder : folders) {
    const auto [left, at] = std::ranges::mismatch(folder, real);
    if (left != folder.end() || at == real.end()) continue;
    const int root = ::open(folder.c_str(), kOpenFlags | O_DIRECTORY);
    if (root < 0) return root;
    const int opened = OpenInside(root, {at, real.end()});
    const int failed = errno;
    ::close(root);
    errno = failed;
    return opened;
  }
  return -1;
}

std::int64_t ChangedNs(const struct stat& info) {
  return std::int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec;
}

}  // namespace

Result<File> File::Open(const std::string& path) {
  const int fd = ::open(path.c_str(), kOpenFlags);
  if (fd < 0) return tl::unexpected(ErrnoError(Quoted(path), errno));
  return FromDescriptor(fd, Quoted(path));
}

ExternalPlace PlaceBeside(const std::string& model) {
  std::string folder = fs::path(model).parent_path().string();
  return {folder.empty() ? "." : std::move(folder), model};
}

Result<File> File::OpenExternal(const ExternalPlace& place, const std::string& location) {
  LAGOON_ASSIGN_OR_RETURN(const std::vector<std::string> parts, SplitLocation(location));
  const std::string shown = "external data " + Quoted(location);
  if (place.folder.empty()) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("cannot open {}: the model was given as bytes, without the folder of "
                            "its external data",
                            shown));
  }
  const File opened(::open(place.folder.c_str(), kOpenFlags | O_DIRECTORY));
  if (opened.fd_ < 0) return tl::unexpected(ErrnoError(Quoted(place.folder), errno));
  int fd = OpenInside(opened.fd_, parts);
  // EXDEV: a link leads out of the folder. ELOOP: so it may, where the kernel has no openat2.
  if (fd < 0 && (errno == EXDEV || errno == ELOOP)) fd = OpenBehindLinks(place, parts);
  if (fd < 0) return tl::unexpected(ErrnoError(shown, errno));
  return FromDescriptor(fd, shown);
}

Result<File> File::FromDescriptor(int fd, const std::string& shown) {
  File file(fd);
  struct stat info = {};
  if (::fstat(fd, &info) != 0) return tl::unexpected(ErrnoError(shown, errno));
  if (!S_ISREG(info.st_mode)) {
    const char* what = S_ISDIR(info.st_mode) ? "is a folder" : "is not a regular file";
    return Fail(ErrorCode::kInvalidArgument, fmt::format("cannot open {}: it {}", shown, what));
  }
  file.size_ = static_cast<std::size_t>(info.st_size);
  file.changed_ns_ = ChangedNs(info);
  return file;
}

bool File::Unchanged() const {
  struct stat info = {};
  return ::fstat(fd_, &info) == 0 && static_cast<std::size_t>(info.st_size) == size_ &&
         ChangedNs(info) == changed_ns_;
}

File::~File() {
  if (fd_ >= 0) ::close(fd_);
}

Status File::ReadAt(std::size_t offset, std::span<std::byte> to) const {
  while (!to.empty()) {
    const ssize_t got = ::pread(fd_, to.data(), to.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      return Fail(ErrorCode::kInvalidArgument, fmt::format("read failed: {}", Reason(errno)));
    }
    if (got == 0) {
      return Fail(ErrorCode::kInvalidArgument, fmt::format("the file ends at byte {}", offset));
    }
    offset += static_cast<std::size_t>(got);
    to = to.subspan(static_cast<std::size_t>(got));
  }
  return {};
}

}  // namespace lagoon
