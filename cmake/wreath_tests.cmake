# This file makes tests: programs of whole areas, entries of ctest for their folders, and targets that build the
# programs of a choice of entries. `ctest -L '^LABEL$'` runs the entries that `tests_LABEL` built. A label is the kind
# of a test (its folder of tests/), or `quick` for short ones (tests/CMakeLists.txt). `asan` and `tsan` are for tests
# that can differ under that sanitizer, `nightly_asan` and `nightly_tsan` for those in long runs. `./run test` leaves out
# `nightly`.

# An entry that takes longer is cut in parts, which run side by side.
set(WREATH_TEST_TIMEOUT 60 CACHE STRING "Seconds that one entry of ctest may take; sanitizers get ten times as many")
set(wreath_test_timeout ${WREATH_TEST_TIMEOUT})
if(WREATH_SANITIZE)
  math(EXPR wreath_test_timeout "10 * ${WREATH_TEST_TIMEOUT}")
endif()
# Tests measure what is in the libraries. AddressSanitizer makes the optimising of its code slow. Without any, loops over
# schedules and numbers take three times as long.
set(wreath_test_level 1)
if("address" IN_LIST WREATH_SANITIZE)
  set(wreath_test_level 0)
endif()
# For the tests that name programs of the build. The others are the same in every build folder, for a compiler's cache.
set(wreath_programs_folder WREATH_BINARY_DIR="${PROJECT_BINARY_DIR}/bin")
# Folders, and files of others, that are not in this build.
set(wreath_left_out unit/no_device)
if(NOT WREATH_DEVICE)
  set(wreath_left_out unit/device unit/device_regions unit/far_memory conformance/block_executor conformance/cuda_blocks
    conformance/device multiprocess/device_memory training/cuda_device training/device
    conformance/verbs/device_memory_test.cpp faults/abort/freed_memory_test.cpp unit/commands/gpu_check_test.cpp unit/commands/perf_streams_test.cpp unit/communicator/own_device_test.cpp
    unit/communicator/runs_test.cpp unit/kernels/block_roles_test.cpp unit/perf/device_patterns_test.cpp)
endif()
# Its test counts allocations by operators of its own, and sanitizers have theirs.
if(WREATH_SANITIZE)
  list(APPEND wreath_left_out unit/communicator/call_cost_test.cpp)
endif()
if(NOT (WREATH_VERBS AND verbs_FOUND))
  list(APPEND wreath_left_out conformance/verbs unit/fake_verbs unit/transports_verbs)
endif()
if(NOT (WREATH_OFI AND ofi_FOUND))
  list(APPEND wreath_left_out unit/transports_ofi)
endif()
set(wreath_fake_cuda ${PROJECT_BINARY_DIR}/tests/fake_cuda)  # where a libcuda.so.1 of the tests' own is
# Providers of libfabric keep memory that nothing refers to.
set(wreath_ofi_leaks LSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/support/libfabric_leaks.txt:print_suppressions=0)
# With it the transport ofi can be used everywhere: libfabric makes reliable datagrams of sockets. It is for entries whose
# tests name their transports.
set(wreath_ofi_provider WREATH_OFI_PROVIDER=tcp ${wreath_ofi_leaks})
set(wreath_shuffled_fabric ${PROJECT_BINARY_DIR}/tests/shuffled_fabric)  # where a libfabric.so.1 without order is
set(wreath_fake_verbs ${PROJECT_BINARY_DIR}/tests/fake_verbs)  # where a libibverbs.so.1 of the tests' own is

# wreath_test_targets(NAME TARGETS...) makes `tests_NAME` build these targets, too.
function(wreath_test_targets name)
  if(NOT TARGET tests_${name})
    add_custom_target(tests_${name})
  endif()
  if(ARGN)
    add_dependencies(tests_${name} ${ARGN})
  endif()
endfunction()

