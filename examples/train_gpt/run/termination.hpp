// SIGTERM as a wish: a run that keeps checkpoints saves one before it ends.
#pragma once

namespace wreath::gpt {

// The exit code of a program that SIGTERM has ended.
inline constexpr int kTerminatedCode = 128 + 15;

// While one lives, the first SIGTERM to this process is noted, and the next one ends it. Two within half a second are
// one: launchers and batch systems send it to the same ranks. Without one SIGTERM does what it did before.
class TerminationWatch {
 public:
  TerminationWatch();
  ~TerminationWatch();
  TerminationWatch(const TerminationWatch&) = delete;
  TerminationWatch& operator=(const TerminationWatch&) = delete;
  // Whether one has been noted, by this watch or by an earlier one.
  static bool terminated() noexcept;
};

}  // namespace wreath::gpt
