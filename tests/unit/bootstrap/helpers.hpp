// What the start-up tests share.
#pragma once

#include <cstddef>
#include <filesystem>
#include <iterator>

#include "src/base/socket.hpp"
#include "src/bootstrap/proof.hpp"

namespace wreath {

// Open descriptors of this process.
inline std::ptrdiff_t open_descriptors() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator());
}

// Remembers how many there are; settles() waits for the meeting thread to close its own.
class DescriptorCount {
 public:
  bool settles() const {
    const Deadline deadline = Deadline::after_ms(3000);
    while (open_descriptors() != before_) {
      if (deadline.passed()) return false;
      sleep_ms(5);
    }
    return true;
  }

 private:
  std::ptrdiff_t before_ = open_descriptors();
};

inline std::shared_ptr<const Key> test_key(int seed = 1) {
  std::array<std::byte, kKeyBytes> bytes{};
  bytes.fill(static_cast<std::byte>(seed));
  return Key::from_bytes(bytes);
}

inline Identity test_identity(int seed = 1, int rank = -1, Purpose purpose = Purpose::Meet) {
  return {test_key(seed), {kProtocol, rank, purpose, std::string(library_version())}};
}

}  // namespace wreath
