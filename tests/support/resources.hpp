// Counts the resources that a process holds, by /proc: tests compare the counts before and after.
#pragma once

#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <system_error>
#include <vector>

namespace wreath::testing_support {

inline std::string proc(pid_t pid, const std::string& name) { return "/proc/" + std::to_string(pid) + "/" + name; }

// Returns what is in a folder, which may be going away.
inline std::vector<std::filesystem::path> entries_of(const std::string& folder) {
  std::vector<std::filesystem::path> found;
  std::error_code gone;
  for (std::filesystem::directory_iterator entry(folder, gone); !gone && entry != end(entry); entry.increment(gone))
    found.push_back(entry->path());
  return found;
}

// Returns the targets of the links of /proc/PID/fd.
inline std::vector<std::string> descriptors_of(pid_t pid) {
  std::vector<std::string> found;
  for (const std::filesystem::path& entry : entries_of(proc(pid, "fd"))) {
    std::error_code closed;
    found.push_back(std::filesystem::read_symlink(entry, closed).string());
  }
  return found;
}

// Counts those whose target contains `part`.
inline int descriptors_of(pid_t pid, const std::string& part) {
  const std::vector<std::string> all = descriptors_of(pid);
  return static_cast<int>(std::count_if(
      all.begin(), all.end(), [&](const std::string& target) { return target.find(part) != std::string::npos; }));
}

inline int lines_of(const std::string& path, const std::string& part) {
  std::ifstream file(path);
  int found = 0;
  for (std::string line; std::getline(file, line);) found += line.find(part) != std::string::npos ? 1 : 0;
  return found;
}

struct Resources {
  int descriptors = 0;
  int threads = 0;
  int memfds = 0;  // descriptors of the library's shared memory
  int maps = 0;    // mappings of that memory
  long resident_kib = 0;

  bool same_counts(const Resources& other) const {
    return descriptors == other.descriptors && threads == other.threads && memfds == other.memfds && maps == other.maps;
  }
};

inline Resources resources_of(pid_t pid = ::getpid()) {
  Resources found;
  found.descriptors = static_cast<int>(entries_of(proc(pid, "fd")).size());
  found.threads = static_cast<int>(entries_of(proc(pid, "task")).size());
  found.memfds = descriptors_of(pid, "memfd:wreath");
  found.maps = lines_of(proc(pid, "maps"), "memfd:wreath");
  std::ifstream status(proc(pid, "status"));
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmRSS:")) std::istringstream(line.substr(6)) >> found.resident_kib;
  }
  return found;
}

// Makes this process able to open only `spare` more descriptors, whatever gaps there are between its numbers.
inline void leave_descriptors(int spare) {
  constexpr rlim_t kMost = 256;
  const rlimit both{kMost, kMost};
  ::setrlimit(RLIMIT_NOFILE, &both);
  std::vector<int> fillers;
  for (int filler = ::dup(STDERR_FILENO); filler >= 0; filler = ::dup(STDERR_FILENO)) fillers.push_back(filler);
  for (int i = 0; i < spare && !fillers.empty(); ++i, fillers.pop_back()) ::close(fillers.back());
}

inline std::string describe(const Resources& all) {
  std::ostringstream text;
  text << all.descriptors << " descriptors, " << all.threads << " threads, " << all.memfds << " memfds, " << all.maps
       << " maps, " << all.resident_kib << " KiB";
  return text.str();
}

// Returns this process and all that descend from it and still run. From the first call on a process whose parent ends
// becomes a child of this one.
inline std::set<pid_t> family() {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  std::map<pid_t, std::vector<pid_t>> children;
  for (const std::filesystem::path& entry : entries_of("/proc")) {
    const pid_t pid = std::atoi(entry.filename().c_str());
    std::ifstream file(proc(pid, "stat"));
    std::string text;
    std::getline(file, text);  // nothing where the process has just ended
    std::istringstream after_name(text.substr(std::min(text.rfind(')'), text.size() - 1) + 1));
    char state = 'Z';
    pid_t parent = 0;
    if (pid > 0 && after_name >> state >> parent && state != 'Z') children[parent].push_back(pid);
  }
  std::vector<pid_t> open{::getpid()};
  std::set<pid_t> found;
  while (!open.empty()) {
    const pid_t pid = open.back();
    open.pop_back();
    if (found.insert(pid).second) open.insert(open.end(), children[pid].begin(), children[pid].end());
  }
  return found;
}

// Returns the names of Wreath's abstract UNIX sockets by the text that /proc/PID/fd has for them.
inline std::map<std::string, std::string> socket_names() {
  std::map<std::string, std::string> found;
  std::ifstream sockets("/proc/net/unix");
  for (std::string line; std::getline(sockets, line);) {
    std::istringstream words(line);
    std::string inode;
    for (int i = 0; i < 7; ++i) words >> inode;
    const std::size_t at = line.find("@wreath");
    if (at != std::string::npos) found["socket:[" + inode + "]"] = line.substr(at);
  }
  return found;
}

// Returns what a test could leave on its host: names in /dev/shm, processes that descend from this one, and Wreath's
// abstract UNIX sockets that those or this one hold. Other tests may run on the same host.
inline std::set<std::string> left_on_host() {
  std::set<std::string> found;
  for (const std::filesystem::path& entry : entries_of("/dev/shm")) {
    const std::string name = entry.filename().string();
    if (name.find("wreath") != std::string::npos) found.insert(name);
  }
  const std::map<std::string, std::string> names = socket_names();
  for (const pid_t pid : family()) {
    if (pid != ::getpid()) found.insert("process " + std::to_string(pid));
    for (const std::string& target : descriptors_of(pid)) {
      const auto named = names.find(target);
      if (named != names.end()) found.insert(named->second);
    }
  }
  return found;
}

// Returns whether all that was not there `before` goes away within 5 s.
inline bool nothing_left_since(const std::set<std::string>& before) {
  const auto nothing_new = [&] {
    const std::set<std::string> now = left_on_host();
    return std::includes(before.begin(), before.end(), now.begin(), now.end());
  };
  for (int i = 0; i < 500 && !nothing_new(); ++i) ::usleep(10'000);
  return nothing_new();
}

}  // namespace wreath::testing_support
