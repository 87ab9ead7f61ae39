// Makes hosts joined by a network that misbehaves on command (tests/wire). This needs root, iproute2 and tun cards:
// otherwise made() is false and the test skips itself.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "tests/support/processes.hpp"

namespace wreath::testing_support {

class Wire {
 public:
  explicit Wire(int hosts) {
    int commands[2];
    int answers[2];
    if (::pipe2(commands, O_CLOEXEC) != 0 || ::pipe2(answers, O_CLOEXEC) != 0) throw std::runtime_error("pipe2");
    static int wires = 0;
    prefix_ = "wire-" + std::to_string(::getpid()) + "-" + std::to_string(++wires) + "-";
    const std::string count = std::to_string(hosts);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(commands[0], 0);
      ::dup2(answers[1], 1);
      ::execl(WREATH_BINARY_DIR "/../tests/wire", "wire", prefix_.c_str(), count.c_str(), nullptr);
      ::_exit(97);
    }
    ::close(commands[0]);
    ::close(answers[1]);
    commands_ = Fd(commands[1]);
    answers_ = LineReader(Fd(answers[0]));
    made_ = answers_.line(20'000 * kSlower) == "ready";
  }
  Wire(const Wire&) = delete;
  Wire& operator=(const Wire&) = delete;
  ~Wire() {
    { const Fd end = std::move(commands_); }  // the end of its input: it removes its namespaces
    ::waitpid(pid_, nullptr, 0);
  }

  bool made() const { return made_; }
  static constexpr const char* kNeeds =
      "makes network namespaces with tun cards: install iproute2, and run it as root where that is allowed";

  std::string space(int host) const { return prefix_ + std::to_string(host); }
  static std::string address(int host) { return "10.78.0." + std::to_string(host + 1); }

  // Sends a command of `wire`'s own, such as "loss 0.01" or "cut 2".
  void tell(const std::string& command) {
    write_line(commands_.get(), command);
    const auto answer = answers_.line(10'000 * kSlower);
    ASSERT_EQ(answer.value_or("nothing"), "ok") << command;
  }
  // Returns the counts of packets since the last "clear", as JSON: passed, lost and so on.
  std::string counts() {
    write_line(commands_.get(), "counts");
    return answers_.line(10'000 * kSlower).value_or("nothing");
  }

 private:
  std::string prefix_;
  pid_t pid_ = -1;
  Fd commands_;
  LineReader answers_{Fd()};
  bool made_ = false;
};

}  // namespace wreath::testing_support
