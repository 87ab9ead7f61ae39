// A call that a stream captured takes its turn among the communicator's calls anew with each launch of the graph.
#pragma once

#include <memory>

#include "src/device/library_stream.hpp"
#include "src/engine/operation.hpp"

namespace wreath {

// Makes the work of a graph from `prepared`, which is checked but not begun. The work does not keep the communicator,
// which may end before the graph.
std::shared_ptr<GraphWork> capture_call(const std::shared_ptr<Engine>& engine, const Operation& prepared);

}  // namespace wreath
