// Holds a `wreath run` that a test has started, and finds the processes that it starts.
#pragma once

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/processes.hpp"

namespace wreath::testing_support {

// Returns a file's text. It is empty where the file cannot be read, because processes come and go.
inline std::string text_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// Returns the processes whose command lines hold `part`, except this process.
inline std::vector<pid_t> processes_with(const std::string& part) {
  std::vector<pid_t> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos || name == std::to_string(::getpid())) continue;
    if (text_of("/proc/" + name + "/cmdline").find(part) != std::string::npos)
      found.push_back(static_cast<pid_t>(std::stol(name)));
  }
  return found;
}

// Runs `wreath run` in the background; its output goes to files of a folder.
class Launcher {
 public:
  explicit Launcher(const std::vector<std::string>& arguments, const Arguments& environment = {}) {
    std::vector<std::string> words{WREATH_BINARY_DIR "/wreath", "run"};
    words.insert(words.end(), arguments.begin(), arguments.end());
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    std::fflush(nullptr);
    pid_ = ::fork();
    if (pid_ != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::dup2(::open((folder_ / "out").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), 1);
    ::dup2(::open((folder_ / "err").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), 2);
    for (const char* name : {"WREATH_KEY", "WREATH_KEY_FILE", "WREATH_SSH", "WREATH_PORT"}) ::unsetenv(name);
    for (const auto& [name, value] : environment) ::setenv(name.c_str(), value.c_str(), 1);
    ::execv(argv[0], argv.data());
    ::_exit(97);
  }
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;
  ~Launcher() {
    if (pid_ > 0) ::kill(pid_, SIGKILL), ::waitpid(pid_, nullptr, 0);
  }

  pid_t pid() const { return pid_; }
  void signal(int number) const { ::kill(pid_, number); }
  std::string out() const { return text_of(folder_ / "out"); }
  std::string err() const { return text_of(folder_ / "err"); }
  const Folder& folder() const { return folder_; }
  // Returns the exit code, or 1000 + the signal that ended it. Returns -1 where it did not end in time.
  int join(std::int64_t ms = 20'000 * kSlower) {
    int status = 0;
    if (!eventually(ms, [&] { return ::waitpid(pid_, &status, WNOHANG) == pid_; })) return -1;
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
  }

 private:
  Folder folder_;
  pid_t pid_ = -1;
};

// Returns options of `wreath run`, then the role `sum` of this program: ranks that meet and sum, `calls` times.
inline std::vector<std::string> sum(std::vector<std::string> options, const std::string& argument = "calls=1") {
  options.insert(options.end(), {std::filesystem::read_symlink("/proc/self/exe").string(), "--role=sum", argument});
  return options;
}

// Returns options of `wreath run`, then a script for each rank.
inline std::vector<std::string> shell(std::vector<std::string> options, const std::string& script) {
  options.insert(options.end(), {"sh", "-c", script});
  return options;
}

// Returns a word that only processes of this test have on their command line: an unlikely number of seconds.
inline std::string unlikely_number() {
  static int next = 0;
  return std::to_string(100'000 + ::getpid() % 30'000 * 30 + ++next) + ".25";
}

// Makes an `ssh` that stays on this host: it prints something, as login shells do, and runs the command.
inline std::string fake_ssh(const Folder& folder) {
  const std::string path = folder / "ssh";
  std::ofstream(path) << "#!/bin/sh\necho \"Welcome to $1\"\n[ \"$1\" != down ] || exit 255\nexec sh -c \"$2\"\n";
  ::chmod(path.c_str(), 0700);
  return path;
}

// A rank starts processes in its group, in a session of its own, and by a process that is gone.
inline constexpr const char* kFamily = "sleep N & setsid sleep N & (setsid sleep N &) ; echo ready; sleep N";

inline std::string family(const std::string& number) {
  std::string script = kFamily;
  for (std::size_t at = script.find('N'); at != std::string::npos; at = script.find('N')) script.replace(at, 1, number);
  return script;
}

inline void expect_nothing_left(Launcher& run, const std::string& number, std::size_t processes, int signal) {
  ASSERT_TRUE(eventually(10'000 * kSlower, [&] {
    return processes_with("sleep" + std::string(1, '\0') + number).size() == processes;
  })) << run.err();
  run.signal(signal);
  EXPECT_NE(run.join(), -1);
  EXPECT_TRUE(eventually(10'000 * kSlower, [&] { return processes_with(number).empty(); }))
      << "left: " << processes_with(number).size();
}

}  // namespace wreath::testing_support
