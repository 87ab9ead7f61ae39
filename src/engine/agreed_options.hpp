// AgreedOptions are the options that all ranks of a communicator hold alike.
#pragma once

#include <cstdint>
#include <utility>

#include "src/tuner/measured.hpp"
#include "wreath/communicator.hpp"

namespace wreath {

// These are rank 0's options, and the choices of its tuning.
struct AgreedOptions : CommunicatorOptions {
  AgreedOptions() = default;
  AgreedOptions(CommunicatorOptions options)  // NOLINT(google-explicit-constructor)
      : CommunicatorOptions(std::move(options)) {}
  MeasuredRules measured;
  std::int64_t tcp_sockets = 0;  // of a link; 0: automatic
};

}  // namespace wreath
