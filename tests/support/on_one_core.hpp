// Keeps a thread on the core that it is on, for as long as this lives.
#pragma once

#include <sched.h>

#include <cstdint>

namespace wreath::test {

class OnOneCore {
 public:
  OnOneCore() {
    ::sched_getaffinity(0, sizeof before_, &before_);
    core_ = static_cast<std::uint32_t>(::sched_getcpu());
    cpu_set_t here;
    CPU_ZERO(&here);
    CPU_SET(core_, &here);
    ::sched_setaffinity(0, sizeof here, &here);
  }
  OnOneCore(const OnOneCore&) = delete;
  OnOneCore& operator=(const OnOneCore&) = delete;
  ~OnOneCore() { ::sched_setaffinity(0, sizeof before_, &before_); }

  std::uint32_t core() const { return core_; }

 private:
  cpu_set_t before_{};
  std::uint32_t core_ = 0;
};

}  // namespace wreath::test
