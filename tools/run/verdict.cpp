// Decides how a job ended (see verdict.hpp).
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
  const std::string who = end.pid > 0 ? fmt::format("rank {} (host {}, pid {})", end.rank, end.host, end.pid)
                                      : fmt::format("rank {} (host {})", end.rank, end.host);
  if (!end.refused.empty()) return fmt::format("{}: {}", who, end.refused);
  if (!WIFSIGNALED(end.status)) return fmt::format("{}: ended with exit code {}", who, WEXITSTATUS(end.status));
  const int signal = WTERMSIG(end.status);
  return fmt::format("{}: ended by signal {} ({})", who, signal, ::strsignal(signal));
}

bool Verdict::blames_another(int code) const {
  return code == exit_code(ErrorCode::PeerLost) || (elastic_ && code == kStartAgainCode);
}

bool Verdict::add(const RankEnd& end) {
  const int code = exit_code_of(end);
  if (code == 0) return false;
  if (culprit_ && (!blames_another(this->code()) || blames_another(code))) return false;
  culprit_ = end;
  return true;
}

}  // namespace wreath::launcher
