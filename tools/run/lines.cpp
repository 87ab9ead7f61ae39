// Puts whole lines together from pieces (see lines.hpp).
#include "tools/run/lines.hpp"

namespace wreath::launcher {
namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 20;

}  // namespace

std::string Lines::add(std::string_view bytes) {
  std::string text;
  for (std::size_t end = bytes.find('\n'); end != std::string_view::npos; end = bytes.find('\n')) {
    begun_ += bytes.substr(0, end + 1);
    bytes.remove_prefix(end + 1);
    if (!shows_ || shows_(begun_)) text += prefix_ + begun_;
    begun_.clear();
  }
  begun_ += bytes;
  if (begun_.size() > kMostBytes) text += this->end();
  return text;
}

std::string Lines::end() {
  if (begun_.empty()) return {};
  begun_ += '\n';
  std::string text = !shows_ || shows_(begun_) ? prefix_ + begun_ : std::string();
  begun_.clear();
  return text;
}

}  // namespace wreath::launcher
