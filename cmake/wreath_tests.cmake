# This file makes tests: programs of whole areas, entries of ctest for their folders, and targets that build the
# programs of a choice of entries. `ctest -L '^LABEL$'` runs the entries that `tests_LABEL` built. A label is the kind
# of a test (its folder of tests/), or `quick` for short ones (tests/CMakeLists.txt). `asan` and `tsan` are for tests
# that can differ under that sanitizer, `nightly_asan` and `nightly_tsan` for those in long runs.

# An entry that takes longer is cut in parts, which run side by side.
set(WREATH_TEST_TIMEOUT 60 CACHE STRING "Seconds that one entry of ctest may take; sanitizers get ten times as many")
set(wreath_test_timeout ${WREATH_TEST_TIMEOUT})
if(WREATH_SANITIZE)
  math(EXPR wreath_test_timeout "10 * ${WREATH_TEST_TIMEOUT}")
endif()
# The tests' own libcuda.so.1 is in this folder.
set(wreath_fake_cuda ${PROJECT_BINARY_DIR}/tests/fake_cuda)

# wreath_test_targets(NAME TARGETS...) makes `tests_NAME` build these targets, too.
function(wreath_test_targets name)
  if(NOT TARGET tests_${name})
    add_custom_target(tests_${name})
  endif()
  if(ARGN)
    add_dependencies(tests_${name} ${ARGN})
  endif()
endfunction()

# wreath_entry(NAME COMMAND words... LABELS labels... [TARGETS targets...] [ENVIRONMENT NAME=VALUE...]
#   [PROPERTIES name value...]) makes an entry of ctest. TARGETS need not name those that its command names.
function(wreath_entry name)
  cmake_parse_arguments(arg "" "" "COMMAND;LABELS;TARGETS;ENVIRONMENT;PROPERTIES" ${ARGN})
  list(GET arg_COMMAND 0 program)
  if(TARGET ${program})
    list(APPEND arg_TARGETS ${program})
  endif()
  string(REGEX MATCHALL "<TARGET_[A-Z_]+:[A-Za-z0-9_]+>" files "${arg_COMMAND};${arg_ENVIRONMENT}")
  list(TRANSFORM files REPLACE "<.*:(.*)>" "\\1")
  list(APPEND arg_TARGETS ${files})
  add_test(NAME ${name} COMMAND ${arg_COMMAND} COMMAND_EXPAND_LISTS)
  # A tuning file of this machine would change what is tested.
  set_tests_properties(${name} PROPERTIES LABELS "${arg_LABELS}" TIMEOUT ${wreath_test_timeout} SKIP_RETURN_CODE 77
    ENVIRONMENT "WREATH_TUNING=none;${arg_ENVIRONMENT}" ${arg_PROPERTIES})
  list(REMOVE_DUPLICATES arg_TARGETS)
  foreach(choice IN LISTS arg_LABELS ITEMS ${name})
    wreath_test_targets(${choice} ${arg_TARGETS})
  endforeach()
endfunction()

# wreath_test_program(NAME FOLDERS...  [SOURCES files...] [LINK libraries...] [DEFINITIONS ...] [TARGETS targets...])
# makes NAME_test, one program of folders beside this file. TARGETS are the targets that it runs or loads.
function(wreath_test_program name)
  cmake_parse_arguments(arg "" "" "SOURCES;LINK;DEFINITIONS;TARGETS" ${ARGN})
  get_filename_component(kind ${CMAKE_CURRENT_SOURCE_DIR} NAME)
  set(libraries ${arg_LINK})
  foreach(folder IN LISTS arg_UNPARSED_ARGUMENTS)
    file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*.cpp)
    if(NOT sources)
      message(FATAL_ERROR "tests/${kind}/${folder} has no sources")
    endif()
    list(APPEND arg_SOURCES ${sources})
    # A folder's own library is linked where there is one.
    list(APPEND libraries $<TARGET_NAME_IF_EXISTS:wreath_${folder}>)
    set_property(GLOBAL PROPERTY wreath_program_of_${kind}/${folder} ${name}_test)
  endforeach()
  wreath_program(${name}_test ${arg_SOURCES} LINK wreath_test_main ${libraries})
  target_compile_definitions(${name}_test PRIVATE WREATH_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
    WREATH_BINARY_DIR="${PROJECT_BINARY_DIR}/bin" ${arg_DEFINITIONS})
  # Tests measure code in the libraries. AddressSanitizer makes the optimising of the tests' own code slow.
  set(level 1)
  if("address" IN_LIST WREATH_SANITIZE)
    set(level 0)
  endif()
  target_compile_options(${name}_test PRIVATE -O${level})
  # A preset with units gets one unit for the program.
  set_target_properties(${name}_test PROPERTIES UNITY_BUILD_BATCH_SIZE 0)
  if(arg_TARGETS)
    add_dependencies(${name}_test ${arg_TARGETS})
  endif()
endfunction()

# wreath_test(FOLDER [SANITIZERS asan tsan] [QUICK [filter]] [VARIANT name] [PARTS count [count when sanitized]]
#   [ENVIRONMENT NAME=VALUE...] [PROPERTIES name value...] [FILTER filter])
# makes the tests of a folder beside this file an entry of ctest, KIND_FOLDER. KIND_FOLDER_VARIANT runs the same tests
# in another environment, where FILTER may choose among them. QUICK gives the entry the label. With a filter, QUICK
# makes those tests an entry of their own, KIND_FOLDER_quick, and the others stay. PARTS makes so many entries
# KIND_FOLDER_NUMBER, which share the tests. A folder that no wreath_test_program() named is a program of its own.
function(wreath_test folder)
  cmake_parse_arguments(arg "" "VARIANT;FILTER" "SANITIZERS;QUICK;PARTS;ENVIRONMENT;PROPERTIES" ${ARGN})
  get_filename_component(kind ${CMAKE_CURRENT_SOURCE_DIR} NAME)
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
  set(common ENVIRONMENT ${arg_ENVIRONMENT} PROPERTIES ${arg_PROPERTIES})
  set(filter ${arg_FILTER})
  if("QUICK" IN_LIST arg_KEYWORDS_MISSING_VALUES)
    list(APPEND labels quick)
  elseif(arg_QUICK)
    wreath_entry(${name}_quick COMMAND ${command} --gtest_filter=${arg_QUICK} LABELS ${labels} quick ${common})
    set(filter *-${arg_QUICK})
  endif()
  if(filter)
    list(APPEND command --gtest_filter=${filter})
  endif()
  list(APPEND arg_PARTS 1)
  list(GET arg_PARTS 0 parts)
  if(WREATH_SANITIZE AND arg_PARTS MATCHES ";.*;")
    list(GET arg_PARTS 1 parts)
  endif()
  foreach(part RANGE 1 ${parts})
    if(parts GREATER 1)
      wreath_entry(${name}_${part} COMMAND ${command} --part=${part}/${parts} LABELS ${labels} ${common})
    else()
      wreath_entry(${name} COMMAND ${command} LABELS ${labels} ${common})
    endif()
  endforeach()
endfunction()
