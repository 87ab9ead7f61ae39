// An offer owns its descriptors and closes them.
#include <unistd.h>

#include <utility>

#include "wreath/link.hpp"

namespace wreath {

Offer::Offer(Offer&& other) noexcept
    : bytes(std::exchange(other.bytes, {})), descriptors(std::exchange(other.descriptors, {})) {}

Offer& Offer::operator=(Offer&& other) noexcept {
  std::swap(bytes, other.bytes);
  std::swap(descriptors, other.descriptors);
  return *this;
}

Offer::~Offer() {
  for (const int descriptor : descriptors) {
    if (descriptor >= 0) ::close(descriptor);
  }
}

}  // namespace wreath
