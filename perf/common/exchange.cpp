// The exchanges of a measurement, over all_reduce alone.
#include <algorithm>
#include <cstdint>
#include <cstring>

#include "perf/common/member.hpp"

namespace wreath::perf {
namespace {

constexpr std::size_t kTextBytes = 120;

// mine, placed at this rank's position among zeros and summed: everyone's.
Result<std::vector<std::int32_t>> gather_words(Member& member, std::span<const std::int32_t> mine) {
  std::vector<std::int32_t> all(mine.size() * static_cast<std::size_t>(member.ranks()));
  std::copy(mine.begin(), mine.end(),
            all.begin() + static_cast<std::ptrdiff_t>(mine.size() * static_cast<std::size_t>(member.rank())));
  WREATH_TRY(member.all_reduce(all.data(), all.data(), all.size(), DataType::Int32, ReduceOp::Sum));
  return all;
}

}  // namespace

Status barrier(Member& member) {
  std::int32_t one = 1;
  return member.all_reduce(&one, &one, 1, DataType::Int32, ReduceOp::Sum);
}

Result<std::vector<double>> gather(Member& member, std::span<const double> mine) {
  std::vector<std::int32_t> words(mine.size() * 2);
  std::memcpy(words.data(), mine.data(), mine.size_bytes());
  auto all = gather_words(member, words);
  if (!all) return all.error();
  std::vector<double> numbers(all->size() / 2);
  std::memcpy(numbers.data(), all->data(), numbers.size() * sizeof(double));
  return numbers;
}

Result<std::vector<std::string>> gather_text(Member& member, std::string_view mine) {
  std::vector<std::int32_t> words(kTextBytes / sizeof(std::int32_t));
  std::memcpy(words.data(), mine.data(), std::min(mine.size(), kTextBytes));
  auto all = gather_words(member, words);
  if (!all) return all.error();
  std::vector<std::string> texts;
  for (int rank = 0; rank < member.ranks(); ++rank) {
    const char* text = reinterpret_cast<const char*>(all->data()) + static_cast<std::size_t>(rank) * kTextBytes;
    texts.emplace_back(text, strnlen(text, kTextBytes));
  }
  return texts;
}

}  // namespace wreath::perf
