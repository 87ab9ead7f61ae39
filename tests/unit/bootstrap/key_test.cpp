// Tests where keys come from, and which files are refused.
#include "src/bootstrap/key.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "tests/unit/bootstrap/helpers.hpp"
#include "wreath/key.hpp"

namespace wreath {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const std::string kDigits(64, 'a');

class KeyFiles : public ::testing::Test {
 protected:
  std::string write(const std::string& text, mode_t mode = 0600) {
    const std::string path = folder_.path() + "/key";
    std::ofstream(path) << text;
    EXPECT_EQ(::chmod(path.c_str(), mode), 0);
    return path;
  }
  Folder folder_;
  Environment environment_{{{"HOME", folder_.path()}, {"WREATH_KEY", ""}, {"WREATH_KEY_FILE", ""}}};
};

TEST_F(KeyFiles, AreReadWhenPrivate) {
  for (const mode_t mode : {0600U, 0400U}) {
    const std::string path = write(kDigits + "\n", mode);
    EXPECT_TRUE(Key::load(path)) << mode;
    std::filesystem::remove(path);
  }
}

TEST_F(KeyFiles, AreRefusedWhenOthersMayRead) {
  for (const mode_t mode : {0640U, 0604U, 0660U, 0644U, 0620U}) {
    auto key = Key::load(write(kDigits, mode));
    ASSERT_FALSE(key) << mode;
    EXPECT_THAT(key.error().message, HasSubstr("chmod 600"));
  }
}

TEST_F(KeyFiles, AreRefusedWhenOwnedByAnother) {
  const std::string path = write(kDigits);
  if (::chown(path.c_str(), 12345, 12345) != 0) GTEST_SKIP() << "only root can give a file away: run it as root";
  auto key = Key::load(path);
  ASSERT_FALSE(key);
  EXPECT_THAT(key.error().message, HasSubstr("owned by user 12345"));
}

TEST_F(KeyFiles, AreRefusedWhenNotAKeyAndNeverQuoted) {
  for (const std::string& text :
       {std::string(), std::string(63, 'b'), std::string(65, 'b'), std::string(200, 'b'), std::string(63, 'b') + "g"}) {
    auto key = Key::load(write(text));
    ASSERT_FALSE(key) << text.size();
    EXPECT_THAT(key.error().message, HasSubstr("64 hexadecimal digits"));
    EXPECT_THAT(key.error().message, Not(HasSubstr("bbbb")));
  }
}

TEST_F(KeyFiles, AreRefusedWhenNotFiles) {
  const std::string pipe = folder_.path() + "/pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  for (const std::string& path : {pipe, folder_.path(), folder_.path() + "/none"}) {
    auto key = Key::load(path);
    ASSERT_FALSE(key);
    EXPECT_THAT(key.error().message, HasSubstr(path));
  }
}

TEST_F(KeyFiles, AreFoundInOrder) {
  EXPECT_EQ(find_key().value().key, nullptr);
  ASSERT_TRUE(create_key_file());
  EXPECT_EQ(find_key().value().source, default_key_path());
  const Environment with_key{{{"WREATH_KEY", kDigits}}};
  EXPECT_EQ(find_key().value().source, "WREATH_KEY");
  const Environment with_file{{{"WREATH_KEY_FILE", write(kDigits)}}};
  EXPECT_EQ(find_key().value().source, "WREATH_KEY_FILE");
}

TEST_F(KeyFiles, AreNoneWhereTheHomeIsNoFolder) {
  const Environment home{{{"HOME", "/dev/null"}}};
  EXPECT_EQ(find_key().value().source, "none");
}

TEST_F(KeyFiles, ThatAreNamedButUnusableAreErrors) {
  const Environment missing{{{"WREATH_KEY_FILE", folder_.path() + "/none"}, {"WREATH_KEY", kDigits}}};
  auto found = find_key();
  ASSERT_FALSE(found);
  EXPECT_THAT(found.error().message, HasSubstr("WREATH_KEY_FILE"));
}

TEST_F(KeyFiles, InTheVariableAreCheckedAndNeverQuoted) {
  const Environment bad{{{"WREATH_KEY", "c0ffee-secret"}}};
  auto found = find_key();
  ASSERT_FALSE(found);
  EXPECT_THAT(found.error().message, HasSubstr("WREATH_KEY"));
  EXPECT_THAT(found.error().message, Not(HasSubstr("c0ffee")));
}

TEST_F(KeyFiles, AreMadePrivateAndNotReplacedUnasked) {
  auto path = create_key_file();
  ASSERT_TRUE(path) << path.error().message;
  struct stat status {};
  ASSERT_EQ(::stat(path->c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777U, 0600U);
  const auto first = Key::load(*path).value()->tag({});
  auto again = create_key_file();
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, ErrorCode::InvalidUsage);
  EXPECT_EQ(Key::load(*path).value()->tag({}), first);
  ASSERT_TRUE(create_key_file(true));
  EXPECT_NE(Key::load(*path).value()->tag({}), first);
  const auto folder = std::filesystem::path(*path).parent_path();
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator()), 1);
}

TEST(Key, DerivesDifferentKeysForDifferentPurposes) {
  const auto key = test_key();
  EXPECT_EQ(key->derive("a", {})->tag({}), key->derive("a", {})->tag({}));
  EXPECT_NE(key->derive("a", {})->tag({}), key->derive("b", {})->tag({}));
  EXPECT_NE(key->derive("a", {})->tag({}), key->tag({}));
}

}  // namespace
}  // namespace wreath
