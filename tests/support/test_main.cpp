// Runs test programs. Beside the flags of GoogleTest they take:
//   --folder=unit/fifo   the tests whose sources are in tests/unit/fifo; leaving none is an error
//   --part=2/3           every third of these tests, the second first
//   --role=NAME ...      no test, but a role of tests/support/processes.hpp
#include <cstdlib>
#include <stdexcept>

#include "tests/support/processes.hpp"

namespace wreath::testing_support {
namespace {

int run_role(int argc, char** argv) {
  Arguments arguments;
  for (int i = 2; i < argc; ++i) {
    const std::string argument = argv[i];
    const std::size_t equals = argument.find('=');
    arguments[argument.substr(0, equals)] = argument.substr(equals + 1);
  }
  try {
    Child child(std::move(arguments));
    return roles().at(argv[1] + std::string_view("--role=").size())(child);
  } catch (const std::exception& failure) {
    std::cerr << "role failed: " << failure.what() << "\n";
    return 99;
  }
}

struct Choice {
  std::string folder;
  int part = 1;
  int parts = 1;

  // Returns the value of an argument of ours; nullptr for any other argument.
  static const char* value_of(const std::string_view argument, const std::string_view name) {
    return argument.starts_with(name) ? argument.data() + name.size() : nullptr;
  }
  // Returns whether this took the argument.
  bool take(const char* argument) {
    if (const char* const value = value_of(argument, "--folder=")) {
      folder = value;
      return true;
    }
    const char* const value = value_of(argument, "--part=");
    return value != nullptr && std::sscanf(value, "%d/%d", &part, &parts) == 2;
  }
};

// Excludes the tests that are not chosen from --gtest_filter, by their names.
void leave_out_others(const Choice& choice) {
  const std::string place = "tests/" + choice.folder + "/";
  std::string& filter = testing::GTEST_FLAG(filter);
  std::string separator = filter.find('-') == std::string::npos ? "-" : ":";
  const testing::UnitTest& all = *testing::UnitTest::GetInstance();
  int found = 0;
  for (int i = 0; i < all.total_test_suite_count(); ++i) {
    const testing::TestSuite& suite = *all.GetTestSuite(i);
    for (int j = 0; j < suite.total_test_count(); ++j) {
      const testing::TestInfo& test = *suite.GetTestInfo(j);
      const bool here = std::string_view(test.file()).find(place) != std::string_view::npos;
      if (here && found++ % choice.parts == choice.part - 1) continue;
      filter += separator + suite.name() + "." + test.name();
      separator = ":";
    }
  }
}

int run_tests(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  Choice choice;
  for (int i = 1; i < argc; ++i) {
    if (choice.take(argv[i])) continue;
    std::cerr << argv[0] << " does not know the argument " << argv[i] << "\n";
    return 2;
  }
  if (choice.folder.empty()) return RUN_ALL_TESTS();
  leave_out_others(choice);
  const int code = RUN_ALL_TESTS();
  if (testing::UnitTest::GetInstance()->test_to_run_count() > 0) return code;
  std::cerr << "no test of tests/" << choice.folder << " was chosen\n";
  return 1;
}

}  // namespace
}  // namespace wreath::testing_support

int main(int argc, char** argv) {
  const bool role = argc > 1 && std::string_view(argv[1]).starts_with("--role=");
  return role ? wreath::testing_support::run_role(argc, argv) : wreath::testing_support::run_tests(argc, argv);
}
