// The bodies of the control messages by which ranks link.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "wreath/result.hpp"

namespace wreath {

// The body of a message of kind Candidates: names of transports.
std::string encode_candidates(const std::vector<std::string_view>& names);
// Safe on any bytes.
Result<std::vector<std::string>> decode_candidates(const std::string& body);

// The body of a message of kind Linked: what it says of the sender. What all say together is the same on all ranks.
struct LinkFacts {
  bool all_mapped = true;  // every pair of ranks maps each other's memory
  bool crowded = false;    // some host has fewer cores than ranks

  void add(const LinkFacts& theirs) {
    all_mapped = all_mapped && theirs.all_mapped;
    crowded = crowded || theirs.crowded;
  }
};
std::string encode_link_facts(const LinkFacts& facts);
// Safe on any bytes.
Result<LinkFacts> decode_link_facts(const std::string& body);

}  // namespace wreath
