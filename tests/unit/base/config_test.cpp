// Tests the settings: their defaults, their bounds, and messages that name the variable.
#include "src/base/config.hpp"

#include <gmock/gmock.h>

#include <cstdlib>

namespace wreath {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Sets a variable of the environment for the lifetime of the object.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;
  ~Variable() { unsetenv(name_); }

 private:
  const char* name_;
};

TEST(Settings, HaveDefaultsThatTheirTypesAccept) {
  EXPECT_EQ(setting_text(Setting::Debug), "WARN");
  EXPECT_EQ(setting_bytes(Setting::BufferBytes).value(), 32u << 20);
  EXPECT_EQ(setting_integer(Setting::StallTimeoutMs).value(), 30'000);
  EXPECT_TRUE(setting_boolean(Setting::Reproducible).value());
  EXPECT_FALSE(setting_boolean(Setting::Insecure).value());
  for (const SettingRow& row : kSettings) {
    const bool is_number = row.maximum > 0 && !row.fallback.empty();
    if (!is_number || row.name.ends_with("BYTES") || row.fallback == "auto") continue;
    EXPECT_TRUE(setting_integer(row.setting)) << row.name;
  }
  EXPECT_TRUE(setting_bytes(Setting::TileBytes));
}

TEST(Settings, TakeTheEnvironmentsValueAndIgnoreAnEmptyOne) {
  const Variable lanes("WREATH_LANES", "4");
  const Variable bytes("WREATH_BUFFER_BYTES", "1.5G");
  const Variable empty("WREATH_STALL_TIMEOUT_MS", "");
  EXPECT_EQ(setting_integer(Setting::Lanes).value(), 4);
  EXPECT_EQ(setting_bytes(Setting::BufferBytes).value(), 3ull << 29);
  EXPECT_EQ(setting_integer(Setting::StallTimeoutMs).value(), 30'000);
  EXPECT_TRUE(is_set(Setting::Lanes));
  EXPECT_FALSE(is_set(Setting::StallTimeoutMs));
}

TEST(Settings, RefuseWithTheNameTheValueAndTheRange) {
  for (const char* wrong : {"-1", "65", "four", "4 ", " 4", "4x", "0x4", "99999999999999999999"}) {
    const Variable lanes("WREATH_LANES", wrong);
    const Result<std::int64_t> value = setting_integer(Setting::Lanes);
    ASSERT_FALSE(value) << wrong;
    EXPECT_EQ(value.error().code, ErrorCode::InvalidArgument);
    EXPECT_EQ(value.error().message, std::string("WREATH_LANES=") + wrong + " must be a whole number from 0 to 64");
  }
  const Variable bytes("WREATH_BUFFER_BYTES", "1K");
  EXPECT_THAT(setting_bytes(Setting::BufferBytes).error().message,
              HasSubstr("WREATH_BUFFER_BYTES=1K must be a size from 64K"));
  const Variable boolean("WREATH_REPRODUCIBLE", "maybe");
  EXPECT_EQ(setting_boolean(Setting::Reproducible).error().message, "WREATH_REPRODUCIBLE=maybe must be 1 or 0");
}

TEST(Settings, SayWhenARequiredOneIsMissing) {
  unsetenv("WORLD_SIZE");
  EXPECT_EQ(setting_integer(Setting::WorldSize).error().message,
            "WORLD_SIZE is not set; it must be a whole number from 1 to 1048576");
}

TEST(Settings, NeverPrintTheKey) {
  const Variable key("WREATH_KEY", "secret");
  const Result<bool> value = setting_boolean(Setting::Key);
  EXPECT_EQ(value.error().message.find("secret"), std::string::npos);
}

TEST(Settings, ReadBooleansInAnySpelling) {
  for (const char* yes : {"1", "true", "YES", "On"}) {
    const Variable variable("WREATH_INSECURE", yes);
    EXPECT_TRUE(setting_boolean(Setting::Insecure).value()) << yes;
  }
  for (const char* no : {"0", "False", "no", "OFF"}) {
    const Variable variable("WREATH_INSECURE", no);
    EXPECT_FALSE(setting_boolean(Setting::Insecure).value()) << no;
  }
}

TEST(Settings, NameTheNearestSettingOfAnUnknownOne) {
  EXPECT_THAT(unknown_settings(), IsEmpty());
  const Variable slip("WREATH_BUFER_BYTES", "1M");
  const Variable far("WREATH_SOMETHING_ELSE", "1");
  const Variable known("WREATH_LANES", "1");
  EXPECT_THAT(unknown_settings(),
              ElementsAre("WREATH_BUFER_BYTES is not a setting; did you mean WREATH_BUFFER_BYTES?",
                          "WREATH_SOMETHING_ELSE is not a setting; docs/formats.md lists them all"));
}

TEST(Settings, SayWhatReplacedAFormerOne) {
  const Variable slots("WREATH_SLOTS", "8");
  EXPECT_THAT(unknown_settings(), ElementsAre("WREATH_SLOTS is not a setting any more; use "
                                              "CommunicatorOptions::overrides.slot_count"));
}

TEST(Settings, TakeASubstituteWhereTheVariableIsNotSet) {
  substitute(Setting::PortRange, "40000-40100");
  EXPECT_TRUE(is_set(Setting::PortRange));
  EXPECT_EQ(setting_text(Setting::PortRange), "40000-40100");
  {
    const Variable set("WREATH_PORT_RANGE", "50000-50001");
    EXPECT_EQ(setting_text(Setting::PortRange), "50000-50001");
  }
  substitute(Setting::PortRange, "");
  EXPECT_FALSE(is_set(Setting::PortRange));
}

}  // namespace
}  // namespace wreath
