// Checks whether the lines of an algorithm can be lowered at all.
#pragma once

#include <cstdint>

#include "wreath/result.hpp"
#include "wreath/schedule.hpp"

namespace wreath {

// Checks all lines of a schedule. InvalidArgument names lane and line of what lower() (lower.hpp) refuses.
Status check_lines(const Schedule& schedule, Rank me);

constexpr bool reads_source(Word word) { return word != Word::Recv; }
constexpr bool writes_target(Word word) { return word != Word::Send; }
constexpr bool receives(Word word) {
  return word == Word::Recv || word == Word::RecvReduce || word == Word::LoadReduce;
}
constexpr bool reduces(Word word) {
  return word == Word::RecvReduce || word == Word::LoadReduce || word == Word::Reduce;
}

}  // namespace wreath
