// Sets the faults by name, and applies them to packets.
#include "tests/wire/faults.hpp"

#include <algorithm>
#include <sstream>

namespace wreath::wire {
namespace {

constexpr std::int64_t kLongestLineNs = 50'000'000;

}  // namespace

std::string Faults::help() {
  return "loss SHARE, reorder SHARE, duplicate SHARE, corrupt SHARE (what a checksum finds),\n"
         "flip SHARE BYTES (a bit of payloads of so many bytes or more, which no checksum finds), delay MS JITTER_MS,\n"
         "largest BYTES (larger packets vanish), flow MEGABYTES_A_SECOND (of each connection, each way), forget S "
         "(connections that were silent so long),\n"
         "reset COUNT (connections), cut HOST, join HOST, one_way FROM TO, clear (all faults and counts), counts\n";
}

std::string Faults::command(const std::string& line) {
  std::istringstream words(line);
  std::string name;
  double first = 0;
  double second = 0;
  words >> name >> first >> second;
  const std::map<std::string, double*> numbers{
      {"loss", &settings_.loss},          {"reorder", &settings_.reorder},       {"duplicate", &settings_.duplicate},
      {"corrupt", &settings_.corrupt},    {"largest", &settings_.largest_bytes}, {"forget", &settings_.forget_s},
      {"flow", &settings_.flow_megabytes}};
  if (const auto number = numbers.find(name); number != numbers.end()) {
    *number->second = first;
  } else if (name == "flip") {
    settings_.flip = first;
    settings_.flip_bytes = static_cast<std::size_t>(second < 1 ? 1 : second);
  } else if (name == "delay") {
    settings_.delay_ms = first;
    settings_.jitter_ms = second;
  } else if (name == "reset") {
    settings_.resets = static_cast<int>(first);
  } else if (name == "cut") {
    settings_.cut.insert(static_cast<int>(first));
  } else if (name == "join") {
    settings_.cut.erase(static_cast<int>(first));
  } else if (name == "one_way") {
    settings_.cut_ways.emplace(static_cast<int>(first), static_cast<int>(second));
  } else if (name == "clear") {
    *this = Faults(static_cast<std::uint32_t>(random_()));
  } else {
    return "there is no command '" + line + "'; there are:\n" + help();
  }
  return "";
}

std::vector<Delivery> Faults::carry(Packet packet, std::int64_t now_ns) {
  std::vector<Delivery> deliveries;
  counted(kPackets);
  if (stops(packet, now_ns)) return deliveries;
  const auto ns_of = [](double ms) { return static_cast<std::int64_t>(ms * 1e6); };
  std::int64_t after_ns = ns_of(settings_.delay_ms + settings_.jitter_ms * std::uniform_real_distribution<>()(random_));
  const std::int64_t waits_ns = time_in_line(packet, now_ns);
  if (waits_ns > kLongestLineNs && counted(kLost)) return deliveries;
  after_ns += waits_ns;
  if (settings_.resets > 0 && packet.is_tcp() && packet.payload_bytes() > 0 && counted(kReset)) {
    --settings_.resets;
    deliveries.push_back({after_ns, packet.as_reset()});
  }
  alter(packet);
  if (happens(settings_.duplicate) && counted(kDuplicate)) deliveries.push_back({after_ns + ns_of(1), packet});
  if (happens(settings_.reorder) && counted(kReordered)) after_ns += ns_of(5 + settings_.delay_ms / 2);
  deliveries.push_back({after_ns, std::move(packet)});
  return deliveries;
}

bool Faults::stops(const Packet& packet, std::int64_t now_ns) {
  const bool cut = settings_.cut.contains(packet.from()) || settings_.cut.contains(packet.to()) ||
                   settings_.cut_ways.contains({packet.from(), packet.to()});
  if (cut) return counted(kCut);
  if (settings_.largest_bytes > 0 && static_cast<double>(packet.bytes().size()) > settings_.largest_bytes)
    return counted(kTooLarge);
  if (settings_.forget_s > 0 && packet.is_tcp() && forgotten(packet, now_ns)) return counted(kForgotten);
  return happens(settings_.loss) && counted(kLost);
}

bool Faults::forgotten(const Packet& packet, std::int64_t now_ns) {
  const Connection connection = packet.connection();
  if (packet.opens()) forgotten_.erase(connection);
  const auto [last, first] = last_ns_.emplace(connection, now_ns);
  const bool silent =
      !first && !packet.opens() && static_cast<double>(now_ns - last->second) > settings_.forget_s * 1e9;
  if (silent) forgotten_.insert(connection);
  last->second = now_ns;
  return forgotten_.contains(connection);
}

// Returns how long a packet waits for those before it. One that would wait too long gets no place in the line.
std::int64_t Faults::time_in_line(const Packet& packet, std::int64_t now_ns) {
  if (settings_.flow_megabytes <= 0 || !packet.is_tcp()) return 0;
  std::int64_t& free_ns = free_ns_[{packet.connection(), packet.from()}];
  const auto own_ns =
      static_cast<std::int64_t>(static_cast<double>(packet.bytes().size()) * 1e3 / settings_.flow_megabytes);
  const std::int64_t waits_ns = std::max(free_ns - now_ns, std::int64_t{0}) + own_ns;
  if (waits_ns <= kLongestLineNs) free_ns = now_ns + waits_ns;
  return waits_ns;
}

void Faults::alter(Packet& packet) {
  const std::size_t size = packet.bytes().size();
  if (size > packet.header_bytes() && happens(settings_.corrupt) && counted(kCorrupt))
    packet.flip_bit(any_of(packet.header_bytes(), size), static_cast<unsigned>(any_of(0, 8)));
  if (!packet.is_tcp() || packet.payload_bytes() < settings_.flip_bytes || !happens(settings_.flip)) return;
  counted(kFlipped);
  packet.flip_bit(any_of(packet.payload_offset(), size), static_cast<unsigned>(any_of(0, 8)));
  packet.mend_checksums();
}

std::string Faults::counts() const {
  static constexpr std::array<const char*, kCounts> kNames{"packets", "lost",    "cut",     "too_large", "forgotten",
                                                           "reset",   "corrupt", "flipped", "reordered", "duplicate"};
  std::string text;
  for (std::size_t i = 0; i < kCounts; ++i)
    text += (i == 0 ? "{\"" : ", \"") + std::string(kNames[i]) + "\": " + std::to_string(counts_[i]);
  return text + "}";
}

}  // namespace wreath::wire
