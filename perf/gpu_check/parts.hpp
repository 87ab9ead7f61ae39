// What gpu_check runs: one table of parts.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace wreath::perf {

struct Part {
  std::string_view name;
  std::string_view about;
  std::string_view program;    // in the folder of programs
  std::string_view arguments;  // words apart; {budget} and {nccl} become gpu_perf's --budget and --nccl
  std::string_view sanitizer;  // compute-sanitizer runs the program with this tool; empty: nothing stands around it
  bool json = false;           // takes --json FILE, where it leaves what it measured
};

std::span<const Part> parts();
// Null: there is none.
const Part* find_part(std::string_view name);
// "device, streams, ...".
std::string part_names();

}  // namespace wreath::perf
