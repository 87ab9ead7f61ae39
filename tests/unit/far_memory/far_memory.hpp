// Memory with two addresses: a far one, which only src/base/memory_order.hpp of this folder reaches, and a near one for
// the test.
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

  // Room for one, near; its far address.
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
  // What events call the word there; near memory may have names, too.
  void name(const void* address, const std::string& name) { names_[address] = name; }
  // What no word may tell of that was written there after the last fence.
  void watch(const std::byte* near, std::size_t bytes) { watched_.push_back({near, {near, near + bytes}}); }
  // What was done since the last call.
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
