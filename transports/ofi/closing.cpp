// The thread does nothing but close: see closing.hpp.
#include "transports/ofi/closing.hpp"

#include <pthread.h>

#include <system_error>

#include "src/base/log.hpp"
#include "src/base/signals.hpp"

namespace wreath {

// A provider that refused does not wait, and is asked again and again.
void OfiClosing::begin(fid_ep* endpoint) {
  state_ = State::Begun;
  const auto close = [this, endpoint] {
    result_ = fi_close(&endpoint->fid);
    state_ = State::Over;
  };
  if (result_ != 0) return close();
  try {
    const BlockedSignals blocked;
    thread_ = std::thread(close);
    static_cast<void>(pthread_setname_np(thread_.native_handle(), "wreath-close"));
  } catch (const std::system_error& refused) {
    log_info("cannot start a thread that closes an endpoint: {}", refused.what());
    close();
  }
}

void OfiClosing::wait() {
  if (thread_.joinable()) thread_.join();
}

int OfiClosing::take_result() {
  wait();
  state_ = State::None;
  return result_;
}

}  // namespace wreath
