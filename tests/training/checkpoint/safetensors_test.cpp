// The safetensors format: its bytes are written, ranges are read, and every way in which a file can be wrong is
// refused.
#include "training/checkpoint/safetensors.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <fstream>
#include <random>

#include "tests/support/surroundings.hpp"
#include "training/checkpoint/file_set.hpp"

namespace wreath::training {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using wreath::test::Folder;

void write_file(const std::string& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string little_endian(std::uint64_t value) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes.push_back(static_cast<char>(value >> (8 * i)));
  return bytes;
}

// Returns a file with this header and `data_bytes` bytes of tensors.
std::string file_of(const std::string& json, std::size_t data_bytes) {
  return little_endian(json.size()) + json + std::string(data_bytes, '\1');
}

Result<SafetensorsHeader> parse(const std::string& file) { return parse_safetensors(file, file.size(), "f"); }

std::string refusal(const std::string& file) {
  const Result<SafetensorsHeader> header = parse(file);
  return header ? "accepted" : header.error().message;
}

std::vector<StoredTensor> one_of_each() {
  return {{"b", TensorType::F32, {2, 3}, 0, 0},  {"half", TensorType::F16, {3}, 0, 0},
          {"brain", TensorType::BF16, {}, 0, 0}, {"long", TensorType::I64, {1}, 0, 0},
          {"a", TensorType::F32, {0, 4}, 0, 0},  {"double", TensorType::F64, {2}, 0, 0},
          {"byte", TensorType::U8, {5}, 0, 0}};
}

TEST(Safetensors, HeaderHasTheFormatsBytes) {
  const auto header = lay_out_safetensors({{"w", TensorType::F32, {2, 1}, 0, 0}}, {{"format", "pt"}}).value();
  const std::string json = R"({"__metadata__":{"format":"pt"},"w":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]}})";
  EXPECT_EQ(encode_safetensors(header), little_endian(88) + json + std::string(88 - json.size(), ' '));
  EXPECT_EQ(header.header_bytes, 96u);
  EXPECT_EQ(header.file_bytes(), 104u);
}

TEST(Safetensors, TensorsLieByAlignmentThenNameWithoutHoles) {
  const auto header = lay_out_safetensors(one_of_each(), {}).value();
  std::vector<std::string> names;
  std::uint64_t end = 0;
  for (const StoredTensor& tensor : header.tensors) {
    names.push_back(tensor.name);
    EXPECT_EQ(tensor.begin, end) << tensor.name;
    end = tensor.end;
  }
  EXPECT_EQ(names, (std::vector<std::string>{"long", "double", "a", "b", "brain", "half", "byte"}));
  EXPECT_EQ(end, 8u + 16 + 0 + 24 + 2 + 6 + 5);
  const auto again = parse_safetensors(encode_safetensors(header), header.file_bytes(), "f").value();
  EXPECT_EQ(encode_safetensors(again), encode_safetensors(header));
}

TEST(Safetensors, RangesAreWrittenAndReadBySeveral) {
  const Folder folder;
  const std::string path = folder / "x.safetensors";
  const auto header = lay_out_safetensors(one_of_each(), {}).value();
  const auto first = SafetensorsWriter::create(path, header).value();
  const auto second = SafetensorsWriter::open(path, header).value();
  const std::array<float, 4> front{1, 2, 3, 4};
  const std::array<float, 2> back{5, 6};
  const StoredTensor& tensor = *header.find("b");
  second.write(tensor, 16, std::as_bytes(std::span(back))).value();
  first.write(tensor, 0, std::as_bytes(std::span(front))).value();
  first.sync().value();
  const auto reader = SafetensorsReader::open(path).value();
  std::array<float, 3> middle{};
  reader.read(*reader.header().find("b"), 8, std::as_writable_bytes(std::span(middle))).value();
  EXPECT_EQ(middle, (std::array<float, 3>{3, 4, 5}));
  const Status beyond = reader.read(*reader.header().find("b"), 16, std::as_writable_bytes(std::span(middle)));
  ASSERT_FALSE(beyond);
  EXPECT_THAT(beyond.error().message, AllOf(HasSubstr(path), HasSubstr("\"b\"")));
  EXPECT_FALSE(first.write(tensor, ~std::uint64_t{0}, std::as_bytes(std::span(back))));
  EXPECT_FALSE(SafetensorsWriter::create(path, header)) << "it is there already";
}

TEST(Safetensors, WhatCannotBeStoredIsRefused) {
  const auto refused = [](std::vector<StoredTensor> tensors) {
    const auto header = lay_out_safetensors(std::move(tensors), {});
    return header ? "accepted" : header.error().message;
  };
  EXPECT_THAT(refused({{"a", TensorType::F32, {1}, 0, 0}, {"a", TensorType::U8, {1}, 0, 0}}), HasSubstr("twice"));
  EXPECT_THAT(refused({{"__metadata__", TensorType::F32, {1}, 0, 0}}), HasSubstr("__metadata__"));
  EXPECT_THAT(refused({{"\xff", TensorType::F32, {1}, 0, 0}}), HasSubstr("name"));
  EXPECT_THAT(refused({{"n", TensorType::F32, {-1}, 0, 0}}), AllOf(HasSubstr("\"n\""), HasSubstr("shape")));
  EXPECT_THAT(refused({{"n", TensorType::F32, {1L << 31, 1L << 31, 8}, 0, 0}}), HasSubstr("shape"));
  EXPECT_THAT(refused({{"n", TensorType::F4, {3}, 0, 0}}), HasSubstr("shape"));
}

struct Wrong {
  const char* what;
  std::string file;
  const char* message;
};

// Returns a file of a tensor "t"; the case gives its "shape" and the rest.
std::string tensor_file(const std::string& rest, std::size_t data_bytes) {
  return file_of(R"({"t":{"dtype":"F32",)" + rest + "}", data_bytes);
}

TEST(Safetensors, EveryWrongFileIsRefusedWithItsReason) {
  const std::string good = R"({"t":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  ASSERT_TRUE(parse(file_of(good, 8)));
  ASSERT_TRUE(parse(file_of(good + "   ", 8)));
  ASSERT_TRUE(parse(file_of("{}", 0)));
  const Wrong table[] = {
      {"empty", "", "it has 0 bytes"},
      {"seven bytes", "1234567", "it has 7 bytes"},
      {"header beyond the limit", little_endian(100'000'001) + "{}", "100000001 bytes"},
      {"header of 2^64 - 1", little_endian(~std::uint64_t{0}) + "{}", "no safetensors file"},
      {"header longer than the file", little_endian(99) + good, "cut short"},
      {"no header", little_endian(0), "does not begin with {"},
      {"spaces first", file_of(" " + good, 8), "does not begin with {"},
      {"an array", file_of("[]", 0), "does not begin with {"},
      {"JSON cut short", file_of(good.substr(0, 30), 8), "not JSON"},
      {"more after the header", file_of(good + "x", 8), "not JSON"},
      {"a byte 0 and more", file_of(good + std::string("\0x", 2), 8), "a byte 0 at 54 of its header"},
      {"no UTF-8", file_of("{\"\xff\":{}}", 0), "not JSON"},
      {"a tensor twice", file_of(good.substr(0, good.size() - 1) + "," + good.substr(1), 8), "\"t\" is there twice"},
      {"a tensor that is a number", file_of(R"({"t":3})", 0), "the number 3"},
      {"null", file_of(R"({"t":null})", 0), "null does not belong"},
      {"metadata twice", file_of(R"({"__metadata__":{},"__metadata__":{}})", 0), "second __metadata__"},
      {"metadata with a number", file_of(R"({"__metadata__":{"a":1}})", 0), "the number 1"},
      {"metadata with a key twice", file_of(R"({"__metadata__":{"a":"","a":""}})", 0), "a second \"a\""},
      {"unknown dtype", file_of(R"({"t":{"dtype":"F31","shape":[],"data_offsets":[0,4]}})", 4),
       "tensor \"t\": its dtype is \"F31\""},
      {"dtype a number", file_of(R"({"t":{"dtype":1,"shape":[],"data_offsets":[0,4]}})", 4), "the number 1"},
      {"dtype missing", file_of(R"({"t":{"shape":[],"data_offsets":[0,4]}})", 4), "tensor \"t\": it lacks"},
      {"dtype twice", tensor_file(R"("dtype":"F32","shape":[],"data_offsets":[0,4]})", 4), "a second dtype"},
      {"unknown key", tensor_file(R"("shape":[],"data_offsets":[0,4],"x":1})", 4), "the key \"x\""},
      {"shape missing", tensor_file(R"("data_offsets":[0,4]})", 4), "it lacks"},
      {"shape negative", tensor_file(R"("shape":[-2],"data_offsets":[0,8]})", 8), "a negative number"},
      {"shape with a fraction", tensor_file(R"("shape":[2.0],"data_offsets":[0,8]})", 8), "a fraction"},
      {"shape nested", tensor_file(R"("shape":[[2]],"data_offsets":[0,8]})", 8), "an array"},
      {"shape of 2^63", tensor_file(R"("shape":[9223372036854775808],"data_offsets":[0,8]})", 8), "its shape"},
      {"shape overflows", tensor_file(R"("shape":[4294967296,4294967296],"data_offsets":[0,0]})", 0), "too large"},
      {"shape overflows to zero", tensor_file(R"("shape":[4611686018427387904,4],"data_offsets":[0,0]})", 0),
       "too large"},
      {"one offset", tensor_file(R"("shape":[],"data_offsets":[4]})", 4), "not two numbers"},
      {"three offsets", tensor_file(R"("shape":[],"data_offsets":[0,4,8]})", 8), "the number 8"},
      {"offsets backwards", tensor_file(R"("shape":[1],"data_offsets":[8,4]})", 8), "do not fit"},
      {"offsets too short", tensor_file(R"("shape":[2],"data_offsets":[0,4]})", 4), "do not fit its 8 bytes"},
      {"a hole first", tensor_file(R"("shape":[1],"data_offsets":[4,8]})", 8), "it begins at 4"},
      {"overlap",
       tensor_file(R"("shape":[1],"data_offsets":[0,4]},"u":{"dtype":"F32","shape":[1],"data_offsets":[2,6]})", 6),
       "tensor \"u\": it begins at 2, where the one before ends at 4"},
      {"a hole between",
       tensor_file(R"("shape":[1],"data_offsets":[0,4]},"u":{"dtype":"U8","shape":[1],"data_offsets":[5,6]})", 6),
       "tensor \"u\": it begins at 5"},
      {"tensors cut short", file_of(good, 7), "tensor \"t\": it ends at 8, and the file holds 7: cut short"},
      {"bytes left over", file_of(good, 9), "end at 8 of 9"},
  };
  for (const Wrong& wrong : table) {
    EXPECT_THAT(refusal(wrong.file), AllOf(HasSubstr("f: "), HasSubstr(wrong.message))) << wrong.what;
  }
}

TEST(Safetensors, DeepNestingEndsAtTheSecondLevel) {
  EXPECT_THAT(refusal(file_of("{\"t\":" + std::string(1'000'000, '['), 0)), HasSubstr("an array"));
}

TEST(Safetensors, AnyBytesAreReadOrRefused) {
  const auto header = lay_out_safetensors(one_of_each(), {{"format", "pt"}}).value();
  std::string whole = encode_safetensors(header);
  whole.resize(header.file_bytes());
  std::mt19937_64 random(7);
  int accepted = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string file = whole;
    for (std::uint64_t change = random() % 3 + 1; change > 0; --change) {
      const std::size_t at = random() % file.size();
      if (random() % 4 == 0) file.resize(at + 1);
      file[at] = random() % 3 == 0 ? static_cast<char>(random()) : file[random() % file.size()];
    }
    const Result<SafetensorsHeader> read = parse(file);
    accepted += read ? 1 : 0;
    EXPECT_TRUE(!read || read->file_bytes() == file.size());
  }
  EXPECT_GT(accepted, 100);
  EXPECT_LT(accepted, 19'900);
}

TEST(FileSet, TensorsFillFilesInTheOrderOfTheirNames) {
  std::vector<StoredTensor> tensors;
  for (const char* name : {"c", "a", "b", "large"}) tensors.push_back({name, TensorType::F32, {10}, 0, 0});
  tensors.back().shape = {100};
  const FileSet set = divide("model", tensors, 80).value();
  EXPECT_EQ(set.names, (std::vector<std::string>{"model-00001-of-00003.safetensors", "model-00002-of-00003.safetensors",
                                                 "model-00003-of-00003.safetensors"}));
  EXPECT_EQ(set.places().at("a").file, 0u);
  EXPECT_EQ(set.places().at("b").file, 0u);
  EXPECT_EQ(set.places().at("c").file, 1u);
  EXPECT_EQ(set.places().at("large").file, 2u);
  EXPECT_THAT(index_text(set),
              AllOf(HasSubstr("\"total_size\": 520"), HasSubstr("\"large\": \"model-00003-of-00003.safetensors\"")));
  EXPECT_TRUE(divide("model", {}, 80).value().names.empty());
}

TEST(FileSet, AnIndexThatDoesNotFitItsFilesIsRefused) {
  const Folder folder;
  const FileSet set = divide("model", {{"a", TensorType::U8, {1}, 0, 0}, {"b", TensorType::U8, {1}, 0, 0}}, 10).value();
  ASSERT_TRUE(SafetensorsWriter::create(folder / set.names[0], set.headers[0]));
  const std::string index = folder / index_name("model");
  const auto refused = [&](const std::string& text) {
    write_file(index, text);
    const auto opened = open_file_set(folder.path(), "model");
    return opened ? "accepted" : opened.error().message;
  };
  EXPECT_EQ(refused(index_text(set)), "accepted");
  const std::string file = "\"model-00001-of-00001.safetensors\"";
  EXPECT_THAT(refused("{"), AllOf(HasSubstr(index), HasSubstr("not JSON")));
  EXPECT_THAT(refused(index_text(set) + std::string("\0x", 2)), HasSubstr("not JSON"));
  EXPECT_THAT(refused("[1]"), HasSubstr("no weight_map"));
  EXPECT_THAT(refused(R"({"weight_map":{"a":3}})"), HasSubstr("tensor \"a\" is in no file"));
  EXPECT_THAT(refused(R"({"weight_map":{"a":"../x"}})"), HasSubstr("tensor \"a\" is in no file"));
  EXPECT_THAT(refused(R"({"weight_map":{"a":"y/x"}})"), HasSubstr("tensor \"a\" is in no file"));
  EXPECT_THAT(refused(R"({"weight_map":{"a":"missing.safetensors"}})"), HasSubstr("missing.safetensors"));
  EXPECT_THAT(refused("{\"weight_map\":{\"a\":" + file + "}}"), HasSubstr("tensor \"b\" is not in the index"));
  EXPECT_THAT(refused("{\"weight_map\":{\"a\":" + file + ",\"b\":" + file + ",\"c\":" + file + "}}"),
              HasSubstr("lacks tensor \"c\""));
  EXPECT_EQ(read_file(folder / set.names[0]).size(), set.headers[0].file_bytes());
}

TEST(FileSet, ASingleFileNeedsNoIndex) {
  const Folder folder;
  const auto header = lay_out_safetensors({{"a", TensorType::U8, {1}, 0, 0}}, {}).value();
  ASSERT_TRUE(SafetensorsWriter::create(folder / "model.safetensors", header));
  EXPECT_EQ(open_file_set(folder.path(), "model").value().places().count("a"), 1u);
}

}  // namespace
}  // namespace wreath::training
