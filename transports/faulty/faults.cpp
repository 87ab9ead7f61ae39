// Reads the rates and draws the faults.
#include "transports/faulty/faults.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>

namespace wreath {
namespace {

template <typename T>
bool read(std::string_view text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

struct RateRow {
  std::string_view name;
  double FaultRates::*rate;
};
constexpr std::array kRates{RateRow{"delay", &FaultRates::delay}, RateRow{"drop", &FaultRates::drop},
                            RateRow{"close", &FaultRates::close}, RateRow{"truncate", &FaultRates::truncate}};

bool read_field(FaultRates& rates, std::string_view name, std::string_view value) {
  if (name == "seed") return read(value, rates.seed);
  if (name == "delay_ms") return read(value, rates.delay_ms) && rates.delay_ms > 0;
  for (const RateRow& row : kRates) {
    if (row.name == name) return read(value, rates.*row.rate) && rates.*row.rate >= 0 && rates.*row.rate <= 1;
  }
  return false;
}

}  // namespace

Result<FaultRates> parse_faults(std::string_view text) {
  FaultRates rates;
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view field = rest.substr(0, rest.find(','));
    rest.remove_prefix(field.size() < rest.size() ? field.size() + 1 : field.size());
    const std::size_t equals = field.find('=');
    if (equals == std::string_view::npos || !read_field(rates, field.substr(0, equals), field.substr(equals + 1))) {
      return Error{ErrorCode::InvalidArgument,
                   fmt::format("faults: '{}' must be one of delay, drop, close, truncate = a probability, delay_ms = "
                               "milliseconds, seed = a number",
                               field)};
    }
  }
  return rates;
}

FaultSource::FaultSource(const FaultRates& rates, Rank from, Rank to)
    : rates_(rates),
      random_(rates.seed * 0x9E3779B97F4A7C15u + static_cast<std::uint64_t>(from) * 65'537 +
              static_cast<std::uint64_t>(to)) {}

LinkFault FaultSource::next() {
  double draw = std::uniform_real_distribution<double>()(random_);
  constexpr std::array kFaults{LinkFault::Delay, LinkFault::Drop, LinkFault::Close, LinkFault::Truncate};
  for (std::size_t i = 0; i < kFaults.size(); ++i) {
    const double rate = rates_.*kRates[i].rate;
    if (draw < rate) return kFaults[i];
    draw -= rate;
  }
  return LinkFault::None;
}

std::int64_t FaultSource::delay_ms() {
  return std::uniform_int_distribution<std::int64_t>(1, rates_.delay_ms)(random_);
}

}  // namespace wreath
