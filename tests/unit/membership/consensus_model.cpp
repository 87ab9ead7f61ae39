// Walks through all runs of the model.
#include "tests/unit/membership/consensus_model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <stdexcept>

namespace wreath::test {
namespace {

std::uint64_t hash_of(const State& state) {
  static_assert(std::has_unique_object_representations_v<State>);
  std::array<std::uint64_t, sizeof(State) / 8 + 1> words{};
  std::memcpy(words.data(), &state, sizeof state);
  std::uint64_t value = 0x9E3779B97F4A7C15u;
  for (const std::uint64_t word : words) {
    value = (value ^ word) * 0xD6E8FEB86659FD93u;
    value ^= value >> 32;
  }
  return value | 1;
}

constexpr Channel kClosed = {0, Channel::Flow::Closed, {}};
constexpr int kMostSaid = 3 * (kRanks - 1);  // messages of one event

// Returns `value`, or throws where the model's own arrays are too small for it.
std::size_t limited(std::size_t value, std::size_t limit) {
  if (value >= limit) throw std::length_error("the model has outgrown its numbers");
  return value;
}

}  // namespace

bool Visited::insert(const State& state) {
  if (2 * (count_ + 1) > slots_.size()) grow();
  return place(hash_of(state));
}

bool Visited::place(std::uint64_t hash) {
  for (std::size_t at = (hash >> 1) & (slots_.size() - 1);; at = (at + 1) & (slots_.size() - 1)) {
    if (slots_[at] == hash) return false;
    if (slots_[at] != 0) continue;
    slots_[at] = hash;
    ++count_;
    return true;
  }
}

void Visited::grow() {
  const std::vector<std::uint64_t> before = std::exchange(slots_, std::vector<std::uint64_t>(2 * slots_.size()));
  count_ = 0;
  for (const std::uint64_t hash : before) {
    if (hash != 0) place(hash);
  }
}

// ---- ranks ----

Ranks::Effect Ranks::begin(int rank) {
  Consensus member(rank, kRanks);
  member.start();
  return effect_of(std::move(member));
}

const Ranks::Effect& Ranks::apply(std::uint16_t local, const Event& event, std::uint16_t word) {
  const std::uint64_t key = static_cast<std::uint64_t>(local) << 32 | static_cast<std::uint64_t>(event.kind) << 24 |
                            static_cast<std::uint64_t>(event.other) << 16 | word;
  const auto found = effects_.find(key);
  if (found != effects_.end()) return found->second;
  Consensus member = locals_[local];
  switch (event.kind) {
    case Event::Kind::Receive:
      if (word == Channel::kEnd) {
        member.lose(static_cast<Rank>(event.other), Fate::Gone);
      } else {
        member.hear(static_cast<Rank>(event.other), words_[word]);
      }
      break;
    case Event::Kind::Lose:
      for (Rank peer = 0; peer < kRanks; ++peer) {
        if ((event.other >> peer & 1U) != 0) member.lose(peer, Fate::Unreachable);
      }
      break;
    case Event::Kind::Join: member.joined(View(member.view())); break;
    case Event::Kind::Refuse: member.refuse(View(member.view()), {ErrorCode::System, "no memory", event.rank}); break;
    case Event::Kind::Die:
    case Event::Kind::Leave: break;
  }
  return effects_.emplace(key, effect_of(std::move(member))).first->second;
}

Ranks::Effect Ranks::effect_of(Consensus member) {
  Effect effect;
  for (auto& [to, statement] : member.take_outgoing()) {
    const auto found = std::find(words_.begin(), words_.end(), statement);
    const auto word = limited(static_cast<std::size_t>(found - words_.begin()), Channel::kEnd);
    if (found == words_.end()) words_.push_back(std::move(statement));
    effect.said.emplace_back(to, static_cast<std::uint16_t>(word));
  }
  const bool over = member.outcome() != Consensus::Outcome::Open;
  std::string key(1, static_cast<char>(member.outcome()));
  for (const Fate fate : over ? member.decided() : member.view()) key += static_cast<char>(fate);
  std::vector<std::uint16_t>& alike = alike_[key];
  const auto same =
      std::find_if(alike.begin(), alike.end(), [&](std::uint16_t i) { return over || locals_[i] == member; });
  if (same != alike.end()) {
    effect.local = *same;
    return effect;
  }
  effect.local = static_cast<std::uint16_t>(limited(locals_.size(), 0xFFFF));
  alike.push_back(effect.local);
  locals_.push_back(std::move(member));
  return effect;
}

// ---- runs ----

void Model::walk() {
  std::array<Ranks::Effect, kRanks> begins;
  for (int rank = 0; rank < kRanks; ++rank) begins[at(rank)] = ranks_.begin(rank);
  begin({}, begins, 0);
}

// A victim may die while it says its first words.
void Model::begin(const State& state, const std::array<Ranks::Effect, kRanks>& begins, int rank) {
  if (rank == kRanks) return visit(state);
  const int most = has(setting_.victims, rank) ? kRanks - 2 : Event::kLives;
  for (int dies_after = Event::kLives; dies_after <= most; ++dies_after) {
    State next = state;
    take(next, rank, begins[at(rank)], dies_after);
    begin(next, begins, rank + 1);
  }
}

void Model::take(State& state, int rank, const Ranks::Effect& effect, int dies_after) {
  state.local[at(rank)] = effect.local;
  int sent = 0;
  for (const auto& [to, word] : effect.said) {
    if (sent++ == dies_after) break;
    push(state, rank, to, word);
  }
  if (dies_after != Event::kLives) die(state, rank);
  if (dies_after == Event::kLives) forget_ignored(state, rank);
}

void Model::push(State& state, int from, int to, std::uint16_t word) {
  Channel& channel = state.channels[at(from)][at(to)];
  const bool is_cut = has(state.cut, from);
  if (channel.flow == Channel::Flow::Closed || (is_cut && apart(from, to))) return;
  if (channel.flow == Channel::Flow::Ignored) {
    check_ignored(state, from, to, word);
    if (word == Channel::kEnd) channel = kClosed;
    return;
  }
  if (!is_cut && unheard(state, from, to, word)) return check_ignored(state, from, to, word);
  const std::size_t place = limited(channel.count++, channel.words.size());
  channel.words[place] = static_cast<std::uint16_t>(word | (is_cut ? Channel::kAfterCut : 0));
}

void Model::die(State& state, int rank) {
  state.dead = static_cast<std::uint16_t>(state.dead | 1U << rank);
  state.local[at(rank)] = 0;
  end(state, rank);
}

void Model::end(State& state, int rank) {
  for (int peer = 0; peer < kRanks; ++peer) {
    if (peer == rank) continue;
    push(state, rank, peer, Channel::kEnd);
    state.channels[at(peer)][at(rank)] = kClosed;
  }
}

// Drops what `rank` ignores: the words of failed ranks, and all words once it has an outcome.
void Model::forget_ignored(State& state, int rank) {
  const Consensus& self = member(state, rank);
  const bool over = self.outcome() != Consensus::Outcome::Open;
  for (int peer = 0; peer < kRanks; ++peer) {
    Channel& channel = state.channels[at(peer)][at(rank)];
    if (!over && self.view()[at(peer)] != Fate::Gone) {
      if (self.view()[at(peer)] == Fate::Unreachable) forget_unheard(state, peer, rank);
      continue;
    }
    bool closed = channel.flow == Channel::Flow::Closed;
    for (std::size_t i = 0; i < channel.count; ++i) {
      check_ignored(state, peer, rank, channel.words[i]);
      closed = closed || (channel.words[i] & Channel::kEnd) == Channel::kEnd;
    }
    channel = {0, closed ? Channel::Flow::Closed : Channel::Flow::Ignored, {}};
  }
}

// Returns whether `to` ignores the word since `from` is out of reach. Only a decision and the end of such a rank are
// heard, for good: a fate only gets worse.
bool Model::unheard(const State& state, int from, int to, std::uint16_t word) const {
  return word < Channel::kEnd && !ranks_.decides(word) && !has(state.dead, to) &&
         member(state, to).outcome() == Consensus::Outcome::Open &&
         member(state, to).view()[at(from)] == Fate::Unreachable;
}

void Model::forget_unheard(State& state, int from, int to) {
  Channel& channel = state.channels[at(from)][at(to)];
  Channel kept{0, channel.flow, {}};
  for (std::size_t i = 0; i < channel.count; ++i) {
    if (unheard(state, from, to, channel.words[i])) {
      check_ignored(state, from, to, channel.words[i]);
    } else {
      kept.words[kept.count++] = channel.words[i];
    }
  }
  channel = kept;
}

void Model::check_ignored(const State& state, int from, int to, std::uint16_t word) {
  const std::uint16_t local = state.local[at(to)];
  const Event event{Event::Kind::Receive, to, static_cast<unsigned>(from), Event::kLives};
  const Ranks::Effect& effect = ranks_.apply(local, event, static_cast<std::uint16_t>(word & ~Channel::kAfterCut));
  if (effect.local != local || !effect.said.empty()) {
    blame(state, fmt::format("rank {} listens to rank {}, which failed, or after its own outcome", to, from));
  }
}

void Model::visit(const State& state) {
  if (!wrong_.empty() || !visited_.insert(state)) return;
  const std::vector<Event> events = enough(state);
  if (events.empty()) return check_end(state);
  for (const Event& event : events) follow(state, event);
}

void Model::events_of(const State& state, int rank, std::vector<Event>& events) const {
  if (has(state.dead, rank) || has(state.left, rank)) return;
  const auto add = [&](Event::Kind kind, unsigned other) {
    events.push_back({kind, rank, other, Event::kLives});
    for (int sent = 1; has(setting_.victims, rank) && sent < kMostSaid; ++sent) {
      events.push_back({kind, rank, other, sent});
    }
  };
  Set lost = 0;
  for (int peer = 0; peer < kRanks; ++peer) {
    const Channel& channel = state.channels[at(peer)][at(rank)];
    if (channel.count > 0) add(Event::Kind::Receive, static_cast<unsigned>(peer));
    if (!apart(rank, peer) || channel.flow != Channel::Flow::Open) continue;
    lost |= 1U << peer;
    if (!setting_.at_once) add(Event::Kind::Lose, 1U << peer);
  }
  if (setting_.at_once && lost != 0) add(Event::Kind::Lose, lost);
  const Consensus& self = member(state, rank);
  if (self.attempting()) add(Event::Kind::Join, 0);
  if (self.attempting() && has(setting_.may_refuse, rank)) add(Event::Kind::Refuse, 0);
  if (has(setting_.victims, rank)) events.push_back({Event::Kind::Die, rank, 0, 0});
  if (may_leave(state, rank)) events.push_back({Event::Kind::Leave, rank, 0, Event::kLives});
}

// Returns whether the rank may still say something.
bool Model::may_act(const State& state, int rank) const {
  if (has(state.dead, rank)) return false;
  return has(setting_.victims, rank) || member(state, rank).outcome() == Consensus::Outcome::Open ||
         may_leave(state, rank);
}

bool Model::may_leave(const State& state, int rank) const {
  return has(setting_.leavers, rank) && !has(state.left, rank) &&
         member(state, rank).outcome() != Consensus::Outcome::Open;
}

// Returns `first`, and all ranks that can send into an empty channel to a rank of the closure.
Set Model::closure(const State& state, int first) const {
  Set ranks = 1U << first;
  for (Set before = 0; before != ranks;) {
    before = ranks;
    for (int from = 0; from < kRanks; ++from) {
      if (has(ranks, from) || !may_act(state, from)) continue;
      for (int to = 0; to < kRanks; ++to) {
        const Channel& channel = state.channels[at(from)][at(to)];
        const bool may_send =
            channel.count == 0 && channel.flow == Channel::Flow::Open && !(has(state.cut, from) && apart(from, to));
        if (has(ranks, to) && !has(state.dead, to) && may_send) ranks |= 1U << from;
      }
    }
  }
  return ranks;
}

std::vector<Event> Model::enough(const State& state) const {
  std::vector<Event> best;
  int fewest = kRanks + 1;
  for (int first = 0; first < kRanks && fewest > 1; ++first) {
    if (has(state.dead, first)) continue;
    const Set ranks = closure(state, first);
    if (std::popcount(ranks) >= fewest) continue;
    std::vector<Event> events;
    for (int rank = 0; rank < kRanks; ++rank) {
      if (has(ranks, rank)) events_of(state, rank, events);
    }
    if (events.empty()) continue;
    best = std::move(events);
    fewest = std::popcount(ranks);
  }
  return best;
}

void Model::follow(const State& state, const Event& event) {
  State next = state;
  std::uint16_t word = 0;
  if (event.kind == Event::Kind::Receive) {
    Channel& channel = next.channels[event.other][at(event.rank)];
    word = channel.words[0];
    // A rank that hears what was said after the cut is behind it, too: a partition is one moment for all.
    if ((word & Channel::kAfterCut) != 0) next.cut = static_cast<std::uint16_t>(next.cut | 1U << event.rank);
    word = static_cast<std::uint16_t>(word & ~Channel::kAfterCut);
    std::copy(channel.words.begin() + 1, channel.words.end(), channel.words.begin());
    channel.words.back() = 0;
    --channel.count;
    if (word == Channel::kEnd) channel.flow = Channel::Flow::Closed;
  }
  if (event.kind == Event::Kind::Lose) {
    for (int peer = 0; peer < kRanks; ++peer) {
      if (has(event.other, peer)) next.channels[at(peer)][at(event.rank)] = kClosed;
    }
    if (setting_.at_once) next.cut = static_cast<std::uint16_t>(next.cut | 1U << event.rank);
  }
  if (event.kind == Event::Kind::Die) {
    die(next, event.rank);
  } else if (event.kind == Event::Kind::Leave) {
    next.left = static_cast<std::uint16_t>(next.left | 1U << event.rank);
    end(next, event.rank);
  } else {
    const Ranks::Effect& effect = ranks_.apply(state.local[at(event.rank)], event, word);
    const auto said = static_cast<int>(effect.said.size());
    // This is the same as a death a moment later.
    if (event.dies_after != Event::kLives && event.dies_after >= said) return;
    take(next, event.rank, effect, event.dies_after);
  }
  path_.push_back(event);
  if (!has(next.dead, event.rank)) check_decision(next, event.rank);
  visit(next);
  path_.pop_back();
}

// Checks that a rank that is left out is dead, or on the other side of the partition. Where the partition is not one
// moment for all, a rank may be lost with one of the other side that it heard first: only one set is promised.
void Model::check_decision(const State& state, int rank) {
  const Consensus& self = member(state, rank);
  if (self.outcome() != Consensus::Outcome::Decided || !setting_.at_once) return;
  for (int peer = 0; peer < kRanks; ++peer) {
    if (self.decided()[at(peer)] == Fate::Alive || has(state.dead, peer) || apart(rank, peer)) continue;
    blame(state, fmt::format("rank {} left out rank {}, which lives", rank, peer));
  }
}

bool Model::goes_on(const State& state, Set side) const {
  int here = 0;
  int there = 0;
  int lowest = -1;
  for (int rank = kRanks - 1; rank >= 0; --rank) {
    if (has(state.dead, rank)) continue;
    lowest = rank;
    (has(side, rank) ? here : there) += 1;
  }
  return here > there || (here == there && lowest >= 0 && has(side, lowest));
}

void Model::check_end(const State& state) {
  ++ends_;
  const View* decided = nullptr;
  for (const Set side : {setting_.side, ~setting_.side}) {
    bool any_refused = false;
    bool any_decided = false;
    for (int rank = 0; rank < kRanks; ++rank) {
      if (!has(side, rank) || has(state.dead, rank)) continue;
      const Consensus& self = member(state, rank);
      if (self.outcome() == Consensus::Outcome::Open) return blame(state, fmt::format("rank {} waits forever", rank));
      any_refused = any_refused || self.outcome() == Consensus::Outcome::Refused;
      if (self.outcome() != Consensus::Outcome::Decided) continue;
      any_decided = true;
      if (decided == nullptr) decided = &self.decided();
      if (*decided != self.decided()) return blame(state, "two sets were decided");
    }
    refused_ends_ += any_refused ? 1 : 0;
    if (!setting_.at_once) continue;
    if (any_refused && any_decided) return blame(state, "of one side, some decided and some were refused");
    if (any_refused && goes_on(state, side) && setting_.may_refuse == 0) blame(state, "the larger side does not go on");
  }
}

void Model::blame(const State& state, const std::string& what) {
  static constexpr std::array<const char*, 6> kNames = {"receives from", "loses", "joins", "refuses", "dies", "leaves"};
  if (!wrong_.empty()) return;
  wrong_ = what + "\n";
  for (const Event& event : path_) {
    wrong_ += fmt::format("  {} {} {} {}\n", event.rank, kNames[static_cast<std::size_t>(event.kind)], event.other,
                          event.dies_after);
  }
  for (int rank = 0; rank < kRanks; ++rank) {
    const Consensus& self = member(state, rank);
    wrong_ += fmt::format("  rank {}{}: outcome {}, without {}\n", rank, has(state.dead, rank) ? " (dead)" : "",
                          static_cast<int>(self.outcome()), failed_ranks(self.view()));
  }
}

}  // namespace wreath::test
