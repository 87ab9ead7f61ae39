// Ends processes with all their descendants (see descendants.hpp).
#include "tools/run/descendants.hpp"

#include <dirent.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <system_error>

#include "src/base/log.hpp"
#include "src/base/socket.hpp"

namespace wreath::launcher {
namespace {

// A process that was killed has so long to end. In a call of the kernel, to a file server for example, it may not.
constexpr std::int64_t kEndMs = 5000;

// Returns the parent of process `pid`, or 0. In /proc/PID/stat the parent is the second word after the last bracket of
// the name.
pid_t parent_of(const std::string& pid) {
  std::ifstream file("/proc/" + pid + "/stat");
  std::string text;
  std::getline(file, text);
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string::npos || name_end + 4 >= text.size()) return 0;
  return static_cast<pid_t>(std::strtol(text.c_str() + name_end + 4, nullptr, 10));
}

// Returns whether /proc exists and belongs to the namespace of this process.
bool has_proc() {
  std::error_code failed;
  return std::filesystem::read_symlink("/proc/self", failed) == std::to_string(::getpid());
}

// Returns whether this process is the parent of `pid`, or of any process where `pid` is 0.
bool is_parent_of(pid_t pid) {
  siginfo_t ignored{};
  return ::waitid(pid == 0 ? P_ALL : P_PID, static_cast<id_t>(pid), &ignored, WEXITED | WNOHANG | WNOWAIT | __WALL) ==
         0;
}

// Finds the children by a question for each number, since the kernel lists none without /proc. This takes about a
// second where there are any children.
std::vector<pid_t> children_without_proc() {
  constexpr pid_t kMost = 1 << 22;
  std::vector<pid_t> found;
  if (!is_parent_of(0)) return found;
  for (pid_t pid = 1; pid <= kMost; ++pid) {
    if (is_parent_of(pid)) found.push_back(pid);
  }
  return found;
}

std::vector<pid_t> all_children() {
  if (!has_proc()) return children_without_proc();
  std::vector<pid_t> found;
  const std::unique_ptr<DIR, int (*)(DIR*)> processes(::opendir("/proc"), &::closedir);
  if (!processes) return found;
  while (const dirent* entry = ::readdir(processes.get())) {
    const std::string name = entry->d_name;
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    if (parent_of(name) == ::getpid()) found.push_back(static_cast<pid_t>(std::strtol(name.c_str(), nullptr, 10)));
  }
  return found;
}

}  // namespace

Descendants::Descendants() : older_(all_children()) { (void)::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); }

std::vector<pid_t> Descendants::children() const {
  std::vector<pid_t> found = all_children();
  std::erase_if(found, [&](pid_t child) { return std::find(older_.begin(), older_.end(), child) != older_.end(); });
  return found;
}

void Descendants::end() const {
  const Deadline deadline = Deadline::after_ms(kEndMs);
  for (;;) {
    std::vector<pid_t> ending = children();
    std::erase_if(ending, [](pid_t child) { return ::kill(child, SIGKILL) != 0; });
    if (ending.empty()) return;
    // Orphans of a process that has ended are children of this process by then.
    for (const pid_t child : ending) {
      while (::waitpid(child, nullptr, WNOHANG) == 0) {
        if (deadline.passed()) {
          log_warning("process {} does not end after SIGKILL: the kernel holds it", child);
          return;
        }
        sleep_ms(1);
      }
    }
  }
}

}  // namespace wreath::launcher
