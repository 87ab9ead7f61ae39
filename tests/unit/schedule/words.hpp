// Short names of chunks for the tests of schedules.
#pragma once

#include <cstdint>

#include "wreath/schedule.hpp"

namespace wreath {

constexpr Chunk input(int part) { return {Buffer::Input, static_cast<std::uint32_t>(part)}; }
constexpr Chunk output(int part) { return {Buffer::Output, static_cast<std::uint32_t>(part)}; }
constexpr Chunk scratch(int part, int slot = 0) {
  return {Buffer::Scratch, static_cast<std::uint32_t>(part), static_cast<std::uint32_t>(slot)};
}
constexpr Chunk partial(int part, int slot = 0) {
  return {Buffer::Partial, static_cast<std::uint32_t>(part), static_cast<std::uint32_t>(slot)};
}
inline constexpr Incoming kUnfinished{.lane = -1, .form = Form::Partial};

}  // namespace wreath
