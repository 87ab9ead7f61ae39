// A libFuzzer target for the small texts that people and launchers give: ids, keys, sizes, addresses and faults. The
// first byte chooses one.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "src/base/socket.hpp"
#include "src/bootstrap/carrier.hpp"
#include "src/bootstrap/key.hpp"
#include "transports/faulty/faults.hpp"
#include "wreath/unique_id.hpp"
#include "wreath/units.hpp"

namespace wreath {
namespace {

void require(bool fine) {
  if (!fine) std::abort();
}

void read_id(std::string_view text) {
  const auto id = UniqueId::parse(text);
  if (id) require(UniqueId::parse(id->to_string()).value().bytes == id->bytes);
}

// A key is never shown: another text of the same length gives the same error.
void read_key(std::string_view text) {
  const auto key = Key::parse(text, "the fuzzer");
  std::string other(text);
  std::replace_if(
      other.begin(), other.end(), [](char c) { return c != ' ' && c != '\n' && c != '\r'; }, 'z');
  if (!key) require(key.error().message == Key::parse(other, "the fuzzer").error().message);
}

void read_bytes(std::string_view text) {
  const auto bytes = parse_bytes(text);
  if (bytes) require(parse_bytes(format_bytes(*bytes)).value() == *bytes);
}

void read_address(std::string_view text) {
  const auto address = SocketAddress::parse_ip(text, 29'500);
  if (address) require(!address->text().empty() && address->port() == 29'500);
}

void read_faults(std::string_view text) {
  const auto rates = parse_faults(text);
  if (rates) require(rates->delay >= 0 && rates->delay <= 1 && rates->delay_ms > 0);
}

void read_carried(std::string_view text) {
  const auto place = read_carried_text(text, "the fuzzer");
  if (place) require(!place->addresses.empty() && place->port != 0 && (place->key != nullptr) == place->name.empty());
}

constexpr std::array kReaders{read_id, read_key, read_bytes, read_address, read_faults, read_carried};

}  // namespace
}  // namespace wreath

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  wreath::kReaders[data[0] % wreath::kReaders.size()]({reinterpret_cast<const char*>(data) + 1, size - 1});
  return 0;
}
