// Output of a rank, put together from pieces to whole lines, each with a prefix.
#pragma once

#include <string>
#include <string_view>

namespace wreath::launcher {

class Lines {
 public:
  explicit Lines(std::string prefix) : prefix_(std::move(prefix)) {}

  // The lines that are complete now, with their prefixes; a line longer than 1 MiB is broken.
  std::string add(std::string_view bytes);
  // The last line, if it had no end.
  std::string end();

 private:
  std::string prefix_;
  std::string begun_;
};

}  // namespace wreath::launcher
