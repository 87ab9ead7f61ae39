// Examples without arguments call this function. --help shows how to start them, and any other argument ends the
// program with code 2.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string_view>

inline void refuse_arguments(int argc, char** argv) {
  if (argc == 1) return;
  const std::string_view first = argv[1];
  const bool asked = argc == 2 && (first == "--help" || first == "-h");
  if (!asked) std::fprintf(stderr, "wreath: error: unknown argument '%s'\n", argv[1]);
  std::fprintf(asked ? stdout : stderr, "usage: %s   (no arguments; ranks by a launcher: wreath run -n 4 %s)\n",
               argv[0], argv[0]);
  std::exit(asked ? EXIT_SUCCESS : 2);
}
