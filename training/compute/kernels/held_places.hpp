// HeldPlaces tells which places of a micro-batch's sequences a rank holds, for numbers that are drawn by place.
#pragma once

#include <cstdint>

#include "wreath/host_device.hpp"

namespace wreath::training {

// The places of rows [sequences][places here]. A rank holds up to kMostRanges ranges of each sequence.
struct HeldPlaces {
  static constexpr int kMostRanges = 2;
  std::int64_t begins[kMostRanges] = {};
  std::int64_t counts[kMostRanges] = {};
  // The number of row 0 among all rows that the rank holds.
  std::int64_t first_row = 0;
  std::int64_t first_sequence = 0;
  std::int64_t context = 1;  // places of a whole sequence
};

// Returns the number of a row's place among the places of all sequences.
WREATH_HOST_DEVICE inline std::int64_t place_of_row(const HeldPlaces& held, std::int64_t row) {
  const std::int64_t places = held.counts[0] + held.counts[1];
  const std::int64_t here = held.first_row + row;
  const std::int64_t index = here % places;
  const std::int64_t place = index < held.counts[0] ? held.begins[0] + index : held.begins[1] + index - held.counts[0];
  return (held.first_sequence + here / places) * held.context + place;
}

}  // namespace wreath::training
