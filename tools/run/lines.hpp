// Puts the output of a rank together from pieces to whole lines, each with a prefix.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace wreath::launcher {

class Lines {
 public:
  // Returns whether a line is shown. A null filter shows all lines.
  using Filter = std::function<bool(std::string_view line)>;
  explicit Lines(std::string prefix, Filter shows = {}) : prefix_(std::move(prefix)), shows_(std::move(shows)) {}

  // Returns the lines that are complete now, with their prefixes. A line longer than 1 MiB is broken.
  std::string add(std::string_view bytes);
  // Returns the last line where it had no end.
  std::string end();

 private:
  std::string prefix_;
  Filter shows_;
  std::string begun_;
};

}  // namespace wreath::launcher
