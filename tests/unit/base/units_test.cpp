// Tests sizes in the form in which people write them.
#include "wreath/units.hpp"

#include <gmock/gmock.h>

namespace wreath {
namespace {

using ::testing::HasSubstr;

struct Size {
  const char* text;
  std::uint64_t bytes;
};

TEST(Units, ReadBinarySizes) {
  const Size sizes[] = {{"0", 0},
                        {"8", 8},
                        {"8B", 8},
                        {"1K", 1024},
                        {"64k", 65536},
                        {"64KB", 65536},
                        {"64KiB", 65536},
                        {"64kib", 65536},
                        {"1.5M", 3u << 19},
                        {"0.5K", 512},
                        {"2G", 2ull << 30},
                        {"1T", 1ull << 40},
                        {"9223372036854775807", 9223372036854775807ull}};
  for (const Size& size : sizes) {
    const Result<std::uint64_t> bytes = parse_bytes(size.text);
    ASSERT_TRUE(bytes) << size.text << ": " << bytes.error().message;
    EXPECT_EQ(*bytes, size.bytes) << size.text;
  }
}

TEST(Units, SayWhatIsWrongWithASize) {
  const std::pair<const char*, const char*> wrong[] = {
      {"", "start with a number"},
      {"K", "start with a number"},
      {"-1", "start with a number"},
      {" 1", "start with a number"},
      {"1 K", "unknown suffix ' K'"},
      {"1Q", "unknown suffix 'Q'; use K, M, G or T, alone or as KiB, MiB, GiB or TiB"},
      {"1KiBs", "unknown suffix"},
      {"1e3", "unknown suffix"},
      {"1.2.3K", "malformed"},
      {".", "malformed"},
      {"1.5", "not a whole number"},
      {"0.0001K", "not a whole number"},
      {"8589934592G", "2^63"},
      {"9223372036854775808", "2^63"},
      {"99999999999999999999999", "2^63"},
      {"99999999999999999999.5T", "2^63"}};
  for (const auto& [text, reason] : wrong) {
    const Result<std::uint64_t> bytes = parse_bytes(text);
    ASSERT_FALSE(bytes) << text;
    EXPECT_EQ(bytes.error().code, ErrorCode::InvalidArgument);
    EXPECT_THAT(bytes.error().message, HasSubstr(reason)) << text;
    EXPECT_THAT(bytes.error().message, HasSubstr(std::string("'") + text + "'"));
  }
}

TEST(Units, WriteWhatTheyRead) {
  const Size sizes[] = {{"0", 0},           {"8", 8},           {"1023", 1023},      {"1K", 1024},
                        {"1025", 1025},     {"256K", 1u << 18}, {"1536K", 3u << 19}, {"32M", 32u << 20},
                        {"4G", 1ull << 32}, {"1T", 1ull << 40}};
  for (const Size& size : sizes) {
    EXPECT_EQ(format_bytes(size.bytes), size.text);
    EXPECT_EQ(parse_bytes(size.text).value(), size.bytes);
  }
}

}  // namespace
}  // namespace wreath