# wreath_entry(NAME COMMAND words... LABELS labels... [WAITS] [TARGETS targets...] [ENVIRONMENT NAME=VALUE...]
#   [PROPERTIES name value...]) makes an entry of ctest. TARGETS need not name those that its command names. An entry that
# mostly WAITS runs beside those that keep the cores busy. Even these use two thirds of two cores, so `ctest -j` wants
# three times the number of cores, and one.
function(wreath_entry name)
  cmake_parse_arguments(arg "WAITS" "" "COMMAND;LABELS;TARGETS;ENVIRONMENT;PROPERTIES" ${ARGN})
  list(GET arg_COMMAND 0 program)
  if(TARGET ${program})
    list(APPEND arg_TARGETS ${program})
  endif()
  string(REGEX MATCHALL "<TARGET_[A-Z_]+:[A-Za-z0-9_]+>" files "${arg_COMMAND};${arg_ENVIRONMENT}")
  list(TRANSFORM files REPLACE "<.*:(.*)>" "\\1")
  list(APPEND arg_TARGETS ${files})
  add_test(NAME ${name} COMMAND ${arg_COMMAND} COMMAND_EXPAND_LISTS)
  set(processors 2)
  if(arg_WAITS)
    set(processors 1)
  endif()
  # A tuning file of this machine would change what is tested.
  set_tests_properties(${name} PROPERTIES PROCESSORS ${processors} LABELS "${arg_LABELS}" TIMEOUT ${wreath_test_timeout} SKIP_RETURN_CODE 77
    ENVIRONMENT "WREATH_TUNING=none;${arg_ENVIRONMENT}" ${arg_PROPERTIES})
  list(REMOVE_DUPLICATES arg_TARGETS)
  foreach(choice IN LISTS arg_LABELS ITEMS ${name})
    wreath_test_targets(${choice} ${arg_TARGETS})
  endforeach()
endfunction()

# wreath_test_program(NAME FOLDERS...  [SOURCES files...] [LINK libraries...] [DEFINITIONS ...] [TARGETS targets...]):
# NAME_test, one program of folders beside this file. TARGETS are what it runs or loads. What the build leaves out is not
# in it; there is no program of nothing else.
function(wreath_test_program name)
  cmake_parse_arguments(arg "" "" "SOURCES;LINK;DEFINITIONS;TARGETS" ${ARGN})
  get_filename_component(kind ${CMAKE_CURRENT_SOURCE_DIR} NAME)
  list(TRANSFORM arg_UNPARSED_ARGUMENTS PREPEND ${kind}/)
  list(REMOVE_ITEM arg_UNPARSED_ARGUMENTS ${wreath_left_out})
  list(TRANSFORM arg_UNPARSED_ARGUMENTS REPLACE "^${kind}/" "")
  if(NOT arg_UNPARSED_ARGUMENTS)
    return()
  endif()
  set(left_out ${wreath_left_out})
  list(TRANSFORM left_out PREPEND ${PROJECT_SOURCE_DIR}/tests/)
  set(libraries ${arg_LINK})
  foreach(folder IN LISTS arg_UNPARSED_ARGUMENTS)
    file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*.cpp)
    if(NOT sources)
      message(FATAL_ERROR "tests/${kind}/${folder} has no sources")
    endif()
    list(REMOVE_ITEM sources ${left_out})
    list(APPEND arg_SOURCES ${sources})
    # A folder's own library is linked where there is one.
    list(APPEND libraries $<TARGET_NAME_IF_EXISTS:wreath_${folder}>)
    set_property(GLOBAL PROPERTY wreath_program_of_${kind}/${folder} ${name}_test)
  endforeach()
  wreath_program(${name}_test ${arg_SOURCES} LINK wreath_test_main ${libraries})
  target_compile_definitions(${name}_test PRIVATE WREATH_SOURCE_DIR="${PROJECT_SOURCE_DIR}" ${arg_DEFINITIONS})
  # A preset with units gets one unit for the program.
  set_target_properties(${name}_test PROPERTIES UNITY_BUILD_BATCH_SIZE 0)
  if(CMAKE_UNITY_BUILD)
    target_precompile_headers(${name}_test REUSE_FROM wreath_test_main)
  endif()
  if(arg_TARGETS)
    add_dependencies(${name}_test ${arg_TARGETS})
  endif()
