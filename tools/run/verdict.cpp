// How a job ended: see verdict.hpp.
#include "tools/run/verdict.hpp"

#include <fmt/format.h>
#include <sys/wait.h>

#include <cstring>

#include "wreath/result.hpp"

namespace wreath::launcher {

int exit_code_of(const RankEnd& end) {
  if (!end.refused.empty()) return exit_code(ErrorCode::StartupFailed);
  return WIFSIGNALED(end.status) ? 128 + WTERMSIG(end.status) : WEXITSTATUS(end.status);
}

std::string describe(const RankEnd& end) {
  if (!end.refused.empty()) return fmt::format("rank {} (host {}): {}", end.rank, end.host, end.refused);
  const std::string who = fmt::format("rank {} (host {}, pid {})", end.rank, end.host, end.pid);
  if (!WIFSIGNALED(end.status)) return fmt::format("{}: ended with exit code {}", who, WEXITSTATUS(end.status));
  const int signal = WTERMSIG(end.status);
  return fmt::format("{}: ended by signal {} ({})", who, signal, ::strsignal(signal));
}

bool Verdict::only_a_victim() const { return code() == exit_code(ErrorCode::PeerLost); }

bool Verdict::add(const RankEnd& end) {
  const int code = exit_code_of(end);
  if (code == 0) return false;
  if (culprit_ && (!only_a_victim() || code == exit_code(ErrorCode::PeerLost))) return false;
  culprit_ = end;
  return true;
}

}  // namespace wreath::launcher
