// Reads and replaces small files.
#include "src/base/text_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "src/base/fd.hpp"
#include "src/base/io.hpp"

namespace wreath {
namespace {

Error system_error(std::string_view what, const std::string& path) {
  return {ErrorCode::System, fmt::format("{} {}: {}", what, path, std::strerror(errno))};
}

// Returns an error that says what errno does.
Error unwritten(const std::string& path) {
  return {ErrorCode::System, fmt::format("{} cannot be written: {}", path, std::strerror(errno))};
}

// Writes a new file; returns false with errno set where it cannot.
bool write_new(const std::string& path, std::string_view text) {
  Fd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644));
  if (!file || fchmod(file.get(), 0644) != 0 || !write_all(file.get(), text)) return false;
  // A file system may say only at this close that it was full.
  return ::close(file.release()) == 0;
}

}  // namespace

Result<std::string> read_file(const std::string& path, std::size_t maximum_bytes) {
  // With O_NONBLOCK a FIFO of that name does not block the call.
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) return system_error("cannot open", path);
  struct stat status {};
  if (fstat(file.get(), &status) != 0) return system_error("cannot read", path);
  if (!S_ISREG(status.st_mode)) return Error{ErrorCode::InvalidArgument, path + ": it is not a regular file"};
  std::string text;
  std::array<char, 16384> piece;
  while (text.size() <= maximum_bytes) {
    const ssize_t got = ::read(file.get(), piece.data(), std::min(piece.size(), maximum_bytes + 1 - text.size()));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_error("cannot read", path);
    if (got == 0) break;
    text.append(piece.data(), static_cast<std::size_t>(got));
  }
  return text;
}

Status write_output(const std::string& path, std::string_view text) {
  const std::string draft = std::to_string(::getpid());
  std::error_code failed;
  const std::filesystem::path place = std::filesystem::canonical(path, failed);
  if (failed) return replace_file(path, draft, text);  // there is nothing yet
  if (std::filesystem::is_regular_file(place, failed)) return replace_file(place.string(), draft, text);
  const Fd file(::open(place.c_str(), O_WRONLY | O_CLOEXEC));
  return file && write_all(file.get(), text) ? Status() : Status(unwritten(path));
}

Status replace_file(const std::string& path, std::string_view draft, std::string_view text) {
  const std::string unfinished = fmt::format("{}.{}.tmp", path, draft);
  ::unlink(unfinished.c_str());
  if (write_new(unfinished, text) && std::rename(unfinished.c_str(), path.c_str()) == 0) return {};
  const Error error = unwritten(path);
  ::unlink(unfinished.c_str());
  return error;
}

}  // namespace wreath
