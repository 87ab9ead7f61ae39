// These are the bodies of the control messages by which ranks link.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "wreath/result.hpp"

namespace wreath {

// Returns the body of a message of kind Candidates: names of transports.
std::string encode_candidates(const std::vector<std::string_view>& names);
// Reads such a body. Any bytes are safe.
Result<std::vector<std::string>> decode_candidates(const std::string& body);

// LinkFacts is the body of a message of kind Linked, and describes the sender. The facts of all ranks together are
// the same on all ranks.
struct LinkFacts {
  // Every pair of ranks maps each other's memory.
  bool all_mapped = true;
  // Some host has fewer cores than ranks.
  bool crowded = false;
  // Every rank uses a GPU.
  bool gpus = false;

  void add(const LinkFacts& theirs) {
    all_mapped = all_mapped && theirs.all_mapped;
    crowded = crowded || theirs.crowded;
    gpus = gpus && theirs.gpus;
  }
};
std::string encode_link_facts(const LinkFacts& facts);
// Reads such a body. Any bytes are safe.
Result<LinkFacts> decode_link_facts(const std::string& body);

}  // namespace wreath