endfunction()

# wreath_test(FOLDER [WAITS] [SANITIZERS asan tsan] [QUICK [filter]] [LABELS labels...] [VARIANT name] [PARTS count [count when sanitized]]
#   [ENVIRONMENT NAME=VALUE...] [PROPERTIES name value...] [FILTER filter])
# makes the tests of a folder beside this file an entry of ctest, KIND_FOLDER. KIND_FOLDER_VARIANT runs the same tests
# in another environment, where FILTER may choose among them. QUICK gives the entry the label. With a filter, QUICK
# makes those tests an entry of their own, KIND_FOLDER_quick, and the others stay. LABELS are more labels of the quick
# entry. PARTS makes so many entries KIND_FOLDER_NUMBER, which share the tests, and as many quick ones. A folder that no
# wreath_test_program() named is a program of its own.
function(wreath_test folder)
  cmake_parse_arguments(arg "WAITS" "VARIANT;FILTER" "SANITIZERS;QUICK;LABELS;PARTS;ENVIRONMENT;PROPERTIES" ${ARGN})
  get_filename_component(kind ${CMAKE_CURRENT_SOURCE_DIR} NAME)
  if("${kind}/${folder}" IN_LIST wreath_left_out)
    set_property(GLOBAL APPEND PROPERTY wreath_tested_folders ${kind}/${folder})
    return()
  endif()
  get_property(program GLOBAL PROPERTY wreath_program_of_${kind}/${folder})
  if(NOT program)
    wreath_test_program(${kind}_${folder} ${folder})
    set(program ${kind}_${folder}_test)
  endif()
  set(name ${kind}_${folder})
  if(arg_VARIANT)
    string(APPEND name _${arg_VARIANT})
  elseif(arg_FILTER OR "${arg_QUICK}" MATCHES "-")
    message(FATAL_ERROR "${name}: each test of a folder has an entry that runs it; only a variant may leave some out")
  else()
    set_property(GLOBAL APPEND PROPERTY wreath_tested_folders ${kind}/${folder})
  endif()
  set(command ${program} --folder=${kind}/${folder})
  set(labels ${kind} ${arg_SANITIZERS})
  set(common)
  if(arg_WAITS)
    set(common WAITS)
  endif()
  list(APPEND common ENVIRONMENT ${arg_ENVIRONMENT} PROPERTIES ${arg_PROPERTIES})
  list(APPEND arg_PARTS 1)
  list(GET arg_PARTS 0 parts)
  if(WREATH_SANITIZE AND arg_PARTS MATCHES ";.*;")
    list(GET arg_PARTS 1 parts)
  endif()
  set(filter ${arg_FILTER})
  if("QUICK" IN_LIST arg_KEYWORDS_MISSING_VALUES)
    list(APPEND labels quick ${arg_LABELS})
  elseif(arg_QUICK)
    set(quick_command ${command} --gtest_filter=${arg_QUICK})
    wreath_parts(${name}_quick ${parts} "${quick_command}" LABELS ${labels} quick ${arg_LABELS} ${common})
    set(filter *-${arg_QUICK})
  endif()
  if(filter)
    list(APPEND command --gtest_filter=${filter})
  endif()
  wreath_parts(${name} ${parts} "${command}" LABELS ${labels} ${common})
endfunction()

# wreath_parts(NAME COUNT COMMAND ...) makes entries that share a command's tests. The rest is for wreath_entry().
function(wreath_parts name parts command)
  foreach(part RANGE 1 ${parts})
    if(parts GREATER 1)
      wreath_entry(${name}_${part} COMMAND ${command} --part=${part}/${parts} ${ARGN})
    else()
      wreath_entry(${name} COMMAND ${command} ${ARGN})
    endif()
  endforeach()
endfunction()
