// This file handles SIGTERM.
#include "examples/train_gpt/run/termination.hpp"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <ctime>
#include <mutex>

namespace wreath::gpt {

namespace {

constexpr std::int64_t kSameWishMs = 500;

// The time of the first signal; 0 means that none came.
std::atomic<std::int64_t> noted_ms{0};
static_assert(std::atomic<std::int64_t>::is_always_lock_free);

std::mutex watches_lock;
// The number of watches of ranks that are threads of one process.
int watches = 0;
struct sigaction before {};

std::int64_t now_ms() noexcept {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000 + 1;
}

void note(int signal) {
  const int saved = errno;
  const std::int64_t now = now_ms();
  std::int64_t first = 0;
  if (!noted_ms.compare_exchange_strong(first, now) && now - first > kSameWishMs) {
    struct sigaction end {};
    end.sa_handler = SIG_DFL;
    ::sigaction(signal, &end, nullptr);
    ::raise(signal);
  }
  errno = saved;
}

}  // namespace

TerminationWatch::TerminationWatch() {
  const std::lock_guard lock(watches_lock);
  if (watches++ > 0) return;
  struct sigaction noting {};
  noting.sa_handler = note;
  noting.sa_flags = SA_RESTART;
  sigemptyset(&noting.sa_mask);
  ::sigaction(SIGTERM, &noting, &before);
}

TerminationWatch::~TerminationWatch() {
  const std::lock_guard lock(watches_lock);
  if (--watches == 0) ::sigaction(SIGTERM, &before, nullptr);
}

bool TerminationWatch::terminated() noexcept { return noted_ms != 0; }

}  // namespace wreath::gpt
