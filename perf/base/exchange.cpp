// The exchanges of a measurement, which use all_reduce alone.
#include <algorithm>
#include <cstdint>
#include <cstring>

#include "perf/base/member.hpp"
#include "wreath/group.hpp"

namespace wreath::perf {
namespace {

constexpr std::size_t kTextBytes = 120;

Status sum(Member& member, std::span<std::int32_t> words) {
  Call call;
  call.dtype = DataType::Int32;
  call.output = std::as_writable_bytes(words).data();
  call.input = call.output;
  call.count = words.size();
  return member.run(call);
}

// Returns the words of all ranks. The sum of vectors that are zero outside the place of their rank gives them.
Result<std::vector<std::int32_t>> gather_words(Member& member, std::span<const std::int32_t> mine) {
  std::vector<std::int32_t> all(mine.size() * static_cast<std::size_t>(member.ranks()));
  std::copy(mine.begin(), mine.end(),
            all.begin() + static_cast<std::ptrdiff_t>(mine.size() * static_cast<std::size_t>(member.rank())));
  WREATH_TRY(sum(member, all));
  return all;
}

}  // namespace

Status CommunicatorMember::exchange(std::span<const Transfer> transfers, DataType dtype) {
  Group group;
  for (const Transfer& each : transfers) {
    WREATH_TRY(each.to >= 0 ? communicator_.send(each.data, each.count, dtype, each.to)
                            : communicator_.recv(each.data, each.count, dtype, each.from));
  }
  return group.run();
}

Status CommunicatorMember::start(const Call& call) {
  const auto work = communicator_.start(call);
  return work ? Status() : Status(work.error());
}

Status CommunicatorMember::start_exchange(std::span<const Transfer> transfers, DataType dtype, Stream& stream) {
  Group group;
  for (const Transfer& each : transfers) {
    const auto work = each.to >= 0 ? communicator_.send_async(each.data, each.count, dtype, each.to, &stream)
                                   : communicator_.recv_async(each.data, each.count, dtype, each.from, &stream);
    if (!work) return work.error();
  }
  const auto launched = group.launch();
  return launched ? Status() : Status(launched.error());
}

Status barrier(Member& member) {
  std::int32_t one = 1;
  return sum(member, {&one, 1});
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
