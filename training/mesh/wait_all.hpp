// This file declares functions that end several calls in flight, even where one of them fails.
#pragma once

#include <exception>

#include "training/mesh/group.hpp"

namespace wreath::training {

// Calls end(call) for each call. All are over when it returns or throws the first error, so their buffers may be freed.
template <typename Calls, typename End>
void end_all(Calls&& calls, const End& end) {
  std::exception_ptr first;
  for (auto& call : calls) {
    try {
      end(call);
    } catch (const Exception&) {
      if (!first) first = std::current_exception();
    }
  }
  if (first) std::rethrow_exception(first);
}

template <typename Calls>
void wait_all(Calls&& calls) {
  end_all(calls, [](Pending& call) { call.wait(); });
}

}  // namespace wreath::training
