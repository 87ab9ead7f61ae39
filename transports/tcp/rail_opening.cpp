// Opens rails as lost ones are replaced: see rail_opening.hpp.
#include "transports/tcp/rail_opening.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "src/base/clock.hpp"
#include "transports/tcp/rail_growth.hpp"

namespace wreath {
namespace {

// The two ends try so long to open a rail.
constexpr std::int64_t kOpeningAttemptNs = 10'000 * kNsPerMs;

Status check_speaker(bool right) {
  return right ? Status() : Status(Error{ErrorCode::Mismatch, "word: only the other end may say it"});
}

bool is_count(std::uint8_t rails) { return rails >= 1 && rails <= kMostGrownRails; }

}  // namespace

void RailOpening::want(std::size_t rails) {
  if (std::exchange(own_, rails) != rails) failed_ = false;
}

std::optional<Fd> RailOpening::step(std::int64_t now_ns, const RailAddresses& first, std::size_t rails,
                                    std::deque<RailWord>& words) {
  if (keeps_) {
    // The other end takes a rail later than this one, so it has none of those that this end has lost.
    peer_.has = static_cast<std::uint8_t>(std::min<std::size_t>(peer_.has, rails));
    if (!attempt_ && !failed_ && rails < target() && peer_.has == rails) {
      attempt_.emplace(first, true, now_ns);
      until_ns_ = now_ns + kOpeningAttemptNs;
    }
  } else if (const RailCount own{static_cast<std::uint8_t>(own_), static_cast<std::uint8_t>(rails)}; own != said_) {
    words.push_back({.kind = RailWord::Kind::Count, .count = own});
    said_ = own;
  }
  if (!attempt_) return std::nullopt;
  std::optional<RailWord> word;
  std::optional<Fd> socket = attempt_->step(now_ns, word);
  if (word) {
    word->kind = RailWord::Kind::Offered;
    words.push_back(*word);
  }
  if (!socket && now_ns < until_ns_) return std::nullopt;
  failed_ = !socket;
  attempt_.reset();
  return socket;
}

bool RailOpening::has_too_many(std::size_t rails) const {
  return keeps_ && !attempt_ && rails > target() && peer_.has == rails;
}

Status RailOpening::on_count(const RailCount& word) {
  WREATH_TRY(check_speaker(keeps_));
  if (!is_count(word.wants) || !is_count(word.has)) {
    return Error{ErrorCode::Mismatch, fmt::format("word: it wants {} sockets and has {}, must be 1 to {}", word.wants,
                                                  word.has, kMostGrownRails)};
  }
  if (word.wants != peer_.wants) failed_ = false;
  peer_ = word;
  return {};
}

// An offer beside a socket whose addresses a network changes is of no use.
Status RailOpening::on_offered(const RailWord& word, const RailAddresses& first, std::size_t rails,
                               std::int64_t now_ns) {
  WREATH_TRY(check_speaker(!keeps_));
  if (rails >= kMostGrownRails || !first.is_other_end_of(word.socket)) return {};
  attempt_.emplace(first, false, now_ns);
  attempt_->on_awaited(word, now_ns);
  until_ns_ = now_ns + kOpeningAttemptNs;
  return {};
}

Status RailOpening::on_unneeded() const { return check_speaker(!keeps_); }

}  // namespace wreath
