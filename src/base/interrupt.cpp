// Implements an interrupt as an eventfd that waits look at.
#include "src/base/interrupt.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>

namespace wreath {

Interrupt::Interrupt() : event_(Fd::of_process(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC))) {}

void Interrupt::set() {
  const std::uint64_t one = 1;
  static_cast<void>(!::write(event_.get(), &one, sizeof one));
}

void Interrupt::clear() {
  std::uint64_t value = 0;
  static_cast<void>(!::read(event_.get(), &value, sizeof value));
}

}  // namespace wreath
