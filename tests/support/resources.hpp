// Counts the resources that a process holds, by /proc: tests compare the counts before and after.
#pragma once

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <string>
#include <system_error>
#include <vector>

namespace wreath::testing_support {

inline std::string proc(pid_t pid, const std::string& name) { return "/proc/" + std::to_string(pid) + "/" + name; }

inline int entries_of(const std::string& folder) {
  std::error_code gone;
  const std::filesystem::directory_iterator all(folder, gone);
  return gone ? 0 : static_cast<int>(std::distance(begin(all), end(all)));
}

// Counts the links of /proc/PID/fd whose target contains `part`.
inline int descriptors_of(pid_t pid, const std::string& part) {
  std::error_code gone;
  int found = 0;
  for (const auto& entry : std::filesystem::directory_iterator(proc(pid, "fd"), gone)) {
    std::error_code closed;
    const std::string target = std::filesystem::read_symlink(entry.path(), closed).string();
    found += !closed && target.find(part) != std::string::npos ? 1 : 0;
  }
  return found;
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
  found.descriptors = entries_of(proc(pid, "fd"));
  found.threads = entries_of(proc(pid, "task"));
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

// Returns the names in /dev/shm and Wreath's abstract UNIX sockets, because these could outlive a process.
inline std::set<std::string> left_on_host() {
  std::set<std::string> found;
  std::error_code gone;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm", gone)) {
    const std::string name = entry.path().filename().string();
    if (name.find("wreath") != std::string::npos) found.insert(name);
  }
  std::ifstream sockets("/proc/net/unix");
  for (std::string line; std::getline(sockets, line);) {
    const std::size_t at = line.find("@wreath");
    if (at != std::string::npos) found.insert(line.substr(at));
  }
  return found;
}

// Returns whether all names that were not there `before` go away within 5 s. Other programs of the host come and go.
inline bool nothing_left_since(const std::set<std::string>& before) {
  const auto nothing_new = [&] {
    const std::set<std::string> now = left_on_host();
    return std::includes(before.begin(), before.end(), now.begin(), now.end());
  };
  for (int i = 0; i < 500 && !nothing_new(); ++i) ::usleep(10'000);
  return nothing_new();
}

}  // namespace wreath::testing_support
