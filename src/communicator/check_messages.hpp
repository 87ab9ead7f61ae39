// The messages of an exchange are checked once, where they enter.
#pragma once

#include "src/engine/exchange.hpp"
#include "wreath/result.hpp"

namespace wreath {

// Checks whether the messages can run as one on rank `me`. Each message to the own rank must have a counterpart of the
// same size. No message may use memory that another message receives into. One device must have all memory that is not
// the host's. The error says which call is wrong.
Status check_messages(const ExchangeMessages& messages, Rank me);

// Says whether no message is in a device's memory.
bool are_of_host(const ExchangeMessages& messages);

}  // namespace wreath
