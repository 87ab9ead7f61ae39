// Says in words what adapters say by number.
#pragma once

#include <infiniband/verbs.h>

#include <string>

#include "wreath/result.hpp"

namespace wreath {

struct StatusWords {
  std::string text;
  ErrorCode code = ErrorCode::System;
  bool retryable = false;  // a new connection may help
};

// Explains the status of a completion that failed. `disturbed` says that the port was down, or got another address,
// since the queue pair was connected.
StatusWords status_words(ibv_wc_status status, bool disturbed);

// An asynchronous event concerns this. None is for events that tell nothing new.
enum class EventScope { None, Device, Port, QueuePair, Queue };

struct EventWords {
  std::string text;
  EventScope scope = EventScope::Device;
  bool disturbs = false;  // connections may be lost that a new one brings back
};

EventWords event_words(ibv_event_type type);

}  // namespace wreath
