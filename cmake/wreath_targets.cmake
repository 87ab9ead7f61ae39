# This file has the options that every target shares, and the functions that make targets from folders.

# These options are for this project and for programs that link it.
add_library(wreath_usage INTERFACE)
target_compile_features(wreath_usage INTERFACE cxx_std_20)
target_include_directories(wreath_usage INTERFACE
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>)
target_compile_definitions(wreath_usage INTERFACE $<$<BOOL:${WREATH_PLANTED_FAULTS}>:WREATH_PLANTED_FAULTS>)
# Continuous integration builds with GCC 12. Newer compilers warn of more, also in the headers of other libraries.
if(WREATH_WERROR AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 13)
  message(STATUS "Warnings are no errors: GCC ${CMAKE_CXX_COMPILER_VERSION} is newer than the project's, which is 12")
  set(WREATH_WERROR OFF)
endif()
# These options are for this project alone. Contraction is off, since sums must not depend on what the compiler fuses
# (docs/decisions/0002).
add_library(wreath_flags INTERFACE)
target_compile_options(wreath_flags INTERFACE
  -Wall -Wextra -Wconversion -Wsign-conversion -Wshadow $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor> -ffp-contract=off
  $<$<BOOL:${WREATH_WERROR}>:-Werror>
  # A release has the same bytes, whatever folder it was built in.
  "$<$<CONFIG:Release>:-ffile-prefix-map=${PROJECT_SOURCE_DIR}=.;-ffile-prefix-map=${PROJECT_BINARY_DIR}=build>")
if(WREATH_SANITIZE)
  string(REPLACE ";" "," sanitizers "${WREATH_SANITIZE}")
  # AddressSanitizer reports what null, vptr and object-size would report, which take a sixth of the compilation.
  target_compile_options(wreath_usage INTERFACE -fsanitize=${sanitizers} -fno-sanitize=null,vptr,object-size
    # Drivers are loaded by types of our own. Empty buffers may be null pointers, to which offsets are added.
    $<$<CXX_COMPILER_ID:Clang>:-fno-sanitize=function,pointer-overflow>
    # Checked code is long, and grows where it is inlined: by default a third of the compilation is spent on that.
    "$<$<CXX_COMPILER_ID:Clang>:SHELL:-mllvm -inline-threshold=25>"
    -fno-omit-frame-pointer -fno-sanitize-recover=all)
  # Each compiler has another macro for it.
  target_compile_definitions(wreath_usage INTERFACE WREATH_SANITIZED)
  target_link_options(wreath_usage INTERFACE -fsanitize=${sanitizers})
endif()

# Highway compiles such a file once per instruction set, by including it again. No unit of several files may hold it.
function(wreath_keep_vector_code_apart)
  # It is slow unless it is optimised. A release has -O3.
  set(optimised $<$<CONFIG:RelWithDebInfo>:-O2>)
  if(WREATH_SANITIZE AND CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    # Otherwise clang 14 takes more than eight minutes for reduce.cpp.
    list(APPEND optimised -fno-sanitize=undefined)
  endif()
  foreach(source IN LISTS ARGN)
    file(STRINGS ${source} vector_code LIMIT_COUNT 1 REGEX "hwy/foreach_target.h")
    if(vector_code)
      set_source_files_properties(${source} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON SKIP_PRECOMPILE_HEADERS ON
        COMPILE_OPTIONS "${optimised}")
    endif()
  endforeach()
endfunction()

# wreath_precompile(NAME): in a build by units that has tests, libraries and programs read these headers once for all, and
# have the flags of this one for that. What ships reads them each time, so that its bytes depend on nothing else.
function(wreath_precompile name)
  if(NOT (CMAKE_UNITY_BUILD AND WREATH_TESTS))
    return()
  endif()
  if(NOT TARGET wreath_precompiled)
    file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/precompiled.cpp CONTENT "")
    add_library(wreath_precompiled OBJECT ${PROJECT_BINARY_DIR}/precompiled.cpp)
    target_link_libraries(wreath_precompiled PRIVATE wreath_usage wreath_flags fmt::fmt)
    # A time in it would make each compilation another one for a compiler's cache.
    target_compile_options(wreath_precompiled PRIVATE "$<$<CXX_COMPILER_ID:Clang>:SHELL:-Xclang -fno-pch-timestamp>")
    target_precompile_headers(wreath_precompiled PRIVATE <fmt/format.h> <algorithm> <array> <atomic> <chrono>
      <condition_variable> <cstring> <deque> <functional> <map> <memory> <mutex> <optional> <set> <span> <string>
      <string_view> <thread> <utility> <variant> <vector>)
  endif()
  target_precompile_headers(${name} REUSE_FROM wreath_precompiled)
  # Programs would have -fPIE.
  target_compile_options(${name} PRIVATE -fPIC)
endfunction()

# Programs of tests are many and large; mold links each in a fraction of a second. Installed programs are linked as
# usual.
if(WREATH_TESTS AND NOT CMAKE_CROSSCOMPILING)
  find_program(WREATH_MOLD mold)
  if(WREATH_MOLD)
    # mold 1.10 hides names of libwreath.map that have a [, so it links programs only.
    string(APPEND CMAKE_EXE_LINKER_FLAGS " -fuse-ld=mold")
  endif()
endif()

# wreath_library(NAME [LINK libraries...] [EXCLUDE folders...]): a static library of all .cpp files in this folder and
# below, but for those of folders that are libraries of their own.
function(wreath_library name)
  cmake_parse_arguments(arg "" "" "LINK;EXCLUDE" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  foreach(folder IN LISTS arg_EXCLUDE)
    list(FILTER sources EXCLUDE REGEX "^${CMAKE_CURRENT_SOURCE_DIR}/${folder}/")
  endforeach()
  if(sources)
    wreath_keep_vector_code_apart(${sources})
    add_library(${name} STATIC ${sources})
    target_link_libraries(${name} PUBLIC wreath_usage ${arg_LINK} PRIVATE wreath_flags)
    wreath_precompile(${name})
  else()  # headers only
    add_library(${name} INTERFACE)
    target_link_libraries(${name} INTERFACE wreath_usage ${arg_LINK})
  endif()
endfunction()

# wreath_program(NAME SOURCES... [LINK libraries...]) makes a program that links the library.
function(wreath_program name)
  cmake_parse_arguments(arg "" "" "LINK" ${ARGN})
  add_executable(${name} ${arg_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE wreath wreath_flags ${arg_LINK})
  wreath_precompile(${name})
endfunction()
