// This file treats SIGTERM as a request: a run that keeps checkpoints saves one before it ends.
#pragma once

namespace wreath::gpt {

// The exit code of a program that SIGTERM has ended.
inline constexpr int kTerminatedCode = 128 + 15;

// Notes the first SIGTERM to this process while a watch lives; the next one ends the process. Two within half a second
// count as one, since launchers and batch systems send it to the same ranks. Without a watch SIGTERM has its former
// effect.
class TerminationWatch {
 public:
  TerminationWatch();
  ~TerminationWatch();
  TerminationWatch(const TerminationWatch&) = delete;
  TerminationWatch& operator=(const TerminationWatch&) = delete;
  // Returns whether this watch or an earlier one has noted a SIGTERM.
  static bool terminated() noexcept;
};

}  // namespace wreath::gpt
