// Lays arrays out in one piece of memory, which is copied to a device as a whole.
#pragma once

#include <cstddef>
#include <cstring>

namespace wreath {

// Finds room for arrays one after the other, and copies them there. Without memory at `base` it only counts.
class Image {
 public:
  explicit Image(std::byte* base) : base_(base) {}
  // Returns room for `count` values, with copies of `from` or, where that is null, zeros. Returns null where there are
  // none.
  template <typename T>
  T* put(const T* from, std::size_t count) {
    if (count == 0) return nullptr;
    bytes_ = (bytes_ + kImageAlignment - 1) / kImageAlignment * kImageAlignment;
    std::byte* const at = base_ + (base_ == nullptr ? 0 : bytes_);
    bytes_ += count * sizeof(T);
    if (base_ == nullptr) return nullptr;
    if (from == nullptr) {
      std::memset(at, 0, count * sizeof(T));
    } else {
      std::memcpy(at, from, count * sizeof(T));
    }
    return reinterpret_cast<T*>(at);
  }
  std::size_t bytes() const { return bytes_; }

 private:
  static constexpr std::size_t kImageAlignment = 64;

  std::byte* base_;
  std::size_t bytes_ = 0;
};

}  // namespace wreath
