// The messages of an exchange: checked once, where they enter.
#pragma once

#include "src/engine/exchange.hpp"
#include "wreath/result.hpp"

namespace wreath {

// Says whether the messages can run as one on rank `me`: each message to the own rank has its counterpart, of the same
// size, no memory that is received into is used by another message, and one device has all memory that is not the
// host's. The error says which call is wrong.
Status check_messages(const ExchangeMessages& messages, Rank me);

// Says whether no message is in a device's memory.
bool are_of_host(const ExchangeMessages& messages);

}  // namespace wreath
