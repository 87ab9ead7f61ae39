// This file reads and writes files by range over POSIX calls.
#include "training/checkpoint/file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

namespace wreath::training {

namespace {

constexpr std::size_t kBytesPerCall = std::size_t{1} << 30;

// Calls pread or pwrite until all of `bytes` have moved.
template <typename Call>
Status move_all(const std::string& path, std::string_view purpose, std::size_t bytes, Call call) {
  std::size_t moved = 0;
  while (moved < bytes) {
    const ssize_t now = call(moved, std::min(bytes - moved, kBytesPerCall));
    if (now < 0 && errno == EINTR) continue;
    if (now < 0) return system_error(path, purpose);
    if (now == 0) {
      return Error{ErrorCode::System, fmt::format("{}: cannot be {}: it ends too early", path, purpose)};
    }
    moved += static_cast<std::size_t>(now);
  }
  return {};
}

}  // namespace

Error system_error(const std::string& path, std::string_view purpose) {
  const int reason = errno;
  const std::string text = std::error_code(reason, std::generic_category()).message();
  return {reason == ENOENT || reason == ENOTDIR ? ErrorCode::InvalidArgument : ErrorCode::System,
          fmt::format("{}: cannot be {}: {}", path, purpose, text)};
}

File::~File() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Result<File> File::open(const std::string& path, int flags, const char* purpose) {
  File file;
  file.path_ = path;
  do {
    file.descriptor_ = ::open(path.c_str(), flags | O_CLOEXEC, 0644);
  } while (file.descriptor_ < 0 && errno == EINTR);
  if (file.descriptor_ < 0) return system_error(path, purpose);
  return file;
}

Result<File> File::open_to_read(const std::string& path) { return open(path, O_RDONLY, "read"); }
// Opens write-only. A client of a network file system then never fills a page with bytes that it read beside the
// written ones.
Result<File> File::open_to_write(const std::string& path) { return open(path, O_WRONLY, "written"); }

Result<File> File::create(const std::string& path, std::uint64_t bytes) {
  Result<File> file = open(path, O_WRONLY | O_CREAT | O_EXCL, "made");
  if (file && ::ftruncate(file->descriptor_, static_cast<off_t>(bytes)) != 0) return system_error(path, "made");
  return file;
}

Result<std::uint64_t> File::bytes() const {
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0) return system_error(path_, "read");
  if (!S_ISREG(status.st_mode)) {
    return Error{ErrorCode::InvalidArgument, fmt::format("{}: it is not a regular file", path_)};
  }
  return static_cast<std::uint64_t>(status.st_size);
}

Status File::read(std::uint64_t offset, std::span<std::byte> out) const {
  return move_all(path_, "read", out.size(), [&](std::size_t moved, std::size_t bytes) {
    return ::pread(descriptor_, out.data() + moved, bytes, static_cast<off_t>(offset + moved));
  });
}

Status File::write(std::uint64_t offset, std::span<const std::byte> bytes) const {
  return move_all(path_, "written", bytes.size(), [&](std::size_t moved, std::size_t count) {
    return ::pwrite(descriptor_, bytes.data() + moved, count, static_cast<off_t>(offset + moved));
  });
}

Status File::sync() const {
  if (::fsync(descriptor_) != 0) return system_error(path_, "synced");
  return {};
}

Status sync_folder(const std::string& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return system_error(folder, "synced");
  const bool synced = ::fsync(descriptor) == 0;
  const Error error = synced ? Error{} : system_error(folder, "synced");
  ::close(descriptor);
  return synced ? Status() : Status(error);
}

Status write_text(const std::string& folder, const std::string& name, std::string_view text) {
  const Result<File> file = File::create(folder + "/" + name, 0);
  if (!file) return file.error();
  WREATH_TRY(file->write(0, std::as_bytes(std::span(text))));
  return file->sync();
}

Result<std::string> read_text(const std::string& path, std::uint64_t maximum_bytes) {
  const Result<File> file = File::open_to_read(path);
  if (!file) return file.error();
  const Result<std::uint64_t> bytes = file->bytes();
  if (!bytes) return bytes.error();
  if (*bytes > maximum_bytes) {
    return Error{ErrorCode::InvalidArgument, fmt::format("{}: it is longer than {} bytes", path, maximum_bytes)};
  }
  std::string text(*bytes, '\0');
  WREATH_TRY(file->read(0, std::as_writable_bytes(std::span(text))));
  return text;
}

}  // namespace wreath::training
