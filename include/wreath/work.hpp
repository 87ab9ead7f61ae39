// One operation in flight.
#pragma once

#include <cstdint>
#include <memory>

#include "wreath/result.hpp"

namespace wreath {

class Operation;

// Move-only handle. Dropping it waits for nothing and loses nothing: the operation runs on, and its
// buffers must live until it is done. May be used from any thread, one at a time.
class Work {
 public:
  Work() = default;
  explicit Work(std::shared_ptr<Operation> operation) : operation_(std::move(operation)) {}
  // Whether the operation is over, successfully or not. Never blocks.
  bool done() const noexcept;
  // Waits until it is over and returns its status. timeout_ms < 0: the communicator's own clocks
  // end it. When the time runs out first: NotReady, and the operation goes on unharmed.
  Status wait(std::int64_t timeout_ms = -1);

 private:
  std::shared_ptr<Operation> operation_;
};

}  // namespace wreath
