// This file reaches agreement by collectives of a duplicated communicator.
#include "training/checkpoint/agreement.hpp"

#include <fmt/format.h>

#include <charconv>
#include <new>
#include <numeric>
#include <utility>

namespace wreath::training {

namespace {

// Returns "CODE FAILED_RANK MESSAGE", or an empty text for success.
std::string encode(const Status& status) {
  if (status) return {};
  const Error& error = status.error();
  return fmt::format("{} {} {}", static_cast<int>(error.code), error.failed_rank, error.message);
}

Error decode(const std::string& text, int rank) {
  int code = static_cast<int>(ErrorCode::System);
  int failed_rank = -1;
  const char* end = text.data() + text.size();
  const char* next = std::from_chars(text.data(), end, code).ptr;
  if (next != end) next = std::from_chars(next + 1, end, failed_rank).ptr;
  if (next != end) ++next;
  return {static_cast<ErrorCode>(code), fmt::format("rank {}: {}", rank, std::string(next, end)),
          failed_rank < 0 ? rank : failed_rank};
}

}  // namespace

Result<Agreement> Agreement::create(Communicator& world) {
  Agreement agreement;
  if (world.ranks() <= 1) return agreement;
  Result<Communicator> own = world.duplicate();
  if (!own) return own.error();
  agreement.rank_ = own->rank();
  agreement.ranks_ = own->ranks();
  agreement.communicator_ = std::make_unique<Communicator>(std::move(*own));
  return agreement;
}

Result<std::vector<std::string>> Agreement::gather(const std::string& text) {
  if (!communicator_) return std::vector<std::string>{text};
  const auto ranks = static_cast<std::size_t>(ranks_);
  const std::uint64_t bytes = text.size();
  std::vector<std::uint64_t> all_bytes(ranks);
  WREATH_TRY(communicator_->all_gather(std::span(&bytes, 1), std::span(all_bytes)));
  const std::vector<std::size_t> counts(all_bytes.begin(), all_bytes.end());
  const std::size_t total = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
  std::vector<std::string> texts(ranks);
  if (total == 0) return texts;
  std::string joined(total, '\0');
  WREATH_TRY(communicator_->all_gather_v(text.data(), joined.data(), Blocks{counts}, DataType::Uint8));
  std::size_t begin = 0;
  for (std::size_t r = 0; r < ranks; begin += counts[r++]) texts[r] = joined.substr(begin, counts[r]);
  return texts;
}

Status Agreement::agree(const Status& mine) {
  if (!communicator_) return mine;
  const Result<std::vector<std::string>> all = gather(encode(mine));
  if (!all) return all.error();
  for (std::size_t r = 0; r < all->size(); ++r) {
    if (!(*all)[r].empty()) return decode((*all)[r], static_cast<int>(r));
  }
  return {};
}

Status Agreement::sum(std::span<std::int64_t> values) {
  if (!communicator_ || values.empty()) return {};
  return communicator_->all_reduce(values);
}

// Rank r begins when rank r - at_most is done.
Status Agreement::take_turn(int at_most, const std::function<Status()>& work) {
  std::uint8_t turn = 0;
  if (rank_ >= at_most) WREATH_TRY(communicator_->recv(&turn, 1, DataType::Uint8, rank_ - at_most));
  const Status status = guarded(work);
  if (rank_ + at_most < ranks_) WREATH_TRY(communicator_->send(&turn, 1, DataType::Uint8, rank_ + at_most));
  return status;
}

Status guarded(const std::function<Status()>& work) {
  try {
    return work();
  } catch (const Exception& failure) {
    return failure.error();
  } catch (const std::exception& failure) {
    return Error{ErrorCode::System, fmt::format("checkpoint: {}", failure.what())};
  }
}

}  // namespace wreath::training
