// Makes and reads the text that launchers carry, and has it carried once: see carrier.hpp.
#include "src/bootstrap/carrier.hpp"

#include <fmt/format.h>
#include <sodium.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <mutex>
#include <optional>

#include "src/base/config.hpp"
#include "src/base/log.hpp"
#include "src/base/random.hpp"
#include "src/base/socket.hpp"
#include "src/bootstrap/launched.hpp"
#include "src/bootstrap/pmi.hpp"
#include "src/bootstrap/pmix.hpp"

namespace wreath {
namespace {

// The text is "wreath1/WORD/64 DIGITS/PORT/ADDRESS,ADDRESS". WORD says what the digits are: the job's key, or only its
// name. It has no space, '=' or ';', which mean something to PMI.
constexpr std::string_view kTextBegins = "wreath1/";
constexpr std::string_view kDigitsAreKey = "key/";
constexpr std::string_view kDigitsAreName = "name/";
constexpr std::size_t kMostCarriedAddresses = 16;

// Returns the part of `text` before the next `mark`, and removes both.
std::string_view take_part(std::string_view& text, char mark) {
  const std::string_view part = text.substr(0, text.find(mark));
  text.remove_prefix(std::min(text.size(), part.size() + 1));
  return part;
}

Result<std::string> carry(Carrier carrier, const Carriage& carriage) {
  if (carrier == Carrier::Pmix) return carry_by_pmix(carriage);
  const auto socket = setting_integer(Setting::PmiDescriptor);
  if (!socket) return socket.error();
  // Slurm's plug-in is made for PMI-2. Hydra's launchers take both, and MPICH speaks PMI-1 with them.
  return carry_by_pmi(static_cast<int>(*socket), is_set(Setting::SlurmStep) ? kPmi2 : kPmi1, carriage);
}

// Wipes a text at its end.
struct WipedText {
  std::string text;
  ~WipedText() { sodium_memzero(text.data(), text.size()); }
};

Result<CarriedPlace> carry_place(Carrier carrier, const Carriage& carriage) {
  auto carried = carry(carrier, carriage);
  if (!carried) return carried.error();
  const WipedText wiped{std::move(*carried)};
  return read_carried_text(wiped.text, name(carrier));
}

}  // namespace

std::string_view name(Carrier carrier) {
  constexpr std::array<std::string_view, 3> kNames{"none", "PMI", "PMIx"};
  return kNames[static_cast<std::size_t>(carrier)];
}

std::string make_carried_text(bool with_key, const std::vector<std::string>& addresses) {
  std::array<std::byte, kKeyBytes> bytes{};
  fill_random(bytes);
  std::string text = fmt::format("{}{}", kTextBegins, with_key ? kDigitsAreKey : kDigitsAreName);
  for (const std::byte byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned>(byte));
  sodium_memzero(bytes.data(), bytes.size());
  text += fmt::format("/{}/", kFirstMeetingPort + random_u64() % kMeetingPorts);
  std::string_view mark;
  for (std::size_t i = 0; i < addresses.size() && i < kMostCarriedAddresses; ++i) {
    if (text.size() + 1 + addresses[i].size() > kMaxCarriedBytes) break;
    text.append(mark).append(addresses[i]);
    mark = ",";
  }
  return text;
}

Result<CarriedPlace> read_carried_text(std::string_view text, std::string_view from) {
  const auto wrong = [&](std::string_view what) {
    return Error{
        ErrorCode::StartupFailed,
        fmt::format("{} brought no place of rank 0: {}; do all ranks run the same version of Wreath?", from, what)};
  };
  if (text.size() > kMaxCarriedBytes) return wrong(fmt::format("the text has {} bytes", text.size()));
  if (!text.starts_with(kTextBegins)) return wrong("the text begins otherwise");
  text.remove_prefix(kTextBegins.size());
  CarriedPlace place;
  const bool has_key = text.starts_with(kDigitsAreKey);
  if (!has_key && !text.starts_with(kDigitsAreName)) return wrong("neither a key nor a name follows");
  text.remove_prefix(has_key ? kDigitsAreKey.size() : kDigitsAreName.size());
  const std::string_view digits = take_part(text, '/');
  auto key = Key::parse(digits, "its digits");
  if (!key) return wrong(key.error().message);
  if (has_key) place.key = std::move(*key);
  if (!has_key) place.name = digits;
  const std::string_view port = take_part(text, '/');
  const char* const end = port.data() + port.size();
  const auto read = std::from_chars(port.data(), end, place.port);
  if (read.ec != std::errc() || read.ptr != end || place.port == 0) return wrong("the port is no number");
  while (!text.empty()) {
    const std::string address(take_part(text, ','));
    if (!SocketAddress::parse_ip(address, place.port)) return wrong("an address is none");
    if (place.addresses.size() == kMostCarriedAddresses) return wrong("there are too many addresses");
    place.addresses.push_back(address);
  }
  if (place.addresses.empty()) return wrong("there is no address");
  return place;
}

Result<CarriedPlace> carried_place(Carrier carrier, const Carriage& carriage) {
  static std::mutex mutex;
  static std::optional<Result<CarriedPlace>> carried;
  const std::lock_guard lock(mutex);
  if (!carried) {
    carried = carry_place(carrier, carriage);
    if (*carried) log_info("{} brought rank 0's place{}", name(carrier), (*carried)->key ? " and the job's key" : "");
  }
  return *carried;
}

}  // namespace wreath
