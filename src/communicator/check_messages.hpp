// The messages of an exchange are checked once, where they enter.
#pragma once

#include "src/device/call_memory.hpp"
#include "src/engine/exchange.hpp"
#include "wreath/result.hpp"

namespace wreath {

// Checks whether the messages can run as one on rank `me`. Each message to the own rank must have a counterpart of the
// same size. No message may use memory that another message receives into. One device must have all memory that is not
// the host's. The error says which call is wrong.
Status check_messages(const ExchangeMessages& messages, Rank me);

bool none_has_a_device(const ExchangeMessages& messages);
// Says whether no message is in a device's memory.
inline bool are_of_host(const ExchangeMessages& messages) {
  return !may_have_device_memory.load(std::memory_order_relaxed) || none_has_a_device(messages);
}

}  // namespace wreath
