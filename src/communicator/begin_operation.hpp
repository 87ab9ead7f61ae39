// An operation that a program starts begins here. It begins in the queue, when its stream comes to it, when a graph is
// launched, or without any of these.
#pragma once

#include <memory>
#include <string_view>

#include "src/engine/operation.hpp"

namespace wreath {

// Returns the error of the call named `call` where its stream takes no calls now. The call alone is refused then, since
// it has no turn yet.
Status check_stream(const Engine& engine, const Stream* stream, std::string_view call);

// Returns the error of a blocking call in a stream that captures, and makes that capture invalid.
Status check_blocking(const Engine& engine, const Call& call);

// Begins a prepared operation of Engine::prepare() and takes its turn among the calls now. Its stream may refuse it
// later than check_stream(); the communicator has then failed.
Result<std::shared_ptr<Operation>> begin_operation(std::shared_ptr<Operation> operation);

}  // namespace wreath
