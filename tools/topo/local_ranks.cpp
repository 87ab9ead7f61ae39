// Forks ranks. A pipe carries the id to them: it is made after the forks, since making it starts a thread.
#include "tools/topo/local_ranks.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

namespace wreath {
namespace {

Error refused(const char* what) { return {ErrorCode::System, fmt::format("{}: {}", what, std::strerror(errno))}; }

class Pipe {
 public:
  Pipe() = default;
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  ~Pipe() {
    for (const int end : ends_) {
      if (end >= 0) ::close(end);
    }
  }
  bool open() { return ::pipe2(ends_.data(), O_CLOEXEC) == 0; }
  void close_writer() { ::close(std::exchange(ends_[1], -1)); }

  template <typename T>
  bool read_whole(T& value) const {
    ssize_t got = 0;
    while ((got = ::read(ends_[0], &value, sizeof value)) < 0 && errno == EINTR) {
    }
    return got == static_cast<ssize_t>(sizeof value);
  }
  // Writes a value that is short enough for a pipe to take it as one piece.
  template <typename T>
  bool write_whole(const T& value) const {
    return ::write(ends_[1], &value, sizeof value) == static_cast<ssize_t>(sizeof value);
  }

 private:
  std::array<int, 2> ends_{-1, -1};
};

[[noreturn]] void become_rank(pid_t parent, Rank rank, Pipe& ids, const LocalRanks::Body& body) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ids.close_writer();
  UniqueId id;
  if (::getppid() != parent || !ids.read_whole(id)) ::_exit(exit_code(ErrorCode::StartupFailed));
  const int code = body(id, rank);
  std::fflush(nullptr);
  ::_exit(code);
}

int code_of(pid_t pid) {
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

LocalRanks::LocalRanks(LocalRanks&& other) noexcept : id_(other.id_), children_(std::exchange(other.children_, {})) {}

LocalRanks::~LocalRanks() {
  for (const Child& child : children_) ::kill(child.pid, SIGKILL);
  for (const Child& child : children_) code_of(child.pid);
}

Result<LocalRanks> LocalRanks::start(Rank first, Rank last, const Body& body) {
  LocalRanks ranks;
  Pipe ids;
  if (!ids.open()) return refused("pipe2");
  std::fflush(nullptr);
  const pid_t parent = ::getpid();
  for (Rank rank = first; rank < last; ++rank) {
    const pid_t pid = ::fork();
    if (pid < 0) return refused("fork");
    if (pid == 0) become_rank(parent, rank, ids, body);
    ranks.children_.push_back({pid, rank});
  }
  const auto id = UniqueId::create();
  if (!id) return id.error();
  ranks.id_ = *id;
  for (Rank rank = first; rank < last; ++rank) {
    if (!ids.write_whole(*id)) return refused("telling the id");
  }
  return ranks;
}

Status LocalRanks::wait() {
  Status status;
  for (const Child& child : std::exchange(children_, {})) {
    const int code = code_of(child.pid);
    if (code == 0 || !status) continue;
    status = Error{ErrorCode::StartupFailed, fmt::format("rank {} ended with {}", child.rank, code), child.rank};
  }
  return status;
}

}  // namespace wreath
