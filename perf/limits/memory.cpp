// Measures bandwidth by the library's own kernels on private buffers of every thread at once.
#include "perf/limits/memory.hpp"

#include <limits>

#include "kernels/kernels.hpp"
#include "perf/limits/machine.hpp"
#include "perf/limits/team.hpp"

namespace wreath::perf {
namespace {

double gbps(std::size_t bytes, int threads, double us) {
  return static_cast<double>(bytes) * threads / (us * 1e-6) / 1e9;
}

Bandwidth measure(TeamMember& member, std::size_t working_set_bytes, const Effort& effort) {
  // A copy needs two buffers, and a sum needs three, in whole pages.
  constexpr std::size_t kPage = 4096;
  const std::size_t half = std::max(kPage, working_set_bytes / 2 / kPage * kPage);
  const std::size_t third = std::max(kPage, working_set_bytes / 3 / kPage * kPage);
  const Pages pages(half + 2 * third);
  std::byte* target = pages.data();
  Bandwidth best;
  for (const CopyKernel copy : {copy_kernels().plain, copy_kernels().fill, copy_kernels().stream}) {
    const double us = member.median_us(effort, [&] { copy(target, pages.data() + half, half); });
    best.copy_gbps = std::max(best.copy_gbps, gbps(2 * half, member.ranks(), us));
  }
  const std::byte* sources[] = {pages.data() + third, pages.data() + 2 * third};
  const Arithmetic sum = arithmetic(DataType::Float32, ReduceOp::Sum, 2);
  const double us =
      member.median_us(effort, [&] { sum.combine(sum, target, Form::Data, sources, 2, {}, third / sizeof(float)); });
  best.reduce_gbps = gbps(3 * third, member.ranks(), us);
  return best;
}

}  // namespace

Bandwidth memory_bandwidth(std::size_t working_set_bytes, int threads, const Effort& effort) {
  Bandwidth result{kNotANumber, kNotANumber};
  run_team(threads, [&](TeamMember& member) {
    const Bandwidth own = measure(member, working_set_bytes, effort);
    if (member.rank() == 0) result = own;
  });
  return result;
}

}  // namespace wreath::perf
