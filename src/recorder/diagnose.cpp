// Compares the recordings of a communicator's ranks: a rank may differ, be gone, or be behind.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>

#include "src/recorder/messages.hpp"
#include "wreath/recording.hpp"

namespace wreath {
namespace {

bool unfinished(const CallRecord& call) { return call.state == CallState::Entered || call.state == CallState::Running; }

std::string arguments_text(const CallRecord& call) {
  std::string text = fmt::format("{} {} x {}", name(call.collective, call.varying), name(call.dtype), call.count);
  if (call.op != ReduceOp{}) text += fmt::format(" {}", name(call.op));
  if (call.root != 0) text += fmt::format(" root {}", call.root);
  return text;
}

// Holds the ranks that passed the same arguments to a call.
struct Camp {
  const CallRecord* call;
  Ranks ranks;
};
// Returns the ranks by what they passed to call `number`, the largest camp first.
std::vector<Camp> camps_of(const Group& group, std::uint64_t number) {
  std::vector<Camp> camps;
  for (const Recording* recording : group) {
    const CallRecord* call = recording->find(number);
    if (call == nullptr) continue;
    const auto same = [&](const Camp& camp) { return same_call(*camp.call, *call); };
    const auto found = std::find_if(camps.begin(), camps.end(), same);
    if (found == camps.end()) {
      camps.push_back({call, {recording->rank}});
    } else {
      found->ranks.push_back(recording->rank);
    }
  }
  std::stable_sort(camps.begin(), camps.end(),
                   [](const Camp& a, const Camp& b) { return a.ranks.size() > b.ranks.size(); });
  return camps;
}

bool find_mismatch(const Group& group, Diagnosis& diagnosis) {
  std::set<std::uint64_t> numbers;
  for (const Recording* recording : group) {
    for (const CallRecord& call : recording->calls) numbers.insert(call.number);
  }
  for (const std::uint64_t number : numbers) {
    const std::vector<Camp> camps = camps_of(group, number);
    if (camps.size() < 2) continue;
    diagnosis.finding = Finding::Mismatch;
    diagnosis.number = number;
    const Camp& most = camps.front();
    for (std::size_t i = 1; i < camps.size(); ++i) {
      diagnosis.culprits.insert(diagnosis.culprits.end(), camps[i].ranks.begin(), camps[i].ranks.end());
      diagnosis.sentences.push_back(fmt::format("{} called {} where {} called {} (#{})", text_of(camps[i].ranks),
                                                arguments_text(*camps[i].call), text_of(most.ranks),
                                                arguments_text(*most.call), number));
    }
    return true;
  }
  const MessageFindings messages = find_differing_messages(group);
  if (messages.sentences.empty()) return false;
  diagnosis.finding = Finding::Mismatch;
  diagnosis.sentences = messages.sentences;
  diagnosis.culprits = messages.culprits;
  return true;
}

// Returns the first call that a rank failed in or is still in; else such an exchange.
const CallRecord* broken_call(const Recording& recording) {
  for (const std::vector<CallRecord>* calls : {&recording.calls, &recording.exchanges}) {
    for (const CallRecord& call : *calls) {
      if (call.state != CallState::Done) return &call;
    }
  }
  return nullptr;
}

// Returns the number of a call of all ranks; 0 for exchanges, which are each rank's own.
std::uint64_t common_number(const CallRecord* call) {
  return call == nullptr || call->collective == Collective::Exchange ? 0 : call->number;
}

bool find_lost(const Group& group, Diagnosis& diagnosis) {
  std::map<Rank, Group> accusers;
  for (const Recording* recording : group) {
    if (recording->error_kind == name(ErrorCode::PeerLost) && recording->failed_rank >= 0) {
      accusers[recording->failed_rank].push_back(recording);
    }
  }
  for (const auto& [lost, named_by] : accusers) {
    Ranks names;
    for (const Recording* recording : named_by) names.push_back(recording->rank);
    const CallRecord* call = broken_call(*named_by.front());
    const std::string during = call == nullptr ? "between calls" : fmt::format("during {}", describe(*call));
    diagnosis.sentences.push_back(
        fmt::format("rank {} was lost {}: named by {} ({})", lost, during, text_of(names), named_by.front()->error));
    diagnosis.culprits.push_back(lost);
    if (diagnosis.number == 0) diagnosis.number = common_number(call);
  }
  if (!accusers.empty()) diagnosis.finding = Finding::PeerLost;
  return !accusers.empty();
}

std::uint64_t last_number(const Recording& recording) {
  return recording.last() == nullptr ? 0 : recording.last()->number;
}

bool by_last(const Recording* a, const Recording* b) { return last_number(*a) < last_number(*b); }

std::string where_it_stopped(const Recording& recording) {
  const CallRecord* last = recording.last();
  if (last == nullptr) return "has not entered any call";
  return fmt::format("{} #{}", unfinished(*last) ? "is still in" : "last finished", last->number);
}

// Returns the call after the last one of `recording`, as another rank made it.
const CallRecord* next_call(const Group& group, const Recording& recording) {
  for (const Recording* other : group) {
    if (const CallRecord* call = other->find(last_number(recording) + 1)) return call;
  }
  return nullptr;
}

// The recordings of a running job are not of one moment: a rank is behind there once another has waited for it so long.
constexpr std::int64_t kWaitNs = 100'000'000;

// Finds ranks that are behind in the calls of all ranks.
void find_behind_in_calls(const Group& group, bool runs, Diagnosis& diagnosis) {
  const std::uint64_t most = last_number(**std::max_element(group.begin(), group.end(), by_last));
  Group behind;
  std::copy_if(group.begin(), group.end(), std::back_inserter(behind),
               [&](const Recording* recording) { return last_number(*recording) < most; });
  std::stable_sort(behind.begin(), behind.end(), by_last);
  for (const Recording* late : behind) {
    const CallRecord* missing = next_call(group, *late);
    Ranks waiting;
    std::int64_t wait_ns = 0;
    for (const Recording* other : group) {
      const CallRecord* call = missing == nullptr ? nullptr : other->find(missing->number);
      if (call == nullptr || !unfinished(*call)) continue;
      waiting.push_back(other->rank);
      wait_ns = std::max(wait_ns, since(*call, *other));
    }
    if (runs && wait_ns < kWaitNs) continue;
    const std::string call_text = missing == nullptr ? fmt::format("#{}", last_number(*late) + 1)
                                                     : fmt::format("#{} {}", missing->number, arguments_text(*missing));
    std::string sentence =
        fmt::format("rank {} {} and never entered {}", late->rank, where_it_stopped(*late), call_text);
    if (!waiting.empty()) {
      sentence += fmt::format("; {} {} in it", text_of(waiting), waiting.size() == 1 ? "waits" : "wait");
    }
    diagnosis.sentences.push_back(std::move(sentence));
    diagnosis.culprits.push_back(late->rank);
    if (diagnosis.number == 0) diagnosis.number = last_number(*late) + 1;
  }
}

bool find_behind(const Group& group, Diagnosis& diagnosis) {
  const bool runs = std::all_of(group.begin(), group.end(), [](const Recording* r) { return r->error.empty(); });
  find_behind_in_calls(group, runs, diagnosis);
  const MessageFindings messages =
      find_waiting_messages(group, runs ? kWaitNs : std::numeric_limits<std::int64_t>::min());
  diagnosis.sentences.insert(diagnosis.sentences.end(), messages.sentences.begin(), messages.sentences.end());
  // A rank that is behind because its message waits is so by another's fault.
  std::erase_if(diagnosis.culprits,
                [&](Rank rank) { return std::binary_search(messages.waiting.begin(), messages.waiting.end(), rank); });
  for (const Rank culprit : messages.culprits) {
    if (std::find(diagnosis.culprits.begin(), diagnosis.culprits.end(), culprit) == diagnosis.culprits.end()) {
      diagnosis.culprits.push_back(culprit);
    }
  }
  if (!diagnosis.sentences.empty()) diagnosis.finding = Finding::Behind;
  return !diagnosis.sentences.empty();
}

bool find_failed(const Group& group, Diagnosis& diagnosis) {
  for (const Recording* recording : group) {
    if (recording->error.empty()) continue;
    diagnosis.finding = Finding::Failed;
    const std::string who = fmt::format("rank {}", recording->rank);
    diagnosis.sentences.push_back(
        recording->error.starts_with(who + " ") ? recording->error : fmt::format("{}: {}", who, recording->error));
    if (recording->failed_rank >= 0) diagnosis.culprits.push_back(recording->failed_rank);
    if (diagnosis.number == 0) diagnosis.number = common_number(broken_call(*recording));
  }
  std::sort(diagnosis.culprits.begin(), diagnosis.culprits.end());
  diagnosis.culprits.erase(std::unique(diagnosis.culprits.begin(), diagnosis.culprits.end()), diagnosis.culprits.end());
  return diagnosis.finding == Finding::Failed;
}

void say_healthy(const Group& group, Diagnosis& diagnosis) {
  const CallRecord* last = group.front()->last();
  const auto [least, most] = std::minmax_element(group.begin(), group.end(), by_last);
  if (last_number(**least) != last_number(**most)) {
    diagnosis.sentences.push_back(
        fmt::format("ranks move: they were read in calls #{} to #{}, and none has waited {} ms for another",
                    last_number(**least), last_number(**most), kWaitNs / 1'000'000));
  } else if (last == nullptr) {
    const bool none = std::all_of(group.begin(), group.end(), [](const Recording* r) { return r->exchanges.empty(); });
    diagnosis.sentences.emplace_back(none ? "no rank has entered a call" : "no rank is behind in sends and receives");
  } else {
    const bool all_done =
        std::all_of(group.begin(), group.end(), [](const Recording* r) { return r->last()->state == CallState::Done; });
    diagnosis.sentences.push_back(
        fmt::format("all ranks {} {}; none is behind", all_done ? "have finished" : "have entered", describe(*last)));
  }
}

// Adds the ranks without a recording; a few of them are named.
void add_missing(const Group& group, Diagnosis& diagnosis) {
  constexpr std::size_t kNamed = 16;
  int ranks = 1;
  std::set<Rank> present;
  for (const Recording* recording : group) {
    ranks = std::max(ranks, recording->ranks);
    present.insert(recording->rank);
  }
  const std::size_t missing =
      static_cast<std::size_t>(ranks) - std::min(present.size(), static_cast<std::size_t>(ranks));
  if (missing == 0) return;
  Ranks named;
  for (Rank rank = 0; rank < ranks && named.size() < kNamed; ++rank) {
    if (!present.contains(rank)) named.push_back(rank);
  }
  std::string sentence = fmt::format("no recording of {}", text_of(named));
  if (missing > named.size()) sentence += fmt::format(" and {} more", missing - named.size());
  if (diagnosis.finding == Finding::Healthy) {
    diagnosis.finding = Finding::Incomplete;
    diagnosis.culprits = named;
  }
  diagnosis.sentences.push_back(std::move(sentence));
}

Diagnosis diagnose_group(const Group& group) {
  Diagnosis diagnosis;
  diagnosis.communicator = group.front()->communicator;
  if (!find_mismatch(group, diagnosis) && !find_lost(group, diagnosis) && !find_behind(group, diagnosis) &&
      !find_failed(group, diagnosis)) {
    say_healthy(group, diagnosis);
  }
  add_missing(group, diagnosis);
  return diagnosis;
}

// Returns one recording per rank, the latest, in order of ranks.
Group tidy(const Group& group) {
  std::map<Rank, const Recording*> latest;
  for (const Recording* recording : group) {
    const Recording*& kept = latest[recording->rank];
    if (kept == nullptr || recording->taken_ns >= kept->taken_ns) kept = recording;
  }
  Group ordered;
  for (const auto& [rank, recording] : latest) ordered.push_back(recording);
  return ordered;
}

}  // namespace

std::string_view name(Finding finding) noexcept {
  switch (finding) {
    case Finding::Healthy: return "healthy";
    case Finding::Behind: return "behind";
    case Finding::Mismatch: return "mismatch";
    case Finding::PeerLost: return "peer lost";
    case Finding::Failed: return "failed";
    case Finding::Incomplete: return "incomplete";
  }
  return "unknown finding";
}

std::vector<Diagnosis> diagnose(const std::vector<Recording>& recordings) {
  std::vector<std::uint64_t> order;
  std::map<std::uint64_t, Group> groups;
  for (const Recording& recording : recordings) {
    Group& group = groups[recording.communicator];
    if (group.empty()) order.push_back(recording.communicator);
    group.push_back(&recording);
  }
  std::vector<Diagnosis> diagnoses;
  diagnoses.reserve(order.size());
  for (const std::uint64_t communicator : order) diagnoses.push_back(diagnose_group(tidy(groups[communicator])));
  return diagnoses;
}

}  // namespace wreath
