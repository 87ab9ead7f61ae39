// Makes memory that has a descriptor: see memfd.hpp. Limits are read first, for the kernel answers some of them with
// signals.
#include "src/base/memfd.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "src/base/available_memory.hpp"
#include "src/base/signals.hpp"
#include "src/base/socket.hpp"

namespace wreath {
namespace {

constexpr int kRequiredSeals = F_SEAL_SHRINK | F_SEAL_GROW;

// Signals wait while so much is made present.
constexpr std::size_t kPieceBytes = std::size_t{64} << 20;

}  // namespace

// On older kernels a signal makes fallocate() begin anew: under a faster timer it would never end.
Status make_present(int descriptor, std::size_t begin, std::size_t end, std::string_view what) {
  for (std::size_t done = begin; done < end; done += kPieceBytes) {
    const BlockedSignals blocked;
    const auto piece = static_cast<off_t>(std::min(kPieceBytes, end - done));
    int outcome;
    do {
      outcome = ::fallocate(descriptor, 0, static_cast<off_t>(done), piece);
    } while (outcome != 0 && errno == EINTR);
    if (outcome != 0) return memory_refused(what, end - begin, "fallocate", errno);
  }
  return {};
}

Error memory_refused(std::string_view what, std::size_t bytes, std::string_view call, int code) {
  return os_error(fmt::format("get {} bytes of {}: {}", bytes, what, call), code);
}

Status check_available(std::size_t bytes, std::string_view what) {
  const std::uint64_t available = available_memory();
  if (bytes <= available) return {};
  return Error{ErrorCode::System,
               fmt::format("cannot get {} bytes of {}: {} bytes of memory are available", bytes, what, available)};
}

Status check_file_limit(std::size_t bytes, std::string_view what) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && bytes > limit.rlim_cur) {
    return Error{ErrorCode::System, fmt::format("cannot get {} bytes of {}: RLIMIT_FSIZE (ulimit -f) allows {} bytes",
                                                bytes, what, limit.rlim_cur)};
  }
  return {};
}

Result<Fd> make_memfd(const char* name, std::size_t bytes, std::string_view what, std::size_t later) {
  WREATH_TRY(check_available(bytes, what));
  WREATH_TRY(check_file_limit(bytes, what));
  Fd descriptor = Fd::of_process(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!descriptor) return memory_refused(what, bytes, "memfd_create", errno);
  if (::ftruncate(descriptor.get(), static_cast<off_t>(bytes)) != 0) {
    return memory_refused(what, bytes, "ftruncate", errno);
  }
  WREATH_TRY(make_present(descriptor.get(), 0, bytes - later, what));
  return descriptor;
}

Status seal_size(int descriptor, std::size_t bytes, std::string_view what) {
  if (::fcntl(descriptor, F_ADD_SEALS, kRequiredSeals | F_SEAL_SEAL) == 0) return {};
  return memory_refused(what, bytes, "fcntl(F_ADD_SEALS)", errno);
}

Status check_sealed(int descriptor, std::uint64_t bytes, std::string_view what) {
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) {
    return Error{ErrorCode::System, fmt::format("{}: fstat: {}", what, std::system_category().message(errno))};
  }
  if (status.st_size < 0 || static_cast<std::uint64_t>(status.st_size) != bytes || bytes == 0) {
    return Error{ErrorCode::Mismatch,
                 fmt::format("{} has {} bytes where {} were announced", what, status.st_size, bytes)};
  }
  const int seals = ::fcntl(descriptor, F_GET_SEALS);
  if (seals < 0 || (seals & kRequiredSeals) != kRequiredSeals) {
    return Error{ErrorCode::Mismatch, fmt::format("{} is not sealed memory: it could shrink under its readers", what)};
  }
  return {};
}

}  // namespace wreath
