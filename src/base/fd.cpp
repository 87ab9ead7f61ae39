// Keeps the numbers of a process's descriptors in a bitmap, without a lock. Another thread may be anywhere when a
// thread forks, and the child's handler only loads, stores and closes.
#include "src/base/fd.hpp"

#include <pthread.h>

#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstddef>

namespace wreath {
namespace {

constexpr std::size_t kWordBits = 64;
// Those beyond stay open in children, as does one that another thread has opened but not noted when the fork comes:
// then peers of the host learn of a death by the process's end (PairwiseMembers::watch_process).
constexpr std::size_t kMostDescriptors = std::size_t{1} << 16;

// NOLINTBEGIN(cppcoreguidelines-avoid-non-const-global-variables): constants before the first descriptor
std::atomic<std::uint32_t> g_generation{1};
std::array<std::atomic<std::uint64_t>, kMostDescriptors / kWordBits> g_open{};
// NOLINTEND(cppcoreguidelines-avoid-non-const-global-variables)

std::uint64_t bit_of(int descriptor) { return std::uint64_t{1} << (static_cast<std::size_t>(descriptor) % kWordBits); }

std::atomic<std::uint64_t>* word_of(int descriptor) {
  const auto number = static_cast<std::size_t>(descriptor);
  return number < kMostDescriptors ? &g_open[number / kWordBits] : nullptr;
}

void note(int descriptor) {
  if (auto* const word = word_of(descriptor)) word->fetch_or(bit_of(descriptor), std::memory_order_release);
}

// Forgets a descriptor before it is closed: afterwards its number may be another one's.
void forget(int descriptor) {
  if (auto* const word = word_of(descriptor)) word->fetch_and(~bit_of(descriptor), std::memory_order_release);
}

// Closes the descriptors in the child, before anything else of the child runs.
void close_all() {
  const int error = errno;
  for (std::size_t i = 0; i < g_open.size(); ++i) {
    for (std::uint64_t open = g_open[i].exchange(0); open != 0; open &= open - 1) {
      ::close(static_cast<int>(i * kWordBits) + std::countr_zero(open));
    }
  }
  if (g_generation.fetch_add(1) + 1 == 0) g_generation.store(1);
  errno = error;
}

}  // namespace

std::uint32_t fork_generation() noexcept { return g_generation.load(std::memory_order_relaxed); }

void notice_forks() noexcept {
  static const int registered = ::pthread_atfork(nullptr, nullptr, close_all);
  static_cast<void>(registered);
}

Fd Fd::of_process(int value) noexcept {
  Fd made(value);
  if (value < 0) return made;
  notice_forks();
  note(value);
  made.generation_ = fork_generation();
  return made;
}

int Fd::release() noexcept {
  const int value = get();
  if (value >= 0 && generation_ != kInherited) forget(value);
  value_ = -1;
  return value;
}

void Fd::close() noexcept {
  const int value = release();
  if (value >= 0) ::close(value);
}

}  // namespace wreath
