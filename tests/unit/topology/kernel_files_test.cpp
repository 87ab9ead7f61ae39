// The small files of the kernel give lists, numbers and fields, also where they hold nonsense.
#include "src/topology/kernel_files.hpp"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include "src/base/printable.hpp"
#include "tests/support/fake_machine.hpp"
#include "wreath/topology.hpp"

namespace wreath {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(KernelFiles, ListsAreRangesAndNumbers) {
  EXPECT_THAT(parse_list("0-3,8,10-11\n"), ElementsAre(0, 1, 2, 3, 8, 10, 11));
  EXPECT_THAT(parse_list("7"), ElementsAre(7));
  EXPECT_THAT(parse_list("3,1-2,2"), ElementsAre(1, 2, 3));
}

TEST(KernelFiles, WhatIsNoListGivesNothing) {
  for (const char* text :
       {"", "\n", "-", "3-", "-3", "3-1", "a", "1,a", "1 2", "1-2-3", "99999999999999999999", "2000000"}) {
    EXPECT_THAT(parse_list(text), IsEmpty()) << text;
  }
}

TEST(KernelFiles, ListsAreWrittenAsTheyAreRead) {
  for (const char* text : {"", "0", "0-3", "0,2,4-5", "1,3"}) EXPECT_EQ(format_list(parse_list(text)), text);
}

TEST(KernelFiles, NumbersMayBeHexadecimalAndMayBeMissing) {
  const test::FakeMachine machine;
  machine.file("/a", "-1");
  machine.file("/b", "0x1f");
  machine.file("/c", "48K");
  machine.file("/d", "none");
  EXPECT_EQ(number_of(machine.root() + "/a"), -1);
  EXPECT_EQ(number_of(machine.root() + "/b"), 31);
  EXPECT_EQ(number_of(machine.root() + "/c"), 48);
  EXPECT_EQ(number_of(machine.root() + "/d"), std::nullopt);
  EXPECT_EQ(number_of(machine.root() + "/missing"), std::nullopt);
}

// A copy of another machine's files may hold anything, also a file without an end.
TEST(KernelFiles, WhatHasNoEndIsNotReadToItsEnd) {
  const test::FakeMachine machine;
  machine.file("/long", std::string(1 << 20, 'x'));
  EXPECT_LE(line_of(machine.root() + "/long").size(), (64U << 10) + 1);
  ASSERT_EQ(::mkfifo((machine.root() + "/fifo").c_str(), 0600), 0);
  EXPECT_EQ(line_of(machine.root() + "/fifo"), "");
  EXPECT_EQ(line_of("/dev/zero"), "");
  EXPECT_EQ(field_of("/dev/zero", "key"), "");
}

TEST(KernelFiles, WhatCannotBeShownIsAQuestionMark) {
  EXPECT_EQ(printable("Intel\xC2\xAE \xE2\x82\xAC \xF0\x9F\x8E\x84 <b>"),
            "Intel\xC2\xAE \xE2\x82\xAC \xF0\x9F\x8E\x84 <b>");
  EXPECT_EQ(printable("a\x1B[31m\x7F\n"), "a?[31m??");
  EXPECT_EQ(printable("\xFF\xFE\x80"), "???") << "never in UTF-8";
  EXPECT_EQ(printable("x\xE2\x82"), "x??") << "cut off";
  EXPECT_EQ(printable("\xC0\x80\xC2\x9B\xED\xA0\x80\xEF\xBF\xBF"), "??????????")
      << "longer than needed, or no character";
}

TEST(KernelFiles, ListsAreOfAMachineThatCanBe) {
  std::string text = "0-1048575";
  for (int i = 0; i < 100; ++i) text += ",0-1048575";
  EXPECT_TRUE(parse_list(text).empty());
}

TEST(KernelFiles, FieldsAreFoundByTheirWholeName) {
  const test::FakeMachine machine;
  machine.file("/fields", "MemTotalX: 1\nMemTotal:    16 kB\nmodel name\t: A B\nbare 5");
  EXPECT_EQ(field_of(machine.root() + "/fields", "MemTotal"), "16 kB");
  EXPECT_EQ(field_of(machine.root() + "/fields", "model name"), "A B");
  EXPECT_EQ(field_of(machine.root() + "/fields", "bare"), "5");
  EXPECT_EQ(field_of(machine.root() + "/fields", "Mem"), "");
}

TEST(KernelFiles, NamesComeInTheOrderOfTheirNumbers) {
  const test::FakeMachine machine;
  for (const char* name : {"/f/node10", "/f/node2", "/f/eth0", "/f/0000:0a:00.0", "/f/0000:09:00.0"})
    machine.file(name, "");
  EXPECT_THAT(entries_of(machine.root() + "/f"),
              ElementsAre("0000:0a:00.0", "0000:09:00.0", "eth0", "node2", "node10"));
  EXPECT_THAT(entries_of(machine.root() + "/missing"), IsEmpty());
}

}  // namespace
}  // namespace wreath
