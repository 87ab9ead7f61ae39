// Only the table of transports and a transport's own folder name the transport. All other code uses its row.
#include <gtest/gtest.h>

#include "tests/style/source_tree.hpp"
#include "wreath/transport.hpp"

namespace wreath {
namespace {

// Returns the transport whose whole name is a string in the code of that line, or an empty text if there is none.
std::string_view transport_named_in(std::string line) {
  for (const std::string_view comment : {"//", "# "}) line = line.substr(0, line.find(comment));
  for (const TransportRow& row : transports()) {
    for (const char quote : {'"', '\''}) {
      if (line.find(quote + std::string(row.name) + quote) != std::string::npos) return row.name;
    }
  }
  return {};
}

bool may_name(const std::string& path, std::string_view transport) {
  for (const std::string& place :
       {std::string("tests/"), std::string("examples/"), std::string("transports/registry.cpp"),
        "transports/" + std::string(transport) + "/"}) {
    if (path.starts_with(place)) return true;
  }
  return false;
}

TEST(Style, NothingComparesNamesOfTransports) {
  for (const SourceFile& file : source_files({".c", ".h", ".cpp", ".hpp", ".cu", ".cuh", ".py"})) {
    for (std::size_t i = 0; i < file.lines.size(); ++i) {
      const std::string_view named = transport_named_in(file.lines[i]);
      EXPECT_TRUE(named.empty() || may_name(file.path, named))
          << file.path << ":" << i + 1 << ": names the transport " << named << "; ask its row in the table";
    }
  }
}

TEST(Style, TheCounterOfNamesFindsThem) {
  EXPECT_EQ(transport_named_in("if (name == \"tcp\") return;"), "tcp");
  EXPECT_EQ(transport_named_in("options.transports = ['shm']"), "shm");
  EXPECT_EQ(transport_named_in("f();  // as \"tcp\" does"), "");
  EXPECT_EQ(transport_named_in("{\"tcp_us\", \"shm: mapped\"}"), "");
  EXPECT_TRUE(may_name("transports/tcp/link.cpp", "tcp"));
  EXPECT_FALSE(may_name("transports/tcp/link.cpp", "shm"));
  EXPECT_FALSE(may_name("src/tuner/rules.cpp", "shm"));
}

}  // namespace
}  // namespace wreath
