// Hello, all-reduce: four ranks as threads, or the ranks a launcher started; everyone gets the sum.
//
//   01_hello_all_reduce                                              four threads of this process
//   torchrun --nproc-per-node 4 --no-python 01_hello_all_reduce      one rank per process
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "wreath/wreath.hpp"

namespace {

void hello(wreath::Communicator& communicator) {
  std::vector<float> values(4, static_cast<float>(communicator.rank() + 1));
  communicator.all_reduce(std::span(values)).value();
  std::printf("rank %d of %d: %g %g %g %g\n", communicator.rank(), communicator.ranks(), values[0], values[1],
              values[2], values[3]);
}

void run() {
  if (std::getenv("RANK") != nullptr) {
    auto communicator = wreath::Communicator::create_from_environment().value();
    return hello(communicator);
  }
  auto communicators = wreath::Communicator::create_local(4).value();
  std::vector<std::jthread> threads;
  for (auto& communicator : communicators) threads.emplace_back([&] { hello(communicator); });
}

}  // namespace

int main() try {
  run();
  return 0;
} catch (const wreath::Exception& failure) {
  std::fprintf(stderr, "wreath: error: %s\n", failure.what());
  return wreath::exit_code(failure.error().code);
}
