// Remembers what the tuner has chosen for a communicator's calls.
#pragma once

#include <array>
#include <set>
#include <string>

#include "src/tuner/tuner.hpp"

namespace wreath {

class Choices {
 public:
  void set(const TunerContext& tuning) { tuning_ = tuning; }
  const TunerContext& tuning() const { return tuning_; }
  // Returns the choice for the last query of a collective, which often is the next one, too. Returns null for any other
  // query.
  const Choice* last(const Query& query) const {
    const Chosen& chosen = chosen_[static_cast<std::size_t>(query.collective)];
    return chosen.choice.algorithm != nullptr && chosen.query == query ? &chosen.choice : nullptr;
  }
  const Choice& choose(const Query& query) {
    Chosen& chosen = chosen_[static_cast<std::size_t>(query.collective)];
    chosen = {query, wreath::choose(tuning_, query)};
    return chosen.choice;
  }
  // Returns true the first time that it gets a text. Calls of different sizes take turns in many programs, and the log
  // shows each choice once.
  bool is_news(const std::string& text) { return told_.insert(text).second; }

 private:
  struct Chosen {
    Query query;
    Choice choice;
  };

  TunerContext tuning_;
  std::array<Chosen, static_cast<std::size_t>(Collective::Exchange)> chosen_;
  std::set<std::string> told_;
};

}  // namespace wreath
