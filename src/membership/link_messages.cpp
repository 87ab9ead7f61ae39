// The messages by which ranks link become bytes here.
#include "src/membership/link_messages.hpp"

#include "src/bootstrap/codec.hpp"

namespace wreath {
namespace {

constexpr std::size_t kMaxCandidates = 64;

}  // namespace

std::string encode_candidates(const std::vector<std::string_view>& names) {
  Writer writer;
  writer.number(static_cast<std::uint8_t>(names.size()));
  for (const std::string_view name : names) writer.text(name, kMaxNameBytes);
  return writer.take_string();
}

Result<std::vector<std::string>> decode_candidates(const std::string& body) {
  Reader reader(std::as_bytes(std::span(body)));
  std::vector<std::string> names;
  const auto count = reader.number<std::uint8_t>();
  if (count > kMaxCandidates) reader.fail();
  for (std::size_t i = 0; reader.ok() && i < count; ++i) names.push_back(reader.text(kMaxNameBytes));
  if (!reader.complete()) return Error{ErrorCode::System, "a malformed message of candidates"};
  return names;
}

std::string encode_link_facts(const LinkFacts& facts) {
  Writer writer;
  writer.text(facts.wire, kMaxNameBytes);
  writer.number(static_cast<std::uint8_t>(facts.crowded));
  writer.number(static_cast<std::uint8_t>(facts.gpus));
  writer.number(facts.ring_bytes);
  writer.number(static_cast<std::uint8_t>(facts.ping_pong));
  writer.number(static_cast<std::uint8_t>(facts.single_copy));
  writer.number(facts.caches.near_bytes);
  writer.number(facts.caches.last_bytes);
  return writer.take_string();
}

Result<LinkFacts> decode_link_facts(const std::string& body) {
  Reader reader(std::as_bytes(std::span(body)));
  LinkFacts facts;
  facts.wire = reader.text(kMaxNameBytes);
  facts.crowded = reader.flag();
  facts.gpus = reader.flag();
  facts.ring_bytes = reader.number<std::uint64_t>();
  facts.ping_pong = reader.flag();
  facts.single_copy = reader.flag();
  facts.caches.near_bytes = reader.number<std::uint64_t>();
  facts.caches.last_bytes = reader.number<std::uint64_t>();
  if (!reader.complete()) return Error{ErrorCode::System, "a malformed message of links"};
  return facts;
}

}  // namespace wreath
