# `cmake --install` installs headers, libwreath.so, the programs with their man pages, documents and examples.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/wreath)
set(document_folder ${CMAKE_INSTALL_DATADIR}/doc/wreath)

# Programs need these files to build with the library, by find_package(wreath) or pkg-config.
install(TARGETS wreath_shared EXPORT wreath-targets
  LIBRARY COMPONENT runtime NAMELINK_COMPONENT development)
install(DIRECTORY include/wreath DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development)
install(EXPORT wreath-targets NAMESPACE wreath:: DESTINATION ${package_folder} COMPONENT development)
# These files are not in the build folder's root. CMake finds packages beside folders of PATH, and this one is not
# installed yet.
set(package_files ${CMAKE_CURRENT_BINARY_DIR}/package)
configure_package_config_file(cmake/wreath-config.cmake.in ${package_files}/wreath-config.cmake
  INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(${package_files}/wreath-config-version.cmake COMPATIBILITY SameMinorVersion)
file(RELATIVE_PATH up_to_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(cmake/wreath.pc.in wreath.pc @ONLY)
install(FILES ${package_files}/wreath-config.cmake ${package_files}/wreath-config-version.cmake
  DESTINATION ${package_folder} COMPONENT development)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/wreath.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)

# The drop-in for NCCL has folders of its own, so that only programs that look for it find it (docs/nccl.md).
install(TARGETS wreath_nccl wreath_nccl_audit LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/wreath/nccl COMPONENT nccl)
install(FILES bindings/nccl/nccl.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/wreath/nccl COMPONENT nccl)

# Each program has a man page made from its --help.
if(WREATH_TOOLS)
  get_property(programs DIRECTORY perf PROPERTY BUILDSYSTEM_TARGETS)
  list(FILTER programs INCLUDE REGEX "_perf$")
  list(REMOVE_ITEM programs wreath_perf)
  list(APPEND programs wreath_command)
  install(TARGETS ${programs} RUNTIME COMPONENT tools)
  if(NOT CMAKE_CROSSCOMPILING AND NOT WREATH_SANITIZE)
    set(pages ${CMAKE_CURRENT_BINARY_DIR}/man)
    list(TRANSFORM programs REPLACE "(.+)" "$<TARGET_FILE:\\1>" OUTPUT_VARIABLE files)
    add_custom_command(OUTPUT ${pages}/wreath.1 DEPENDS ${programs} cmake/man_pages
      COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/cmake/man_pages ${pages} "wreath ${PROJECT_VERSION}" ${files} VERBATIM)
    add_custom_target(man_pages ALL DEPENDS ${pages}/wreath.1)
    install(DIRECTORY ${pages}/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT tools)
  endif()
endif()

install(DIRECTORY docs/ DESTINATION ${document_folder} COMPONENT documents)
install(DIRECTORY examples DESTINATION ${document_folder} COMPONENT documents PATTERN CMakeLists.txt EXCLUDE
  # train_gpt needs training/, which is not installed.
  PATTERN train_gpt EXCLUDE)
install(FILES README.md CHANGELOG.md LICENSE DESTINATION ${document_folder} COMPONENT documents)

include(wreath_packages)
