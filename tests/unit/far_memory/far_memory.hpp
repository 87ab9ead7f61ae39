// Provides memory with two addresses. Only src/base/memory_order.hpp of this folder reaches the far one, and the test
// uses the near one.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace wreath::far {

class Memory {
 public:
  static constexpr std::size_t kBytes = std::size_t{64} << 10;

  Memory();
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  // Makes one T in near memory, and returns its far address.
  template <typename T>
  T* make() {
    used_ = (used_ + alignof(T) - 1) / alignof(T) * alignof(T);
    T* const made = new (near_ + used_) T();
    used_ += sizeof(T);
    return far(made);
  }
  template <typename T>
  T* far(T* near) const {
    return reinterpret_cast<T*>(far_ + (reinterpret_cast<std::byte*>(near) - near_));
  }
  template <typename T>
  T* near(T* far) const {
    return reinterpret_cast<T*>(near_ + (reinterpret_cast<std::byte*>(far) - far_));
  }
  // Sets the name that events give to the word there. Words of near memory may have names, too.
  void name(const void* address, const std::string& name) { names_[address] = name; }
  // Watches near memory. A tell() of any word is reported as too early where this memory was written after the last
  // fence.
  void watch(const std::byte* near, std::size_t bytes) { watched_.push_back({near, {near, near + bytes}}); }
  // Returns what was done since the last call.
  std::vector<std::string> events();

  void* reach(const void* address, const char* what);
  void tell_of(const std::string& event);

 private:
  struct Watched {
    const std::byte* at;
    std::vector<std::byte> at_the_fence;
  };

  std::byte* near_;
  std::byte* far_;
  std::size_t used_ = 0;
  std::map<const void*, std::string> names_;
  std::vector<std::string> events_;
  std::vector<Watched> watched_;
};

}  // namespace wreath::far
