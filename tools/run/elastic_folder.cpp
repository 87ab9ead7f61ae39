// The folder of an elastic job, and the process that removes it when no other can (see elastic_folder.hpp).
#include "tools/run/elastic_folder.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "src/base/clock.hpp"
#include "src/process/child_process.hpp"
#include "tools/run/messages.hpp"

namespace wreath::launcher {
namespace {

// The time to repeat the removal, since ranks of other hosts may still write into the folder.
constexpr std::int64_t kRemoveMs = 5000;
constexpr useconds_t kAgainUs = 20'000;

void remove(const std::string& path) {
  const Deadline deadline = Deadline::after_ms(kRemoveMs);
  std::error_code failure;
  for (;;) {
    std::filesystem::remove_all(path, failure);
    if (!failure || deadline.passed()) return;
    (void)::usleep(kAgainUs);
  }
}

// Waits until the launcher and its forks are gone, and removes the folder. It runs in its own session, so that a signal
// to the launcher's session does not end it.
[[noreturn]] void keep(const std::string& path, int alive) {
  (void)::setsid();
  sigset_t all;
  sigfillset(&all);
  (void)::sigprocmask(SIG_SETMASK, &all, nullptr);
  const int end = ::dup2(alive, STDERR_FILENO + 1);
  (void)::close_range(static_cast<unsigned>(end) + 1, ~0U, 0);
  const int nothing = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) (void)::dup2(nothing, stream);
  std::array<char, 1> byte;
  ssize_t got = 0;
  while ((got = ::read(end, byte.data(), byte.size())) > 0 || (got < 0 && errno == EINTR)) {
  }
  remove(path);
  ::_exit(0);
}

}  // namespace

Result<ElasticFolder> ElasticFolder::make(const std::string& parent) {
  std::error_code failure;
  const std::filesystem::path wished =
      parent.empty() ? std::filesystem::temp_directory_path(failure) : std::filesystem::absolute(parent, failure);
  std::string path = (wished / "wreath-elastic-XXXXXX").string();
  auto alive = process::make_pipe();
  if (!alive) return alive.error();
  if (failure || ::mkdtemp(path.data()) == nullptr) {
    return Error{ErrorCode::InvalidArgument, fmt::format("--elastic-folder: no folder can be made in {}: {}",
                                                         wished.empty() ? parent : wished.string(),
                                                         failure ? failure.message() : std::strerror(errno))};
  }
  const pid_t keeper = ::fork();
  if (keeper == 0) keep(path, alive->read.get());
  ElasticFolder folder(std::move(path), std::move(alive->write), keeper);
  if (keeper < 0) return Error{ErrorCode::System, fmt::format("cannot fork: {}", std::strerror(errno))};
  return folder;
}

ElasticFolder::ElasticFolder(ElasticFolder&& other) noexcept
    : path_(std::exchange(other.path_, {})),
      alive_(std::move(other.alive_)),
      keeper_(std::exchange(other.keeper_, -1)) {}

ElasticFolder::~ElasticFolder() {
  if (path_.empty()) return;
  remove(path_);
  if (keeper_ < 0) return;
  // Another process has ended and collected the keeper.
  if (::waitpid(keeper_, nullptr, WNOHANG) != 0) return;
  (void)::kill(keeper_, SIGKILL);
  while (::waitpid(keeper_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

bool ElasticFolder::has_joined(int number) const {
  return ::access(fmt::format("{}/joined-{}", path_, number).c_str(), F_OK) == 0;
}

}  // namespace wreath::launcher
