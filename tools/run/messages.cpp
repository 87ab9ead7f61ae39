// Messages between the launcher and its agents: a header of fixed size, and a text.
#include "tools/run/messages.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <stdexcept>
#include <string_view>

#include "src/base/socket.hpp"
#include "src/json/value.hpp"

namespace wreath::launcher {
namespace {

constexpr std::size_t kMostText = std::size_t{16} << 20;
// The header has four little-endian numbers: kind, rank, value, and the bytes of the text.
constexpr std::size_t kHeader = 16;

void put(std::string& bytes, std::uint32_t value) {
  for (int i = 0; i < 4; ++i) bytes += static_cast<char>(value >> (8 * i) & 0xFFU);
}

std::uint32_t get(std::string_view bytes, std::size_t at) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i)
    value |= static_cast<std::uint32_t>(static_cast<unsigned char>(bytes[at + i])) << (8 * i);
  return value;
}

// JSON holds text alone, and words of a command may be any bytes. So a byte travels as the character of its number.
std::string text_of(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) {
    const auto value = static_cast<unsigned char>(byte);
    if (value >= 0x80U) text += static_cast<char>(0xC0U | value >> 6U);
    text += value < 0x80U ? byte : static_cast<char>(0x80U | (value & 0x3FU));
  }
  return text;
}

std::vector<std::string> texts_of(const std::vector<std::string>& words) {
  std::vector<std::string> texts;
  for (const std::string& word : words) texts.push_back(text_of(word));
  return texts;
}

// Reads what text_of() wrote. JSON has seen that the text is UTF-8.
std::string bytes_of(std::string_view text) {
  std::string bytes;
  unsigned high = 0;
  for (const char each : text) {
    const auto value = static_cast<unsigned char>(each);
    if (value >= 0xC4U) throw std::invalid_argument("a character of it is no byte");
    if (value >= 0xC0U) {
      high = (value & 3U) << 6U;
    } else {
      bytes += value < 0x80U ? each : static_cast<char>(high | (value & 0x3FU));
    }
  }
  return bytes;
}

std::vector<std::string> bytes_of(const std::vector<std::string>& texts) {
  std::vector<std::string> words;
  for (const std::string& text : texts) words.push_back(bytes_of(text));
  return words;
}

}  // namespace

std::string encode(const Message& message) {
  std::string bytes;
  bytes.reserve(kHeader + message.text.size());
  put(bytes, static_cast<std::uint32_t>(message.kind));
  put(bytes, static_cast<std::uint32_t>(message.rank));
  put(bytes, static_cast<std::uint32_t>(message.value));
  put(bytes, static_cast<std::uint32_t>(message.text.size()));
  return bytes + message.text;
}

Result<std::optional<Message>> MessageReader::next() {
  if (buffer_.size() < kHeader) return std::optional<Message>();
  const std::uint32_t kind = get(buffer_, 0);
  const std::size_t size = get(buffer_, 12);
  if (kind > static_cast<std::uint32_t>(Kind::Start) || size > kMostText)
    return Error{ErrorCode::StartupFailed, "what arrived is no message of `wreath run`: do the versions differ?"};
  if (buffer_.size() < kHeader + size) return std::optional<Message>();
  Message message{static_cast<Kind>(kind), static_cast<std::int32_t>(get(buffer_, 4)),
                  static_cast<std::int32_t>(get(buffer_, 8)), buffer_.substr(kHeader, size)};
  buffer_.erase(0, kHeader + size);
  return std::optional(std::move(message));
}

bool MessageReader::skip_to_greeting(std::string& noise) {
  const std::size_t at = buffer_.find(kGreeting);
  if (at != std::string::npos) {
    noise += buffer_.substr(0, at);
    buffer_.erase(0, at + kGreeting.size());
    return true;
  }
  const std::size_t keep = std::min(buffer_.size(), kGreeting.size() - 1);
  noise += buffer_.substr(0, buffer_.size() - keep);
  buffer_.erase(0, buffer_.size() - keep);
  return false;
}

std::string encode(const HostJob& job) {
  const Json json{{"ranks", job.ranks},
                  {"all_ranks", job.all_ranks},
                  {"command", texts_of(job.command)},
                  {"folder", text_of(job.folder)},
                  {"environment", texts_of(job.environment)},
                  {"unset", job.unset},
                  {"bind", job.bind == Bind::Cores},
                  {"elastic_folder", text_of(job.elastic_folder)}};
  return json.dump({.sorted = true, .strict = false});
}

Result<HostJob> decode_job(std::string_view text) {
  try {
    const Json json = Json::parse(text);
    HostJob job;
    json.at("ranks").get_to(job.ranks);
    json.at("all_ranks").get_to(job.all_ranks);
    job.command = bytes_of(json.at("command").get<std::vector<std::string>>());
    job.folder = bytes_of(json.at("folder").get<std::string>());
    job.environment = bytes_of(json.at("environment").get<std::vector<std::string>>());
    json.at("unset").get_to(job.unset);
    job.bind = json.at("bind").get<bool>() ? Bind::Cores : Bind::None;
    job.elastic_folder = bytes_of(json.at("elastic_folder").get<std::string>());
    if (job.ranks.empty() || job.command.empty()) throw std::invalid_argument("it is empty");
    return job;
  } catch (const std::exception& problem) {
    return Error{ErrorCode::StartupFailed, fmt::format("the launcher's job cannot be read: {}", problem.what())};
  }
}

}  // namespace wreath::launcher
