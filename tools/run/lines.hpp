// Output of a rank, put together from pieces to whole lines, each with a prefix.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace wreath::launcher {

class Lines {
 public:
  // Lines for which `shows` is false are left out; null: none.
  using Filter = std::function<bool(std::string_view line)>;
  explicit Lines(std::string prefix, Filter shows = {}) : prefix_(std::move(prefix)), shows_(std::move(shows)) {}

  // The lines that are complete now, with their prefixes; a line longer than 1 MiB is broken.
  std::string add(std::string_view bytes);
  // The last line, if it had no end.
  std::string end();

 private:
  std::string prefix_;
  Filter shows_;
  std::string begun_;
};

}  // namespace wreath::launcher
