// A file descriptor with an owner; and those of a process, which the children of its forks do not get: a child that
// held a connection would hide its parent's death from the peers.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <utility>

namespace wreath {

// Incremented in the child of a fork: what was made before it belongs to the parent. Never 0.
std::uint32_t fork_generation() noexcept;
// From now on forks are noticed, and children do not get descriptors of the process.
void notice_forks() noexcept;

class Fd {
 public:
  Fd() = default;
  explicit Fd(int value) : value_(value) {}
  // One that a child of fork() closes before fork() returns there, once, whatever other threads were at. In the child
  // its owner has none from then on: the number may be another file's. Not one that a program passes on to a child.
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
  // It is the caller's, who may hand it to children.
  int release() noexcept;
  explicit operator bool() const { return get() >= 0; }

 private:
  static constexpr std::uint32_t kInherited = 0;
  bool is_here() const { return generation_ == kInherited || generation_ == fork_generation(); }
  void close() noexcept;

  int value_ = -1;
  std::uint32_t generation_ = kInherited;  // of a process: the one that it is open in
};

}  // namespace wreath
