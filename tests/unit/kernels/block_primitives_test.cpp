// Tests the primitives of blocks, with threads that take turns: they give the same bits as the reference.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "kernels/block/combine.hpp"
#include "kernels/kernels.hpp"
#include "tests/support/processes.hpp"
#include "tests/unit/kernels/values.hpp"

namespace wreath::block_primitives {
namespace {

// Stands for one thread of a block. The threads of a block run one after the other, since they do not interact.
class OneThread {
 public:
  explicit OneThread(unsigned thread) : thread_(thread) {}
  unsigned thread() const { return thread_; }
  static unsigned threads() { return 7; }

 private:
  unsigned thread_;
};

template <typename Body>
void run_block(Body body) {
  for (unsigned thread = 0; thread < OneThread::threads(); ++thread) body(OneThread(thread));
}

// Holds memory that is aligned to 16 bytes. The sources start at `offset` bytes in it.
struct Inputs {
  Inputs(DataType dtype, int k, std::size_t elements, std::size_t offset) : memory(static_cast<std::size_t>(k)) {
    std::mt19937 random(static_cast<unsigned>(k * 1000) + static_cast<unsigned>(elements));
    for (auto& words : memory) {
      words.resize((offset + elements * size_of(dtype)) / 16 + 1);
      auto* first = reinterpret_cast<std::byte*>(words.data()) + offset;
      fill(dtype, random, first, elements);
      sources.push_back(first);
    }
  }
  std::vector<std::vector<Word16>> memory;
  std::vector<const std::byte*> sources;
};

using Combine = void (*)(const OneThread&, const Arithmetic&, const BlockWork&);

Combine combine_of(DataType dtype) {
  return for_dtype(dtype, []<typename T>(T) -> Combine { return block_combine<T, OneThread>; });
}

struct Case {
  int k;
  Form messages;
  Form target;
  std::size_t offset;
};

// Expects the bits of the reference. The middle source is the rank's own, which is untouched.
void expect_combines(const Arithmetic& of, const Case& point, std::size_t elements) {
  const DataType wide = accumulator_of(of.dtype);
  const Inputs data(of.dtype, point.k, elements, point.offset);
  const Inputs partials(wide, point.k, elements, point.offset);
  const int own = point.k / 2;
  std::vector<const std::byte*> sources = point.messages == Form::Data ? data.sources : partials.sources;
  sources[static_cast<std::size_t>(own)] = data.sources[static_cast<std::size_t>(own)];
  const std::size_t bytes = elements * size_of(point.target == Form::Data ? of.dtype : wide);
  std::vector<std::byte> expected(bytes + 16);
  const Operands operands{point.messages, own, Form::Data};
  combine_reference(of, expected.data(), point.target, sources.data(), point.k, operands, elements);
  std::vector<Word16> output(bytes / 16 + 1);
  const BlockWork work{BlockWork::Kind::Combine,
                       point.target,
                       reinterpret_cast<std::byte*>(output.data()),
                       sources.data(),
                       point.k,
                       operands,
                       elements};
  run_block([&](const OneThread& thread) { combine_of(of.dtype)(thread, of, work); });
  ASSERT_EQ(0, std::memcmp(output.data(), expected.data(), bytes))
      << name(of.dtype) << " " << name(of.reduction.op) << " k " << point.k << " elements " << elements << " offset "
      << point.offset << " messages " << static_cast<int>(point.messages) << " to " << static_cast<int>(point.target);
}

TEST(BlockPrimitives, CombineLikeTheReference) {
  for (const DataType dtype : all_dtypes()) {
    for (const ReduceOp op : all_ops()) {
      const Reduction reduction = op == ReduceOp::PremultipliedSum ? Reduction::premultiplied_sum(3.0) : Reduction(op);
      for (const int k : {1, 2, 3, 4, 5, 6, 7, 8, 9, 14, 17, 64, 200, 256, 257}) {
        const Arithmetic of = arithmetic(dtype, reduction, k);
        // Most time goes to many sources, so each number of elements has one offset there.
        const bool all = k <= 17 || testing_support::takes_every_case();
        // These elements fill words of 16 bytes without a rest.
        const std::size_t whole = all ? 400 : 48;
        for (const Form messages : {Form::Data, Form::Partial}) {
          for (const Form target : {Form::Data, Form::Partial}) {
            // This case is a copy.
            if (k == 1 && of.moves(Form::Data, target)) continue;
            for (const std::size_t offset : {0u, 8u}) {
              for (const std::size_t elements :
                   {std::size_t{0}, std::size_t{1}, std::size_t{29}, whole, std::size_t{130}}) {
                if (!all && (elements == 1 || elements == 29) != (offset == 0)) continue;
                ASSERT_NO_FATAL_FAILURE(expect_combines(of, {k, messages, target, offset}, elements));
              }
            }
          }
        }
      }
    }
  }
}

constexpr std::size_t kGuard = 32;  // bytes on each side

void expect_copies(std::size_t to, std::size_t from, std::size_t bytes) {
  const Inputs inputs(DataType::Uint8, 1, bytes, from);
  std::vector<Word16> memory((kGuard + to + bytes + kGuard) / 16 + 1);
  auto* all = reinterpret_cast<std::byte*>(memory.data());
  std::memset(all, 0xa5, memory.size() * 16);
  std::vector<std::byte> expected(all, all + memory.size() * 16);
  std::byte* target = all + kGuard + to;
  std::copy_n(inputs.sources[0], bytes, expected.data() + kGuard + to);
  const BlockWork work{BlockWork::Kind::Copy, Form::Data, target, inputs.sources.data(), 1, {}, bytes};
  run_block([&](const OneThread& thread) { block_copy(thread, work); });
  ASSERT_EQ(0, std::memcmp(all, expected.data(), expected.size())) << bytes << " from " << from << " to " << to;
}

TEST(BlockPrimitives, CopyEveryByteAndNoOtherAtAnyAlignment) {
  for (std::size_t to = 0; to < 16; ++to) {
    for (std::size_t from = 0; from < 16; ++from) {
      for (const std::size_t bytes :
           {0u, 1u, 2u, 3u, 7u, 8u, 15u, 16u, 17u, 31u, 55u, 56u, 57u, 112u, 1000u, 1350u, 3001u}) {
        ASSERT_NO_FATAL_FAILURE(expect_copies(to, from, bytes));
      }
    }
  }
}

}  // namespace
}  // namespace wreath::block_primitives
