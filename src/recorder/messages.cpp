// Compares messages. The k-th send of a to b and the k-th receive of b from a are one message: both recordings tell its
// two ends.
#include "src/recorder/messages.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

namespace wreath {
namespace {

constexpr std::size_t kSentences = 16;

// Identifies one end of a message.
struct End {
  Rank rank;
  Rank peer;
  bool sent;
  std::uint64_t number;
  bool operator<(const End& other) const {
    return std::tie(rank, peer, sent, number) < std::tie(other.rank, other.peer, other.sent, other.number);
  }
  End counterpart() const { return {peer, rank, !sent, number}; }
};

// Holds all ends that a group's recordings hold.
class Ends {
 public:
  explicit Ends(const Group& group) {
    for (const Recording* recording : group) {
      recordings_[recording->rank] = recording;
      for (const MessageRecord& message : recording->messages) {
        const End end{recording->rank, message.peer, message.sent, message.number};
        ends_[end] = &message;
        std::uint64_t& last = last_[{end.rank, end.peer, end.sent, 0}];
        last = std::max(last, message.number);
      }
    }
  }

  const std::map<End, const MessageRecord*>& all() const { return ends_; }
  const MessageRecord* find(const End& end) const {
    const auto found = ends_.find(end);
    return found == ends_.end() ? nullptr : found->second;
  }
  // Returns whether the recordings prove that this end was not entered. Then its rank has a recording, which holds all
  // messages since.
  bool never_entered(const End& end) const {
    const auto recording = recordings_.find(end.rank);
    if (recording == recordings_.end()) return false;
    const auto last = last_.find({end.rank, end.peer, end.sent, 0});
    if (last != last_.end()) return last->second < end.number;
    const bool told = !recording->second->messages.empty() || recording->second->exchanges.empty();
    return told && recording->second->messages.size() < kRecordedMessages;
  }
  const Recording& recording(Rank rank) const { return *recordings_.at(rank); }

 private:
  std::map<Rank, const Recording*> recordings_;
  std::map<End, const MessageRecord*> ends_;
  // Holds, by an end of number 0, the number of the last one.
  std::map<End, std::uint64_t> last_;
};

// Returns the exchange that a message is part of; nullptr where it is so long ago that it is not held.
const CallRecord* exchange_of(const Recording& recording, const MessageRecord& message) {
  for (const CallRecord& exchange : recording.exchanges) {
    if (exchange.number == message.exchange) return &exchange;
  }
  return nullptr;
}

bool is_over(const CallRecord* exchange) { return exchange == nullptr || exchange->state == CallState::Done; }

void say(MessageFindings& findings, const std::vector<std::string>& sentences) {
  const std::size_t shown = std::min(sentences.size(), kSentences);
  findings.sentences.assign(sentences.begin(), sentences.begin() + static_cast<std::ptrdiff_t>(shown));
  if (shown < sentences.size()) {
    findings.sentences.push_back(fmt::format("and {} more messages like these", sentences.size() - shown));
  }
}

// Returns the ranks that wait for each other, and those between them. This is what is left of the graph without its
// loose ends.
std::set<Rank> knot_of(std::set<std::pair<Rank, Rank>> waits) {
  for (std::size_t before = waits.size() + 1; waits.size() < before;) {
    before = waits.size();
    const auto waits_too = [&](Rank rank) {
      return std::any_of(waits.begin(), waits.end(), [&](const auto& wait) { return wait.first == rank; });
    };
    const auto awaited = [&](Rank rank) {
      return std::any_of(waits.begin(), waits.end(), [&](const auto& wait) { return wait.second == rank; });
    };
    std::set<std::pair<Rank, Rank>> kept;
    for (const auto& wait : waits) {
      if (awaited(wait.first) && waits_too(wait.second)) kept.insert(wait);
    }
    waits = std::move(kept);
  }
  std::set<Rank> ranks;
  for (const auto& wait : waits) ranks.insert(wait.first);
  return ranks;
}

// Says where a rank is that another rank waits for.
std::string place_of(const Recording& recording, bool waits) {
  if (waits) return "waits for a message itself";
  for (const CallRecord& call : recording.calls) {
    if (call.state != CallState::Done) return fmt::format("is in {}", describe(call));
  }
  return recording.exchanges.empty() || is_over(&recording.exchanges.back()) ? "is in no call" : "is in an exchange";
}

}  // namespace

std::string text_of(const Ranks& ranks) {
  constexpr std::size_t kShown = 16;
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size() && i < kShown; ++i)
    text += fmt::format("{}{}", i == 0 ? "" : ", ", ranks[i]);
  if (ranks.size() > kShown) text += fmt::format(" and {} more", ranks.size() - kShown);
  return text;
}

std::int64_t since(const CallRecord& call, const Recording& recording) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(recording.taken_ns) -
                                   static_cast<std::uint64_t>(call.entered_ns));
}

MessageFindings find_differing_messages(const Group& group) {
  const Ends ends(group);
  MessageFindings findings;
  std::vector<std::string> sentences;
  std::set<Rank> culprits;
  for (const auto& [end, message] : ends.all()) {
    const MessageRecord* other = end.sent ? ends.find(end.counterpart()) : nullptr;
    if (other == nullptr || (other->dtype == message->dtype && other->count == message->count)) continue;
    sentences.push_back(fmt::format("rank {} called {} where rank {} called {}", end.rank, describe(*message), end.peer,
                                    describe(*other)));
    culprits.insert({end.rank, end.peer});
  }
  say(findings, sentences);
  findings.culprits.assign(culprits.begin(), culprits.end());
  return findings;
}

MessageFindings find_waiting_messages(const Group& group, std::int64_t wait_ns) {
  const Ends ends(group);
  std::vector<std::pair<End, const MessageRecord*>> waiting;
  std::set<std::pair<Rank, Rank>> waits;
  std::set<Rank> waiters;
  for (const auto& [end, message] : ends.all()) {
    const Recording& own = ends.recording(end.rank);
    const CallRecord* exchange = exchange_of(own, *message);
    if (is_over(exchange) || since(*exchange, own) < wait_ns || !ends.never_entered(end.counterpart())) continue;
    waiting.emplace_back(end, message);
    waits.insert({end.rank, end.peer});
    waiters.insert(end.rank);
  }
  MessageFindings findings;
  std::vector<std::string> sentences;
  std::set<Rank> culprits;
  for (const auto& [end, message] : waiting) {
    const bool peer_waits = waiters.contains(end.peer);
    sentences.push_back(fmt::format("rank {} waits in {}: rank {} never entered its {} #{} and {}", end.rank,
                                    describe(*message), end.peer, end.sent ? "recv" : "send", end.number,
                                    place_of(ends.recording(end.peer), peer_waits)));
    if (!peer_waits) culprits.insert(end.peer);
  }
  say(findings, sentences);
  const std::set<Rank> knot = knot_of(waits);
  if (!knot.empty()) {
    findings.sentences.push_back(
        fmt::format("{} wait for each other: sends and receives that cross belong in one Group",
                    text_of({knot.begin(), knot.end()})));
  }
  culprits.insert(knot.begin(), knot.end());
  findings.culprits.assign(culprits.begin(), culprits.end());
  findings.waiting.assign(waiters.begin(), waiters.end());
  return findings;
}

}  // namespace wreath
