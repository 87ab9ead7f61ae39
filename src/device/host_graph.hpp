// Graphs of the host device: the streams' commands in the order of their capture, given again, with events of their
// own, by each launch.
#pragma once

#include <memory>

#include "src/device/capture.hpp"

namespace wreath {

// System without a thread for each branch but the first.
Result<std::unique_ptr<Graph>> make_host_graph(Device& device, CapturedItems captured);

}  // namespace wreath
