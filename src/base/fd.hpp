// Owns file descriptors. A descriptor that is marked as the process's is not for the children of its forks. A child
// that held a connection would hide its parent's death from the peers.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <utility>

namespace wreath {

// Returns a number that is incremented in the child of a fork, and never 0. Objects that were made before the fork
// belong to the parent.
std::uint32_t fork_generation() noexcept;
// Registers the handler of forks: from now on children do not get descriptors of the process.
void notice_forks() noexcept;

class Fd {
 public:
  Fd() = default;
  explicit Fd(int value) : value_(value) {}
  // Owns a descriptor that a child of fork() closes once, before fork() returns there, whatever other threads were at.
  // In the child its owner has none from then on: the number may be another file's. A program must not pass such a
  // descriptor on to a child.
  static Fd of_process(int value) noexcept;
  Fd(Fd&& other) noexcept
      : value_(std::exchange(other.value_, -1)), generation_(std::exchange(other.generation_, kInherited)) {}
  Fd& operator=(Fd&& other) noexcept {
    std::swap(value_, other.value_);
    std::swap(generation_, other.generation_);
    return *this;
  }
  ~Fd() {
    if (value_ >= 0) close();
  }
  int get() const { return value_ >= 0 && is_here() ? value_ : -1; }
  // Returns the descriptor to the caller, who may hand it to children.
  int release() noexcept;
  explicit operator bool() const { return get() >= 0; }

 private:
  static constexpr std::uint32_t kInherited = 0;
  bool is_here() const { return generation_ == kInherited || generation_ == fork_generation(); }
  void close() noexcept;

  int value_ = -1;
  // Holds, for a descriptor of a process, the generation in which it is open.
  std::uint32_t generation_ = kInherited;
};

}  // namespace wreath
